"""What a loader reads from: rows with known fields, whatever they come from.

A dataset is one field, or a tuple or dict of fields; a field is a tensor with the samples along its leading axis, or
`Ragged`.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from ..core.base.errors import InputError
from .ragged import Ragged

Gather = Callable[[np.ndarray], dict[str, Any]]


@runtime_checkable
class Source(Protocol):
    """A dataset of one's own: anything with a length that gives the samples of an index.

    `take` is called on a thread of the loader's, with an int64 index in any order, and returns CPU tensors: one, or a
    tuple or dict of them, a row a sample. Names, dtypes and the shape of a sample are the same in every call. A method
    `fingerprint() -> str` makes `Loader.state` work without `fingerprint=`.
    """

    def __len__(self) -> int: ...

    def take(self, index: np.ndarray) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field's form: what its bytes are known from before anything is loaded.

    Attributes:
        dtype: of its numbers.
        shape: of one sample; of one value of a ragged field.
        lengths: (N,) int64, each sample's length; None where all are alike.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    lengths: np.ndarray | None = None

    @property
    def unit_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    def nbytes(self, samples: int) -> int:
        """Of all samples together."""
        if self.lengths is None:
            return samples * self.unit_bytes
        return int(self.lengths.sum()) * self.unit_bytes + 16 * samples  # where each begins, and its length

    def batch_bytes(self, batch: int) -> int:
        """Of the largest batch there can be, padded."""
        if self.lengths is None:
            return batch * self.unit_bytes
        return batch * (int(self.lengths.max(initial=0)) * (self.unit_bytes + 9) + 8)  # with the places and the mask


class Rows:
    """The base of all sources inside the loader. `gather` gives the fields by name, `pack` gives them their form back.

    Attributes:
        fields: each field's form, by name.
        held: bytes of host memory that must be taken before a single row can be read.
    """

    fields: dict[str, Field]
    pack: Callable[[dict[str, Any]], Any]
    held: int = 0

    def __len__(self) -> int:
        raise NotImplementedError

    def gather(self, index: np.ndarray, pin: bool = False) -> dict[str, Any]:
        """The samples of an index on the CPU; in pinned memory if asked, where that costs no further copy."""
        raise NotImplementedError

    def take(self, index: Any) -> Any:
        """The samples of an index on the CPU, in the form of the dataset; ragged fields stay ragged."""
        return self.pack(self.gather(np.asarray(index, np.int64)))

    def whole(self, device: torch.device) -> dict[str, Any] | None:
        """All fields, if they lie on that device already and can be used as they are."""
        return None

    def ready(self, device: torch.device) -> bool:
        """Whether `whole` will give them; asked before anything is loaded."""
        return False

    def fingerprint(self) -> str:
        """A digest of all the data."""
        raise NotImplementedError

    @contextlib.contextmanager
    def reading(self, workers: int, pin: bool = False) -> Iterator[Gather]:
        """A way to gather samples, with whatever workers it needs, for as long as it is open."""
        yield lambda index: self.gather(index, pin)

    @property
    def nbytes(self) -> int:
        return sum(field.nbytes(len(self)) for field in self.fields.values())

    def batch_bytes(self, batch: int) -> int:
        """Of the largest batch of that many samples."""
        return sum(field.batch_bytes(batch) for field in self.fields.values())


def unpack(tree: Any, what: str = "the source") -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]:
    """The fields of a dataset or batch by name, and the function that gives such fields the same form again."""
    match tree:
        case Mapping():
            keys = {str(key): key for key in tree}
            if len(keys) < len(tree):
                raise InputError(f"{what} has fields whose names are written alike: {list(tree)}; rename one")
            fields, pack = {name: tree[key] for name, key in keys.items()}, _as_dict(keys)
        case Ragged():
            fields, pack = {"": tree}, _as_single
        case tuple() if names := getattr(tree, "_fields", None):
            fields, pack = dict(zip(names, tree, strict=True)), _as_named(type(tree))
        case tuple():
            fields, pack = {str(place): part for place, part in enumerate(tree)}, _as_tuple
        case _:
            fields, pack = {"": tree}, _as_single
    if not fields:
        raise InputError(f"{what} has no fields; give at least one")
    return fields, pack


def _as_single(fields: dict[str, Any]) -> Any:
    return fields[""]


def _as_tuple(fields: dict[str, Any]) -> Any:
    return tuple(fields.values())


def _as_named(kind: type) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: kind(*fields.values())


def _as_dict(keys: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda fields: {keys[name]: part for name, part in fields.items()}


def called(name: str) -> str:
    """A field's name for an error message."""
    return f"field {name!r}" if name else "the source"


def chosen(there: Iterable[str], columns: Sequence[str] | None, where: str = "the source") -> list[str]:
    """The columns asked for, all of which must be there; all there are unless any is asked for."""
    names = list(there)
    if columns is None:
        return names
    if isinstance(columns, str) or not columns:
        raise InputError(f"columns is {columns!r}; give a list of names, out of {', '.join(names)}")
    if missing := [name for name in columns if name not in names]:
        raise InputError(f"{where} has no column {', '.join(map(repr, missing))}; there are {', '.join(names)}")
    return list(columns)


def some(samples: int, what: str = "the source") -> int:
    """The number of samples, which must not be 0."""
    if samples < 1:
        raise InputError(f"{what} holds no samples; give at least one, and check the filter or path that made it")
    return samples


class Given(Rows):
    """A `Source` of the user's, checked."""

    def __init__(self, source: Source) -> None:
        self._source = source
        some(len(source))
        first, self.pack = unpack(source.take(np.zeros(1, np.int64)), "take")
        self.fields = {name: _form(name, part, 1) for name, part in first.items()}

    def __len__(self) -> int:
        return len(self._source)

    def gather(self, index: np.ndarray, pin: bool = False) -> dict[str, Any]:
        if not len(index):  # a rank without samples; a source need not know of such
            return {name: torch.empty((0, *form.shape), dtype=form.dtype) for name, form in self.fields.items()}
        found, _ = unpack(self._source.take(index), "take")
        forms = {name: _form(name, part, len(index)) for name, part in found.items()}
        for name in self.fields.keys() | forms.keys():
            if name not in forms or name not in self.fields or not _alike(forms[name], self.fields[name]):
                raise InputError(
                    f"take gave {_shown(forms)} for one index and {_shown(self.fields)} for another; names, dtypes and "
                    "shapes must be the same in all"
                )
        return {name: part.detach().cpu() for name, part in found.items()}

    def fingerprint(self) -> str:
        known = getattr(self._source, "fingerprint", None)
        if not callable(known):
            raise InputError(
                f"a {type(self._source).__name__} has no fingerprint() to know it by when a state is restored; give it "
                "one, or pass fingerprint= with a text that changes whenever the data does"
            )
        return str(known())


def _form(name: str, part: Any, rows: int) -> Field:
    if not isinstance(part, torch.Tensor):
        raise InputError(f"take gave a {type(part).__name__} for {called(name)}; give tensors: torch.as_tensor(...)")
    if part.ndim == 0 or len(part) != rows:
        raise InputError(
            f"take gave {called(name)} with shape {tuple(part.shape)} for {rows} samples; give one row a sample"
        )
    return Field(part.dtype, tuple(part.shape[1:]))


def _alike(one: Field, other: Field) -> bool:
    return (one.dtype, one.shape) == (other.dtype, other.shape)


def _shown(forms: dict[str, Field]) -> str:
    return str({name: f"{form.dtype} {form.shape}" for name, form in forms.items()})
