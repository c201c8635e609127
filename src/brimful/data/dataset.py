"""Datasets: samples with known fields, whatever they are read from.

A dataset is one field, or a tuple or dict of fields, nested or not; a field is a tensor with the samples along its
leading axis, or `Ragged`.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from ..core.base.errors import InputError
from ..core.base.formatting import a_kind, format_bytes, plural
from ..core.memory.oom import error_line, is_out_of_memory
from .ragged import Padded, Ragged, by_lengths

Fields = dict[str, Any]
"""Tensors, or `Ragged`, by the names of their fields."""

_SHOWN = 6  # fields of a repr

Gather = Callable[[np.ndarray], Fields]


@runtime_checkable
class Source(Protocol):
    """A dataset of one's own: anything with a length that gives the samples of an index.

    `take` is called on a background thread, with an int64 index in any order, and returns CPU tensors: one, or a tuple
    or dict of them, one row per sample. Names, dtypes and the shape of a sample are the same in every call. A method
    `fingerprint() -> str` makes `Loader.state` work without `fingerprint=`.
    """

    def __len__(self) -> int: ...

    def take(self, index: np.ndarray) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """The form of one field, from which its bytes are known before anything is loaded.

    Attributes:
        dtype: of its numbers.
        shape: of one sample; of one value of a ragged field.
        lengths: (N,) int64, the length of each sample; None where all are alike.
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
        return int(self.lengths.sum()) * self.unit_bytes + 16 * samples  # offsets and lengths

    def batch_bytes(self, batch: int) -> int:
        """Of the largest batch there can be, padded."""
        if self.lengths is None:
            return batch * self.unit_bytes
        return batch * (int(self.lengths.max(initial=0)) * (self.unit_bytes + 9) + 8)  # with the index and the mask


class Dataset:
    """The base of all datasets. `gather` gives the fields by name, `pack` gives them the form of the dataset.

    Attributes:
        fields: the form of each field, by name.
        held: bytes of host memory that must be allocated before a single row can be read by index.
        sequential: whether it should be read front to back: by index it would have to be read whole.
        on_disk: whether a copy sent to another process opens the file there, instead of carrying the rows.
        paths: the files that such a copy opens; none for a database.
    """

    fields: dict[str, Field]
    pack: Callable[[Fields], Any]
    held: int = 0
    sequential: bool = False
    on_disk: bool = False
    paths: Sequence[str] = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        fields = [
            f"{name} {field.dtype}{list(field.shape) if field.shape else ''}".replace("torch.", "").strip()
            + ("" if field.lengths is None else " ragged")
            for name, field in self.fields.items()
        ]
        more = [f"{len(fields) - _SHOWN} more fields"] if len(fields) > _SHOWN else []
        parts = [plural(len(self), "sample"), *fields[:_SHOWN], *more, format_bytes(self.nbytes)]
        return f"{type(self).__name__}({', '.join(parts)})"

    def gather(self, index: np.ndarray, pin: bool = False) -> Fields:
        """The samples of an index on the CPU; in pinned memory if asked, where that costs no further copy."""
        raise NotImplementedError

    def load(self, rows: slice | np.ndarray) -> tuple[Fields, dict[int, str]]:
        """Samples on whichever device they are, without a copy where possible; and the reason for each row, by its
        position among these, that holds a null for which there is no NaN, or cannot be read."""
        return self.gather(np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows), {}

    def row_error(self, reason: str, row: int) -> InputError:
        """The error where every row must be whole, for a reason that `load` gave."""
        return null_error(reason, row)

    def take(self, index: Any) -> Any:
        """The samples of an index on the CPU, in the form of the dataset; ragged fields stay ragged."""
        return self.pack(self.gather(np.asarray(index, np.int64)))

    def column(self, name: str) -> Any:
        """All values of one field."""
        return self.gather(np.arange(len(self)))[name]

    def whole(self, device: torch.device) -> Fields | None:
        """All fields, if they are on that device already and can be used as they are."""
        return None

    def ready(self, device: torch.device) -> bool:
        """Whether `whole` will return them; asked before anything is loaded."""
        return False

    def fingerprint(self) -> str:
        """A digest of all the data."""
        raise NotImplementedError

    @contextlib.contextmanager
    def reading(self, workers: int, pin: bool = False) -> Iterator[Gather]:
        """A function that gathers samples, with whatever workers it needs, for as long as it is open."""
        yield lambda index: self.gather(index, pin)

    @property
    def nbytes(self) -> int:
        return sum(field.nbytes(len(self)) for field in self.fields.values())

    def batch_bytes(self, batch: int) -> int:
        """Of the largest batch of that many samples."""
        return sum(field.batch_bytes(batch) for field in self.fields.values())


def collect(fields: dict[str, Field], samples: int, parts: Iterable[Fields], device: torch.device) -> Fields:
    """All samples of some fields on a device, from parts that follow one another."""
    columns = {}
    for name, field in fields.items():
        rows = samples if field.lengths is None else int(field.lengths.sum())
        columns[name] = torch.empty((rows, *field.shape), dtype=field.dtype, device=device)
    filled = dict.fromkeys(fields, 0)
    for part in parts:
        for name in fields:
            values = part[name].values if isinstance(part[name], Ragged) else part[name]
            columns[name][filled[name] : filled[name] + len(values)] = values
            filled[name] += len(values)
    return {name: by_lengths(columns[name], field.lengths) for name, field in fields.items()}


def null_error(reason: str, row: int) -> InputError:
    """The error of a row that holds a null."""
    return InputError(f"{reason} in row {row}, and its numbers have no NaN; fill the nulls, or drop those rows")


def unpack(tree: Any, what: str = "the source") -> tuple[Fields, Callable[[Fields], Any]]:
    """The fields of a dataset or batch by name, and the function that gives such fields the same form again."""
    fields: Fields = {}
    pack = _unpack(tree, "", fields, what)
    if not fields:
        raise InputError(f"{what} has no fields; give at least one")
    return fields, pack


def _unpack(part: Any, name: str, fields: Fields, what: str) -> Callable[[Fields], Any]:
    """Adds the fields of a part, by that name, and returns the function that gives them its form."""
    prefix = f"{name}." if name else ""
    if isinstance(part, Mapping):
        keys = {key: _unpack(value, f"{prefix}{key}", fields, what) for key, value in part.items()}
        return lambda fields: {key: build(fields) for key, build in keys.items()}
    if isinstance(part, tuple) and not isinstance(part, Padded):
        names, kind = getattr(part, "_fields", None), type(part)
        named = zip(names or range(len(part)), part, strict=True)
        builds = [_unpack(value, f"{prefix}{key}", fields, what) for key, value in named]
        return lambda fields: (
            kind(*(build(fields) for build in builds)) if names else tuple(build(fields) for build in builds)
        )
    if name in fields:
        raise InputError(f"{what} has fields whose names are written alike: {name!r}; rename one")
    fields[name] = part
    return lambda fields: fields[name]


def called(name: str) -> str:
    """A field's name for an error message."""
    return f"field {name!r}" if name else "the source"


def chosen(there: Iterable[str], columns: Sequence[str] | None, where: str = "the source") -> list[str]:
    """The columns asked for, all of which must be there; by default all there are."""
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


class CustomDataset(Dataset):
    """A `Source` of the user's, checked."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._taker = getattr(source, "taker", "take")
        some(len(source))
        first, self.pack = unpack(source.take(np.zeros(1, np.int64)), self._taker)
        self.fields = {name: _form(self._taker, name, part, 1) for name, part in first.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return CustomDataset, (self._source,)

    def __len__(self) -> int:
        return len(self._source)

    def gather(self, index: np.ndarray, pin: bool = False) -> Fields:
        if not len(index):  # a rank without samples; a source need not know of such
            return {name: torch.empty((0, *form.shape), dtype=form.dtype) for name, form in self.fields.items()}
        taken, _ = unpack(self._source.take(index), self._taker)
        forms = {name: _form(self._taker, name, part, len(index)) for name, part in taken.items()}
        if _shown(forms) != _shown(self.fields):
            raise InputError(
                f"{self._taker} gave {_shown(forms)} for one index and {_shown(self.fields)} for another; names, "
                "dtypes and shapes must be the same in all: pad to one length, or give a data.Ragged"
            )
        return {name: part.detach().cpu() for name, part in taken.items()}

    def load(self, rows: slice | np.ndarray) -> tuple[Fields, dict[int, str]]:
        """As of any dataset; where reading fails, the rows are read one by one, and those that fail have the reason."""
        index = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        try:
            return self.gather(index), {}
        except Exception as error:
            if is_out_of_memory(error) or isinstance(error, InputError):  # that is of the form of a whole batch
                raise
            taken, bad = self._one_by_one(index)
            if len(bad) == len(index) > 1:  # it is the source that fails, and not a sample
                raise
            good = (
                next(iter(taken.values()))
                if taken
                else {name: torch.zeros((1, *field.shape), dtype=field.dtype) for name, field in self.fields.items()}
            )
            samples = [taken.get(row, good) for row in range(len(index))]
            return {name: torch.cat([part[name] for part in samples]) for name in self.fields}, bad

    def _one_by_one(self, index: np.ndarray) -> tuple[dict[int, Fields], dict[int, str]]:
        taken, bad = {}, {}
        for row in range(len(index)):
            try:
                taken[row] = self.gather(index[row : row + 1])
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                bad[row] = f"sample {index[row]} could not be read: {error_line(error)}"
        return taken, bad

    def row_error(self, reason: str, row: int) -> InputError:
        return InputError(reason)

    def fingerprint(self) -> str:
        known = getattr(self._source, "fingerprint", None)
        if not callable(known):
            raise InputError(
                f"a {type(self._source).__name__} has no fingerprint() to know it by when a state is restored; give it "
                "one, or pass fingerprint= with a text that changes whenever the data does"
            )
        return str(known())


def _form(taker: str, name: str, part: Any, rows: int) -> Field:
    if not isinstance(part, torch.Tensor):
        raise InputError(f"{taker} gave {a_kind(part)} for {called(name)}; give tensors: torch.as_tensor(...)")
    if part.ndim == 0 or len(part) != rows:
        raise InputError(
            f"{taker} gave {called(name)} with shape {tuple(part.shape)} for {rows} samples; give one row per sample"
        )
    return Field(part.dtype, tuple(part.shape[1:]))


def _shown(forms: dict[str, Field]) -> str:
    return str({name: f"{forms[name].dtype} {forms[name].shape}" for name in sorted(forms)})
