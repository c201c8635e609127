"""What users of torch have: datasets by index or by iteration, and a `DataLoader` around one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.utils.data as torch_data
from torch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

from ..core.base import pytree
from ..core.base.errors import InputError
from ..core.base.formatting import a_kind, format_bytes
from ..core.memory.devices import memory
from ..core.runs.function_fingerprint import of_function
from .array_dataset import ArrayDataset
from .dataset import CustomDataset, Dataset, some
from .decoded import Decoded
from .stacking import stack

_CHUNK = 4096  # samples that are stacked at a time
_FREE = 0.8  # of the host's free memory, which collected samples may take


def is_by_index(what: Any) -> bool:
    """Whether it is a dataset of torch that is read by index."""
    return isinstance(what, torch_data.Dataset) and not isinstance(what, torch_data.IterableDataset)


def by_index(what: Any) -> Dataset:
    """A map-style dataset."""
    if type(what) is torch_data.TensorDataset:
        return ArrayDataset(what.tensors)
    if not hasattr(what, "__len__"):
        raise InputError(f"a {type(what).__name__} has no length; give it __len__, or make it an IterableDataset")
    return IndexedDataset(what)


class IndexedDataset(Decoded):
    """A map-style dataset: one sample per index, a tensor, array or number, or a tuple, list or dict of them."""

    _unread, _unlike = "could not be read", "crop or pad them in __getitem__"

    def __init__(self, samples: Any) -> None:
        super().__init__(samples, as_sample)

    def _called(self, number: int) -> str:
        return f"sample {number} of the {type(self._samples).__name__}"

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexedDataset, (self._samples,)

    def fingerprint(self) -> str:
        try:
            return of_function(self._samples)
        except InputError as error:
            raise InputError(
                f"a {type(self._samples).__name__} holds what has no fingerprint to know it by when a run is resumed "
                f"({error}); pass fingerprint= with a text that changes whenever the data does"
            ) from error


def as_sample(sample: Any) -> Any:
    """A sample in which lists of parts, as torch's datasets give them, are tuples."""
    if isinstance(sample, list) and any(isinstance(part, torch.Tensor | np.ndarray | dict | tuple) for part in sample):
        return tuple(as_sample(part) for part in sample)
    return sample


def collected(what: Iterable[Any]) -> Dataset:
    """What can only be iterated, read once into host memory: to be shuffled it must be read by index."""
    parts, chunk, taken = [], [], 0
    room = int(_FREE * memory(torch.device("cpu")).free)
    for sample in what:
        chunk.append(as_sample(sample))
        if len(chunk) == _CHUNK:
            parts.append(_stacked(chunk))
            taken, chunk = taken + pytree.nbytes(parts[-1]), []
            if taken > room:
                raise InputError(
                    f"a {type(what).__name__} has no indices, so its samples are read into memory, and {taken:,} bytes "
                    f"of them are more than {format_bytes(room)}, 80% of what is free; write them to Parquet or .npy "
                    "files, and give the path"
                )
    if chunk:
        parts.append(_stacked(chunk))
    some(len(parts), f"the {type(what).__name__}")
    return ArrayDataset(pytree.join(parts))


def _stacked(samples: Sequence[Any]) -> Any:
    whole = stack(samples)
    if whole is None:
        raise InputError(
            f"the samples are not alike, or no numbers, so they cannot be stacked: the first is a "
            f"{type(samples[0]).__name__}; give tensors, arrays or numbers of one shape, or tuples or dicts of them"
        )
    return whole


@dataclass(frozen=True, slots=True)
class LoaderParts:
    """What a `DataLoader` says of its data.

    Attributes:
        dataset: what it loads from, with its `collate_fn` where that is one of the user's.
        batch_size: of its batches.
        shuffle, drop_last: likewise.
    """

    dataset: Any
    batch_size: int
    shuffle: bool
    drop_last: bool


def loader_parts(loader: torch_data.DataLoader) -> LoaderParts:
    """The parts of a `DataLoader`; one whose order or batches are not its own is refused."""
    own = loader.collate_fn is not torch_data.default_collate
    if loader.batch_size is None and loader.batch_sampler is not None:
        raise InputError(
            f"the DataLoader's batch_sampler, {a_kind(loader.batch_sampler)}, decides which samples come together, "
            "which is decided here, so that every run can be resumed; give its dataset, and batch_size="
        )
    if loader.batch_size is None:
        raise InputError(
            "the DataLoader has no batch_size of its own; give its dataset, and batch_size= where it is wanted"
        )
    if isinstance(loader.dataset, torch_data.IterableDataset):
        if own:
            raise InputError(
                "the DataLoader has a collate_fn for an IterableDataset, whose samples are batched here; give a "
                "dataset that yields samples of one form, or read it by index"
            )
        return LoaderParts(loader.dataset, loader.batch_size, False, bool(loader.drop_last))
    sampler, batches = loader.sampler, loader.batch_sampler
    in_order = type(sampler) is SequentialSampler
    shuffled = type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == _length(loader)
    if type(batches) is not BatchSampler or not (in_order or shuffled):
        name = type(sampler if type(batches) is BatchSampler else batches).__name__
        raise InputError(
            f"the DataLoader's {name} decides which samples come when, which is decided here, so that every run can be "
            "resumed; give the dataset itself, or data.Subset(dataset, index) with the samples that you want"
        )
    dataset = CustomDataset(Collated(loader.dataset, loader.collate_fn)) if own else loader.dataset
    return LoaderParts(dataset, loader.batch_size, shuffled, bool(loader.drop_last))


def _length(loader: torch_data.DataLoader) -> int:
    samples: Any = loader.dataset
    return len(samples)


@dataclass(frozen=True, slots=True)
class Collated:
    """Samples by index, put together by a function of the user's; what it gives has one row per sample."""

    samples: Any
    collate: Callable[[list[Any]], Any]

    @property
    def taker(self) -> str:
        """What gives its batches, for messages."""
        return f"the DataLoader's collate_fn {getattr(self.collate, '__name__', type(self.collate).__name__)}"

    def __len__(self) -> int:
        return len(self.samples)

    def take(self, index: np.ndarray) -> Any:
        return pytree.tensors(as_sample(self.collate([self.samples[number] for number in index.tolist()])), "a batch")

    def fingerprint(self) -> str:
        return f"{of_function(self.samples)} {of_function(self.collate)}"
