"""Samples that must be decoded: files, compressed bytes, texts. Decoded on workers, order kept."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch

from ..core.base.errors import InputError
from ..core.base.pytree import as_tensor
from ..core.memory.oom import error_line, is_out_of_memory
from ..core.runs import fingerprint
from ..core.runs.function_fingerprint import of_function
from .dataset import Dataset, Field, Gather, called, some, unpack

_LOOKED_AT = 16  # first samples, of which one must be readable


class Decoded(Dataset):
    """Samples that become tensors only when they are read.

    The loader's `num_workers` threads decode the samples of a batch, and the next batches ahead of time. Threads, since
    decoders of images, audio and compressed bytes let others run while they work.

    Args:
        samples: anything with a length and indices: paths, bytes, records.
        decode: one sample as a tensor, or a tuple or dict of them; the same form for all. A sample that it fails on is
            one flagged item of `map`; `train` stops there, and names it.

    Example:
        >>> Decoded(["1 2", "3 4"], lambda text: torch.tensor([float(x) for x in text.split()])).take([1])
        tensor([[3., 4.]])
    """

    _unread, _unlike = "could not be decoded", "crop or pad in decode"  # what a message says of a sample

    def __init__(self, samples: Sequence[Any], decode: Callable[[Any], Any]) -> None:
        self._samples, self._decode = samples, decode
        some(len(samples))
        first, self.pack = self._first()
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

    def load(self, rows: slice | np.ndarray) -> tuple[dict[str, Any], dict[int, str]]:
        """As of any dataset; a sample that cannot be read is a row with its reason, which holds another's values."""
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        taken: list[dict[str, torch.Tensor] | None] = []
        bad: dict[int, str] = {}
        for row, number in enumerate(numbers):
            try:
                taken.append(self._checked(number))
            except InputError as error:
                taken.append(None)
                bad[row] = str(error)
        good = next((sample for sample in taken if sample is not None), None)
        good = good or {name: torch.zeros(field.shape, dtype=field.dtype) for name, field in self.fields.items()}
        return self._stack([good if sample is None else sample for sample in taken], pin=False), bad

    def row_error(self, reason: str, row: int) -> InputError:
        return InputError(reason)

    def _first(self) -> tuple[dict[str, torch.Tensor], Callable[[dict[str, Any]], Any]]:
        """The first sample that can be read, whose form is that of all; an error where none of the first can be."""
        errors = []
        for number in range(min(len(self._samples), _LOOKED_AT)):
            try:
                return self._one(number)
            except InputError as error:
                errors.append(error)
        raise errors[0]

    def _one(self, number: int) -> tuple[dict[str, torch.Tensor], Callable[[dict[str, Any]], Any]]:
        try:
            fields, pack = unpack(self._decode(self._samples[number]), "the sample")
            return {name: as_tensor(part, called(name) if name else "it") for name, part in fields.items()}, pack
        except Exception as error:
            if is_out_of_memory(error):
                raise
            reason = error_line(error, named=not isinstance(error, InputError))
            raise InputError(
                f"{self._called(number)} {self._unread}: {reason}. Mend it, or leave it out with data.Subset"
            ) from error

    def _called(self, number: int) -> str:
        """A sample, for a message."""
        try:
            text = repr(self._samples[number])
        except Exception:
            return f"sample {number}"
        return f"sample {number} ({text if len(text) <= 80 else f'{text[:77]}...'})"

    def _checked(self, number: int) -> dict[str, torch.Tensor]:
        fields, _ = self._one(number)
        form, expected = _form(fields), _form(self.fields)
        if form != expected:
            raise InputError(
                f"{self._called(number)} is {form} and others are {expected}; all must be alike: {self._unlike}"
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


def _form(parts: Mapping[str, Any]) -> str:
    """Dtypes and shapes of one sample."""
    return ", ".join(
        f"{f'{name}: ' if name else ''}{str(part.dtype).removeprefix('torch.')} {tuple(part.shape)}"
        for name, part in sorted(parts.items())
    )
