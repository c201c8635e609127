"""What `map` works on: arrays, tables, Parquet files and iterators, all read as runs of positions.

A position is an item's place in the order of work. Arrays whose items differ in weight are worked heaviest
first, so their position is not their index: `index` tells. Everything else is worked in its own order.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import torch

from ...core.base import arrow, pytree
from ...core.base.errors import InputError
from ...core.runs import fingerprint, parquet


@dataclass(slots=True)
class LoadedBatch:
    """Some items in host memory (or wherever they were given), ready for the device.

    Attributes:
        start: the position of the first.
        count: how many; fewer than asked for only at the end of a stream.
        tree: the batch; None when not one of the items could be read.
        bad: place in the batch to the reason, for items that could not be read and hold another's values.
        weights: each item's weight; None when all weigh 1.
    """

    start: int
    count: int
    tree: pytree.Tree | None
    bad: dict[int, str] = field(default_factory=dict)
    weights: np.ndarray | None = None

    def slice(self, start: int, stop: int) -> "LoadedBatch":
        """Some of the items, by their places in this batch."""
        return LoadedBatch(
            self.start + start,
            stop - start,
            None if self.tree is None else pytree.slice_rows(self.tree, start, stop),
            {place - start: reason for place, reason in self.bad.items() if start <= place < stop},
            None if self.weights is None else self.weights[start:stop],
        )


@runtime_checkable
class ItemSource(Protocol):
    """A source of items. A workload may bring one of its own, and give it to `map` as it is.

    Attributes:
        length: how many there are; None when only the end of a stream will tell.
        weights: every item's weight in order of work; None when all weigh 1 or a stream will tell.
        forward: whether it can be read only once, front to back.
    """

    length: int | None
    weights: np.ndarray | None
    forward: bool

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        """The items at positions `start` to `stop`; of a weighed stream, only as many as the capacity holds.
        A stream whose `start` is -1 goes on from wherever it is."""
        ...

    def index(self, start: int, stop: int) -> np.ndarray:
        """The items' own indices."""
        ...

    def item_bytes(self) -> int:
        """About what one item takes, by a look at the first."""
        ...

    def fingerprint(self) -> str:
        """A digest of all the data."""
        ...

    def spec(self) -> str:
        """The form of one item: names, dtypes, shapes."""
        ...


def item_source(data: Any, weight: Any = None) -> ItemSource:
    """The source for anything `map` accepts."""
    if isinstance(data, ItemSource):
        return data
    if isinstance(data, str | Path):
        return ParquetSource(Path(data), weight)
    if isinstance(data, torch.utils.data.DataLoader):
        raise InputError(
            "items is a DataLoader; give its dataset's tensors, or the dataset's items: map batches itself"
        )
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, pa.RecordBatch):  # pandas, polars and Arrow itself
        data = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else pa.table(data)
    if isinstance(data, pa.Table):
        tree, bad = arrow.to_tensors(data)
        return ArraySource(tree, weight, bad, source=data)
    if isinstance(data, torch.Tensor | np.ndarray | tuple | Mapping):
        return ArraySource(pytree.tensors(data), weight)
    if isinstance(data, Iterable):
        return StreamSource(data, weight)
    raise InputError(
        f"items is a {type(data).__name__}; give a tensor, an array, a tuple or dict of them, an Arrow table, the "
        "path of a Parquet file, or an iterator"
    )


class ArraySource:
    """Tensors in memory, host or device; any order can be read."""

    forward = False

    def __init__(
        self, tree: pytree.Tree, weight: Any = None, bad: dict[int, str] | None = None, source: Any = None
    ) -> None:
        self._tree, self._bad, self._source = tree, bad or {}, tree if source is None else source
        self.length: int | None = pytree.rows(tree)
        weights = _weights(weight, self.length, tree)
        self._order = None
        if weights is not None:
            self._order = np.argsort(-weights, kind="stable")
            weights = weights[self._order]
        self.weights = weights

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        index = self.index(start, stop)
        if self._order is None:
            tree = pytree.slice_rows(self._tree, start, stop)
        else:
            tree = pytree.take_rows(self._tree, torch.from_numpy(index))
        bad = {place: self._bad[i] for place, i in enumerate(index.tolist()) if i in self._bad} if self._bad else {}
        return LoadedBatch(start, stop - start, tree, bad, None if self.weights is None else self.weights[start:stop])

    def index(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop) if self._order is None else self._order[start:stop]

    def item_bytes(self) -> int:
        return pytree.nbytes(pytree.slice_rows(self._tree, 0, 1))

    def fingerprint(self) -> str:
        return fingerprint.of(self._source)

    def spec(self) -> str:
        return str(pytree.spec(self._tree))


class ParquetSource:
    """A Parquet file, or a folder of them, read a few row groups at a time."""

    forward = False

    def __init__(self, path: Path, weight: Any = None) -> None:
        self._paths, self._files = parquet.files(path)
        self._schema = self._files[0].schema_arrow
        groups = [
            (file, group, file.metadata.row_group(group).num_rows)
            for file in self._files
            for group in range(file.num_row_groups)
        ]
        self._groups = [(file, group) for file, group, _ in groups]
        self._starts = np.concatenate([[0], np.cumsum([rows for _, _, rows in groups], dtype=np.int64)])
        self.length: int | None = int(self._starts[-1])
        self._kept: tuple[int, pa.Table] | None = None
        if isinstance(weight, str):
            if weight not in self._schema.names:
                raise InputError(f"weight names the column {weight!r}; there are {', '.join(self._schema.names)}")
            weight = np.concatenate([file.read([weight])[weight].to_numpy() for file in self._files])
        self.weights = _weights(weight, self.length, None)

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        parts, place = [], start
        group = int(np.searchsorted(self._starts, start, side="right")) - 1
        while place < stop:
            first, last = int(self._starts[group]), min(stop, int(self._starts[group + 1]))
            parts.append(self._read(group).slice(place - first, last - place))
            place, group = last, group + 1
        tree, bad = arrow.to_tensors(pa.concat_tables(parts) if parts else self._schema.empty_table())
        return LoadedBatch(start, stop - start, tree, bad, None if self.weights is None else self.weights[start:stop])

    def _read(self, group: int) -> pa.Table:
        if self._kept is None or self._kept[0] != group:
            file, place = self._groups[group]
            self._kept = (group, file.read_row_group(place))
        return self._kept[1]

    def index(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop)

    def item_bytes(self) -> int:
        return pytree.nbytes(self.load(0, 1).tree) if self.length else 0

    def fingerprint(self) -> str:
        return fingerprint.of([part for path in self._paths for part in (path.name, path)])

    def spec(self) -> str:
        return self._schema.to_string(show_schema_metadata=False)


class StreamSource:
    """An iterator of single items, read once, front to back; never all in memory."""

    forward = True

    def __init__(self, source: Iterable[Any], weight: Any = None) -> None:
        self._source = source
        self.length: int | None = len(source) if isinstance(source, Sequence) else None
        if weight is not None and not callable(weight):
            raise InputError("the weight of a stream's items must be a function of one item")
        self.weights: np.ndarray | None = None
        self._weigh: Any = weight
        self._iterator: Iterator[Any] = iter(source)
        self._read = 0
        self._ahead: list[Any] = []
        self._form: Any = None

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        if start < 0:
            start, stop = self._read, self._read + stop - start
        self._skip_to(start)
        taken, weights, total = [], [], 0.0
        while len(taken) < stop - start:
            item = self._next()
            if item is _END:
                break
            if self._weigh is not None:
                weight = float(self._weigh(item))
                if taken and capacity is not None and total + weight > capacity:
                    self._ahead.append(item)
                    break
                weights.append(weight)
                total += weight
            taken.append(item)
        self._read += len(taken)
        tree, bad = self._stack(taken)
        return LoadedBatch(start, len(taken), tree, bad, np.array(weights) if self._weigh is not None else None)

    def _next(self) -> Any:
        return self._ahead.pop() if self._ahead else next(self._iterator, _END)

    def item_bytes(self) -> int:
        item = self._next()
        if item is _END:
            return 0
        self._ahead.append(item)
        try:
            return pytree.nbytes(pytree.tensors(item))
        except InputError:
            return 0

    def _skip_to(self, start: int) -> None:
        if start < self._read:
            raise InputError(f"a stream cannot go back from item {self._read} to {start}")
        while self._read < start:
            item = self._next()
            if item is _END:
                raise InputError(
                    f"the stream ended after {self._read} items, but {start} were finished before; give the same one"
                )
            self._read += 1
            if self._form is None:
                with contextlib.suppress(InputError):
                    self._row(item)

    def _stack(self, items: list[Any]) -> tuple[pytree.Tree | None, dict[int, str]]:
        bad: dict[int, str] = {}
        rows: list[pytree.Tree | None] = []
        for place, item in enumerate(items):
            try:
                rows.append(self._row(item))
            except InputError as error:
                bad[place] = str(error)
                rows.append(None)
        good = next((row for row in rows if row is not None), None)
        if good is None:
            return None, bad
        return pytree.join([good if row is None else row for row in rows]), bad

    def _row(self, item: Any) -> pytree.Tree:
        """An item as a batch of one. The first that can be one decides the form of all."""
        row = pytree.apply(pytree.tensors(item, "the item"), lambda tensor: tensor.unsqueeze(0))
        form = pytree.spec(row)
        self._form = self._form or form
        if form != self._form:
            raise InputError(f"the item has the form {form}, others have {self._form}")
        return row

    def index(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop)

    def fingerprint(self) -> str:
        if isinstance(self._source, Sequence):
            return fingerprint.of(list(self._source))
        raise InputError(
            "an iterator cannot be fingerprinted, so a run on it cannot be resumed by itself; pass fingerprint= with a "
            "text that changes whenever the data does"
        )

    def spec(self) -> str:
        return "stream"


_END = object()


def _weights(weight: Any, length: int, tree: pytree.Tree | None) -> np.ndarray | None:
    """Weights as float64, checked; None when all are alike, which is the same as no weights at all."""
    if weight is None:
        return None
    if callable(weight):
        raise InputError("weight may be a function only for a stream; give one number an item, or a column's name")
    if isinstance(weight, str):
        if not isinstance(tree, Mapping) or weight not in tree:
            raise InputError(f"weight names the column {weight!r}, which the items do not have")
        weight = tree[weight]
    values = torch.as_tensor(weight).detach().cpu().to(torch.float64).numpy()
    if values.shape != (length,):
        raise InputError(f"weight has shape {values.shape} for {length} items; give one number an item")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError("every weight must be a finite number above 0")
    if length and (values == values[0]).all() and values[0] == 1:
        return None
    return values
