"""What `map` works on: datasets and iterators, read as ranges of positions.

A position counts items in the order of execution. Datasets whose items differ in weight are run heaviest first, so that
a position is not the item's index: `index` maps one to the other. Everything else is run in its own order.
"""

import contextlib
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.formatting import a_kind
from ...core.runs import fingerprint
from ...data.dataset import Dataset
from ...data.ragged import Ragged, padded
from ...data.sources import is_dataset, open_dataset
from ...data.stacking import stack


@dataclass(slots=True)
class LoadedBatch:
    """Some items in host memory (or wherever they were given), ready for the device.

    Attributes:
        start: the position of the first.
        count: how many; fewer than asked for only at the end of a stream.
        tree: the batch; None when not one of the items could be read.
        bad: the reason for each item that could not be read and holds another's values, by its index in the batch.
        weights: each item's weight; None when all weigh 1.
        origin: the position in the whole map of the item at `start`, where that is another.
        slow: the items, by their indices in the batch, that take longer than they may, or end their worker.
        crash: how their worker ended, where it is that.
    """

    start: int
    count: int
    tree: pytree.Tree | None
    bad: dict[int, str] = field(default_factory=dict)
    weights: np.ndarray | None = None
    origin: int | None = None
    slow: tuple[int, ...] = ()
    crash: str = ""

    @property
    def stop(self) -> int:
        return self.start + self.count

    @property
    def first(self) -> int:
        """The position of the first item in the whole map, which its random numbers depend on."""
        return self.start if self.origin is None else self.origin

    @property
    def weight(self) -> float:
        """Of all items together."""
        return float(self.count if self.weights is None else self.weights.sum())

    @property
    def nbytes(self) -> int:
        return 0 if self.tree is None else pytree.nbytes(self.tree)

    def compact(self) -> "LoadedBatch":
        """The same with its own rows only: a view would be sent to another process with all of the array behind it."""
        if self.tree is None:
            return self
        return replace(self, tree=pytree.apply(self.tree, lambda tensor: tensor.detach().cpu().clone()))

    def slice(self, start: int, stop: int) -> "LoadedBatch":
        """Some of the items, by their indices in this batch."""
        return LoadedBatch(
            self.start + start,
            stop - start,
            None if self.tree is None else pytree.slice_rows(self.tree, start, stop),
            {item - start: reason for item, reason in self.bad.items() if start <= item < stop},
            None if self.weights is None else self.weights[start:stop],
            None if self.origin is None else self.origin + start,
            tuple(item - start for item in self.slow if start <= item < stop),
            self.crash,
        )

    def halves(self) -> tuple["LoadedBatch", "LoadedBatch"]:
        return self.slice(0, self.count // 2), self.slice(self.count // 2, self.count)

    def select(self, items: Sequence[int] | np.ndarray) -> "LoadedBatch":
        """Copies of readable items, by their indices in this batch, as a batch of their own that starts at 0."""
        index = torch.as_tensor(items, dtype=torch.int64)
        weights = None if self.weights is None else self.weights[index.numpy()]
        return LoadedBatch(0, len(items), pytree.take_rows(self.tree, index), {}, weights, self.first + int(index[0]))


class ItemSource(ABC):
    """A source of items. A workload may bring one of its own, and give it to `map` as it is.

    Attributes:
        length: how many there are; None when only the end of a stream will tell.
        weights: every item's weight in order of execution; None when all weigh 1 or a stream will tell.
        forward: whether it can be read only once, front to back.
        on_disk: whether a copy that is sent to another process opens the file there: worker processes then read their
            items themselves.
    """

    length: int | None
    weights: np.ndarray | None = None
    forward: bool = False
    on_disk: bool = False

    @abstractmethod
    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        """The items at positions `start` to `stop`; of a weighed stream, only as many as the capacity holds.
        A stream whose `start` is -1 goes on from wherever it is."""

    def index(self, start: int, stop: int) -> np.ndarray:
        """The items' own indices."""
        return np.arange(start, stop)

    @abstractmethod
    def item_bytes(self) -> int:
        """About what one item takes, by a look at the first."""

    @abstractmethod
    def fingerprint(self) -> str | None:
        """A digest of all the data; None where it cannot be read twice."""

    @abstractmethod
    def spec(self) -> str:
        """The form of one item: names, dtypes, shapes."""


def item_source(data: Any, weight: Any = None) -> ItemSource:
    """The source for anything `map` accepts."""
    if isinstance(data, ItemSource):
        return data
    if is_dataset(data):
        return DatasetSource(open_dataset(data), weight)
    if isinstance(data, Iterable):
        _check_readable(data)
        return StreamSource(data, weight)
    raise InputError(
        f"items is {a_kind(data)}; give a tensor, an array, a tuple or dict of them, a table or frame, the "
        "path of a .npy, .npz, CSV or Parquet file, a torch dataset or DataLoader, or an iterator"
    )


def _check_readable(data: Iterable[Any]) -> None:
    """Refuses a sequence none of whose first items can become tensors: texts, objects. Single ones are flagged."""
    if not isinstance(data, Sequence) or not len(data):
        return
    reasons = []
    for number in range(min(len(data), _LOOKED_AT)):
        try:
            pytree.tensors(data[number], f"item {number}")
            return
        except InputError as error:
            reasons.append(error)
    raise reasons[0]


class DatasetSource(ItemSource):
    """The samples of a dataset. Where it can be read by index, items of unequal weight come heaviest first."""

    def __init__(self, dataset: Dataset, weight: Any = None) -> None:
        self.dataset, self.on_disk = dataset, dataset.on_disk
        self.length = len(dataset)
        if isinstance(weight, str):
            if weight not in dataset.fields:
                raise InputError(f"weight names the column {weight!r}; there are {', '.join(dataset.fields)}")
            weight = dataset.column(weight)
        self.weights = _weights(weight, len(dataset))
        self._order = None
        if self.weights is not None and not dataset.sequential:
            self._order = np.argsort(-self.weights, kind="stable")
            self.weights = self.weights[self._order]

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        fields, bad = self.dataset.load(slice(start, stop) if self._order is None else self._order[start:stop])
        tree = None
        if len(bad) < stop - start or not bad:
            tree = self.dataset.pack({name: _dense(part) for name, part in fields.items()})
        weights = None if self.weights is None else self.weights[start:stop]
        return LoadedBatch(start, stop - start, tree, bad, weights)

    def index(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop) if self._order is None else self._order[start:stop]

    def item_bytes(self) -> int:
        return self.dataset.batch_bytes(1)

    def fingerprint(self) -> str:
        return self.dataset.fingerprint()

    def spec(self) -> str:
        return str([(name, str(field.dtype), field.shape) for name, field in self.dataset.fields.items()])


def _dense(part: Any) -> Any:
    """A field as a function gets it: samples of unequal length are padded to the longest of the batch."""
    if not isinstance(part, Ragged):
        return part
    longest = int(part.lengths.max()) if len(part.lengths) else 0
    return padded(part.values, part.offsets[:-1], part.lengths, longest, pad=0)


class StreamSource(ItemSource):
    """An iterator of single items, read once, front to back; never all in memory."""

    forward = True

    def __init__(self, source: Iterable[Any], weight: Any = None) -> None:
        if weight is not None and not callable(weight):
            raise InputError("the weight of a stream's items must be a function of one item")
        self._source = source
        self._weigh: Any = weight
        self.length = len(source) if isinstance(source, Sequence) else None
        self._iterator: Iterator[Any] = iter(source)
        self._read = 0
        self._ahead: deque[Any] = deque()
        self._looked = False
        self._form: Any = None

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        self._look()
        if start < 0:
            start, stop = self._read, self._read + stop - start
        self._skip_to(start)
        taken, weights = self._take(stop - start, math.inf if capacity is None else capacity)
        self._read += len(taken)
        tree, bad = self._stack(taken)
        return LoadedBatch(start, len(taken), tree, bad, weights)

    def _take(self, most: int, capacity: float) -> tuple[list[Any], np.ndarray | None]:
        """The next items, and their weights where they are weighed."""
        if self._weigh is None:
            taken = [self._ahead.popleft() for _ in range(min(most, len(self._ahead)))]
            return taken + list(islice(self._iterator, most - len(taken))), None
        taken, weights, total = [], [], 0.0
        while len(taken) < most and (item := self._next()) is not _END:
            weight = float(self._weigh(item))
            total += weight
            if taken and total > capacity:
                self._ahead.appendleft(item)
                break
            taken.append(item)
            weights.append(weight)
        return taken, np.array(weights)

    def _next(self) -> Any:
        return self._ahead.popleft() if self._ahead else next(self._iterator, _END)

    def item_bytes(self) -> int:
        if (item := self._next()) is not _END:
            self._ahead.appendleft(item)
            with contextlib.suppress(InputError):
                return pytree.nbytes(pytree.tensors(item))
        return 0

    def _look(self) -> None:
        """Refuses a stream none of whose first items can become tensors; it is read ahead only while none can."""
        if self._looked:
            return
        self._looked, seen = True, list[Any]()
        error: InputError | None = None
        while len(seen) < _LOOKED_AT and (item := self._next()) is not _END:
            seen.append(item)
            try:
                pytree.tensors(item, "the item")
                break
            except InputError as reason:
                error = error or reason
        else:
            if error is not None:
                raise InputError(str(error).replace("the item", "item 0", 1))
        self._ahead.extendleft(reversed(seen))

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
        if (whole := stack(items)) is not None:
            form = pytree.spec(whole)
            self._form = self._form or form
            if form == self._form:
                return whole, {}
        bad: dict[int, str] = {}
        rows: list[pytree.Tree | None] = []
        for index, item in enumerate(items):
            try:
                rows.append(self._row(item))
            except InputError as error:
                bad[index] = str(error)
                rows.append(None)
        good = next((row for row in rows if row is not None), None)
        return None if good is None else pytree.join([good if row is None else row for row in rows]), bad

    def _row(self, item: Any) -> pytree.Tree:
        """An item as a batch of one. The first that can be one decides the form of all."""
        row = pytree.apply(pytree.tensors(item, "the item"), lambda tensor: tensor.unsqueeze(0))
        form = pytree.spec(row)
        self._form = self._form or form
        if form != self._form:
            raise InputError(f"the item has the form {form}, others have {self._form}")
        return row

    def fingerprint(self) -> str | None:
        if not isinstance(self._source, Sequence):
            return None
        chunks = (list(self._source[start : start + _CHUNK]) for start in range(0, len(self._source), _CHUNK))
        return fingerprint.of([chunk if (whole := stack(chunk)) is None else whole for chunk in chunks])

    def spec(self) -> str:
        return "stream"


_END = object()
_LOOKED_AT = 16  # first items of a sequence, which tell whether it holds numbers
_CHUNK = 4096  # items of a list that are hashed together


def _weights(weight: Any, length: int) -> np.ndarray | None:
    """Weights as float64, checked; None when all are 1, which is the same as no weights at all."""
    if weight is None:
        return None
    if callable(weight):
        raise InputError("weight may be a function only for a stream; give one number per item, or a column's name")
    values = torch.as_tensor(weight).detach().cpu().to(torch.float64).numpy()
    if values.shape != (length,):
        raise InputError(f"weight has shape {values.shape} for {length} items; give one number per item")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError("every weight must be a finite number above 0")
    return None if length and (values == 1).all() else values
