"""Samples that must be decoded: files, compressed bytes, texts. Decoded on workers, order kept."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch

from ..core.base.errors import InputError
from ..core.base.pytree import as_tensor
from ..core.runs import fingerprint
from ..core.runs.function_fingerprint import of_function
from .dataset import Dataset, Field, Gather, some, unpack


class Decoded(Dataset):
    """Samples that become tensors only when they are read.

    The loader's `num_workers` threads decode the samples of a batch, and the next batches ahead of time. Threads, since
    decoders of images, audio and compressed bytes let others run while they work.

    Args:
        samples: anything with a length and indices: paths, bytes, records.
        decode: one sample as a tensor, or a tuple or dict of them; the same form for all.

    Example:
        >>> Decoded(["1 2", "3 4"], lambda text: torch.tensor([float(x) for x in text.split()])).take([1])
        tensor([[3., 4.]])
    """

    def __init__(self, samples: Sequence[Any], decode: Callable[[Any], Any]) -> None:
        self._samples, self._decode = samples, decode
        some(len(samples))
        first, self.pack = self._one(0)
        self.fields = {name: Field(part.dtype, tuple(part.shape)) for name, part in first.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return Decoded, (self._samples, self._decode)

    def __len__(self) -> int:
        return len(self._samples)

    def gather(self, index: np.ndarray, pin: bool = False) -> dict[str, Any]:
        return self._stack([self._checked(number) for number in index.tolist()], pin)

    @contextlib.contextmanager
    def reading(self, workers: int, pin: bool = False) -> Iterator[Gather]:
        if not workers:
            yield partial(self.gather, pin=pin)
            return
        pool = ThreadPoolExecutor(workers, thread_name_prefix="brimful-decode")
        try:
            yield lambda index: self._stack(list(pool.map(self._checked, index.tolist())), pin)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _one(self, number: int) -> tuple[dict[str, torch.Tensor], Callable[[dict[str, Any]], Any]]:
        try:
            fields, pack = unpack(self._decode(self._samples[number]), "what decode gave")
            return {name: as_tensor(part, name) for name, part in fields.items()}, pack
        except Exception as error:
            raise InputError(
                f"sample {number} ({_short(self._samples, number)}) could not be decoded: {error!r}. Mend it, or "
                "leave it out with data.Subset"
            ) from error

    def _checked(self, number: int) -> dict[str, torch.Tensor]:
        fields, _ = self._one(number)
        forms = {name: (part.dtype, tuple(part.shape)) for name, part in fields.items()}
        expected = {name: (field.dtype, field.shape) for name, field in self.fields.items()}
        if forms != expected:
            raise InputError(
                f"sample {number} ({_short(self._samples, number)}) decodes to {forms}, the first to {expected}; all "
                "must be alike: crop or pad in decode"
            )
        return fields

    def _stack(self, rows: list[dict[str, torch.Tensor]], pin: bool) -> dict[str, Any]:
        fields = {}
        for name, field in self.fields.items():
            out = torch.empty((len(rows), *field.shape), dtype=field.dtype, pin_memory=pin)
            for index, row in enumerate(rows):
                out[index] = row[name]
            fields[name] = out
        return fields

    def fingerprint(self) -> str:
        try:
            return fingerprint.of([list(self._samples), of_function(self._decode)])
        except InputError as error:
            raise InputError(
                "the samples to decode have no fingerprint to know them by when a state is restored; pass fingerprint= "
                "with a text that changes whenever they do"
            ) from error


def _short(samples: Sequence[Any], number: int) -> str:
    text = repr(samples[number])
    return text if len(text) <= 80 else f"{text[:77]}..."
