"""Running a function on one batch: moving it in, computing, moving the result out, and dealing with bad items.

On CUDA the moves run on streams of their own, so that the next batch arrives and the last result leaves while
this batch computes. `stage` and `launch` only start work; `finish` waits for it.
"""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...core.base import pytree
from ...core.base.errors import DeviceError, InputError
from ...core.memory.oom import InseparableBatch, OutOfMemory, clear_frames, error_line, is_device_lost, is_out_of_memory
from .batch import OWN_CODES, Batch, Status, check, is_bad
from .bisect import find_bad
from .sources import LoadedBatch

_TRIED_AT_FIRST = 64  # single items that must all fail before the function itself is held to be wrong
_FEW = 3  # a batch this small says nothing about the function


@dataclass(slots=True)
class StagedBatch:
    """A batch on its way to the device."""

    loaded: LoadedBatch
    tree: pytree.Tree | None
    arrived: Any = None

    def take(self) -> pytree.Tree | None:
        """The batch, for whoever is to be the only one that holds it."""
        tree, self.tree = self.tree, None
        return tree


@dataclass(slots=True)
class LaunchedBatch:
    """A batch whose results are on their way back."""

    loaded: LoadedBatch
    values: pytree.Tree | None
    status: torch.Tensor | None
    finite: torch.Tensor | None
    messages: dict[int, str]
    failed: dict[int, str]
    left: Any = None
    holding: Any = None  # device tensors that must live until `left`
    meaning: Mapping[int, str] = field(default_factory=dict)

    def computed(self) -> bool:
        """Whether the results are there already."""
        return self.left is None or self.left.query()


@dataclass(slots=True)
class BatchResult:
    """A finished batch in host memory.

    Attributes:
        values: the results; None when every item failed and nobody knows yet what a result looks like.
        reran: whether failing items made it run more than once, so that its time says little.
    """

    start: int
    count: int
    values: pytree.Tree | None
    status: np.ndarray
    messages: dict[int, str] = field(default_factory=dict)
    reran: bool = False

    @property
    def bad(self) -> int:
        return int(np.count_nonzero(is_bad(self.status)))


class Executor:
    """Runs one function on one device.

    Args:
        fn: the user's function.
        device: where it runs.
        nonfinite: "flag" marks rows that hold a NaN or an infinity; "allow" lets them be.
        rescue: tries items that went wrong another way; see `fallback.fallback_executor`.
        lenient: the function may fail on all it is given without being held to be wrong.
    """

    def __init__(
        self,
        fn: Callable[[Any], Any],
        device: torch.device,
        *,
        nonfinite: str = "flag",
        rescue: Callable[[LoadedBatch], list["BatchResult"]] | None = None,
        lenient: bool = False,
    ) -> None:
        self.fn, self.device, self._flag, self._rescuer = fn, device, nonfinite == "flag", rescue
        self._form: pytree.Tree | None = None  # one row of results, for batches where all failed
        self._worked = lenient
        self._cuda = device.type == "cuda"
        self._inward = torch.cuda.Stream(device) if self._cuda else None
        self._outward = torch.cuda.Stream(device) if self._cuda else None

    def pin(self, loaded: LoadedBatch) -> LoadedBatch:
        """Copies a batch to memory that the device can read by itself; on the loader's thread."""
        if not self._cuda or loaded.tree is None:
            return loaded

        def pinned(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.is_cuda or tensor.is_pinned():
                return tensor
            return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)

        return LoadedBatch(loaded.start, loaded.count, pytree.apply(loaded.tree, pinned), loaded.bad, loaded.weights)

    def stage(self, loaded: LoadedBatch) -> StagedBatch:
        """Starts moving a batch to the device. The function gets a copy it may change as it likes.

        Raises:
            OutOfMemory: there is no room for it.
        """
        if loaded.tree is None:
            return StagedBatch(loaded, None)
        if not self._cuda:
            return StagedBatch(loaded, pytree.apply(loaded.tree, lambda tensor: tensor.clone().to(self.device)))
        try:
            with torch.cuda.device(self.device):
                compute = torch.cuda.current_stream()
                assert self._inward is not None
                # Memory of the inward stream's own pool: it need not wait for what computes now.
                with torch.cuda.stream(self._inward):
                    room = pytree.apply(loaded.tree, lambda tensor: _arrive(tensor, self.device, compute))
                    return StagedBatch(loaded, room, self._inward.record_event())
        except RuntimeError as error:
            self._raise_if_lost(error, loaded)
            if not is_out_of_memory(error):
                raise
        raise OutOfMemory

    def launch(self, staged: StagedBatch) -> LaunchedBatch:
        """Runs the function, and starts moving its results back.

        Raises:
            OutOfMemory: memory ran out.
            InseparableBatch: the batch fails and no item of it does alone.
            DeviceError: the device is lost to this process.
        """
        loaded, tree = staged.loaded, staged.take()
        if tree is None:
            return LaunchedBatch(loaded, None, None, None, {}, dict(loaded.bad))
        if staged.arrived is not None:
            torch.cuda.current_stream(self.device).wait_event(staged.arrived)
        outcome = self._attempt(loaded, tree)
        del tree
        failed = dict(loaded.bad)
        if isinstance(outcome, Exception):
            outcome, found = self._narrow(loaded, outcome)
            failed |= found
        if outcome is None:
            return LaunchedBatch(loaded, None, None, None, {}, failed)
        self._worked = True
        try:
            # A copy: the function may return the same memory each time, and these are still on their way when it does.
            values = pytree.apply(outcome.values, lambda tensor: tensor.detach().clone())
            finite = pytree.finite_rows(values, loaded.count) if self._flag else None
            return self._send_back(loaded, values, outcome, finite, failed)
        except RuntimeError as error:
            self._raise_if_lost(error, loaded)
            if not is_out_of_memory(error):
                raise
        raise OutOfMemory

    def _attempt(self, loaded: LoadedBatch, tree: pytree.Tree) -> Batch | Exception:
        count = pytree.rows(tree)
        try:
            with torch.cuda.device(self.device) if self._cuda else contextlib.nullcontext():
                returned = self.fn(tree)
        except Exception as error:
            self._raise_if_lost(error, loaded)
            clear_frames(error)
            failure = None if is_out_of_memory(error) else error
        else:
            return check(returned, count)
        if failure is None:
            raise OutOfMemory
        try:
            return failure
        finally:  # its traceback holds this frame: the batch would stay in memory until garbage is collected
            del failure, tree, loaded

    def _raise_if_lost(self, error: Exception, loaded: LoadedBatch) -> None:
        if is_device_lost(error):
            raise DeviceError(
                f"{self.device} is lost to this process: {error_line(error)}. It happened in the batch at positions "
                f"{loaded.start} to {loaded.start + loaded.count}. With out=, what was finished is kept: run the "
                "same command again to go on. If it happens at the same place again, look at those items."
            ) from error

    def _narrow(self, loaded: LoadedBatch, error: Exception) -> tuple[Batch | None, dict[int, str]]:
        """Finds the items that make the function fail, and runs the batch at its own size without them."""
        good = [place for place in range(loaded.count) if place not in loaded.bad]
        if not self._worked and len(good) > _FEW:
            tried = good[:: math.ceil(len(good) / _TRIED_AT_FIRST)]
            if all(isinstance(self._try(loaded, [place]), Exception) for place in tried):
                error.add_note(
                    f"brimful.map: the function failed on a whole batch and on each of {len(tried)} single items of "
                    "it, and has not worked once; mend it and run again."
                )
                raise error
        bad = {
            place: error_line(why) for place, why in find_bad(good, lambda part: self._failure(loaded, part)).items()
        }
        left = [place for place in good if place not in bad]
        if not left:
            return None, bad
        index = list(range(loaded.count))
        for place in (*bad, *loaded.bad):
            index[place] = left[0]
        outcome = self._try(loaded, index)
        if isinstance(outcome, Exception):
            raise InseparableBatch
        return outcome, bad

    def _failure(self, loaded: LoadedBatch, places: Sequence[int]) -> Exception | None:
        outcome = self._try(loaded, places)
        return outcome if isinstance(outcome, Exception) else None

    def _try(self, loaded: LoadedBatch, places: Sequence[int]) -> Batch | Exception:
        part = select(loaded, places)
        staged = self.stage(part)
        if staged.arrived is not None:
            torch.cuda.current_stream(self.device).wait_event(staged.arrived)
        return self._attempt(loaded, staged.take())

    def _send_back(
        self,
        loaded: LoadedBatch,
        values: pytree.Tree,
        outcome: Batch,
        finite: torch.Tensor | None,
        failed: dict[int, str],
    ) -> LaunchedBatch:
        messages, meaning = dict(outcome.message), dict(outcome.meaning)
        if not self._cuda:
            values = pytree.to(values, torch.device("cpu"))
            return LaunchedBatch(loaded, values, outcome.status, finite, messages, failed, meaning=meaning)
        assert self._outward is not None
        status = outcome.status
        with torch.cuda.device(self.device):
            self._outward.wait_event(torch.cuda.current_stream().record_event())
            with torch.cuda.stream(self._outward):
                back = pytree.apply(values, _leave)
                status_back = None if status is None else _leave(status)
                finite_back = None if finite is None else _leave(finite)
                left = self._outward.record_event()
        holding = (values, status, finite)
        return LaunchedBatch(loaded, back, status_back, finite_back, messages, failed, left, holding, meaning)

    def finish(self, launched: LaunchedBatch) -> BatchResult:
        """Waits for a batch's results, flags what is bad, and sends that to the fallback."""
        if launched.left is not None:
            try:
                launched.left.synchronize()
            except RuntimeError as error:
                self._raise_if_lost(error, launched.loaded)
                raise
            launched.holding = None
        loaded = launched.loaded
        status = np.zeros(loaded.count, dtype=np.int8)
        if launched.status is not None:
            status[:] = _codes(launched.status.numpy())
        messages = {place: text for place, text in launched.messages.items() if 0 <= place < loaded.count}
        if launched.finite is not None:
            infinite = ~launched.finite.numpy() & (status == Status.OK)
            status[infinite] = Status.NONFINITE
            for place in np.flatnonzero(infinite).tolist():
                messages.setdefault(place, "the result is not finite")
        for place in np.flatnonzero(np.isin(status, list(launched.meaning))).tolist():
            messages.setdefault(place, launched.meaning[int(status[place])])
        for place, reason in launched.failed.items():
            status[place], messages[place] = Status.FAILED, reason
        values = launched.values
        if values is not None:
            self._form = pytree.apply(values, lambda tensor: tensor[:1])
            values = _blank(values, np.fromiter(launched.failed, dtype=np.int64))
        reran = len(launched.failed) > len(loaded.bad)
        return self._rescue(loaded, BatchResult(loaded.start, loaded.count, values, status, messages, reran))

    def too_big(self, loaded: LoadedBatch) -> BatchResult:
        """The result of an item that alone does not fit."""
        status = np.full(loaded.count, Status.TOO_BIG, dtype=np.int8)
        messages = dict.fromkeys(range(loaded.count), "this item alone does not fit the memory budget")
        return self._rescue(loaded, BatchResult(loaded.start, loaded.count, None, status, messages))

    def _rescue(self, loaded: LoadedBatch, done: BatchResult) -> BatchResult:
        if done.values is None and self._form is not None:
            done.values = pytree.blank_rows(self._form, done.count)
        wanting = [
            place
            for place in np.flatnonzero(is_bad(done.status) & (done.status < OWN_CODES)).tolist()
            if place not in loaded.bad
        ]
        if self._rescuer is None or not wanting or loaded.tree is None:
            return done
        for part in self._rescuer(select(loaded, wanting)):
            places = [wanting[part.start + place] for place in range(part.count)]
            _merge(done, part, places)
        if done.values is not None and self._form is None:
            self._form = pytree.apply(done.values, lambda tensor: tensor[:1])
        return done


def select(loaded: LoadedBatch, places: Sequence[int]) -> LoadedBatch:
    """Some items of a batch, by their places in it, as a batch of their own that starts at 0."""
    index = torch.tensor(places, dtype=torch.int64)
    weights = None if loaded.weights is None else loaded.weights[list(places)]
    return LoadedBatch(0, len(places), pytree.take_rows(loaded.tree, index), {}, weights)


def _codes(status: np.ndarray) -> np.ndarray:
    known = (status >= 0) & (status <= max(Status)) | (status >= OWN_CODES) & (status <= np.iinfo(np.int8).max)
    if not known.all():
        raise InputError(
            f"Batch.status holds {int(status[~known][0])}; use a Status, or codes of your own from {OWN_CODES} to "
            f"{np.iinfo(np.int8).max}"
        )
    return status


def _arrive(tensor: torch.Tensor, device: torch.device, compute: torch.cuda.Stream) -> torch.Tensor:
    moved = torch.empty_like(tensor, device=device).copy_(tensor, non_blocking=True)
    moved.record_stream(compute)
    return moved


def _leave(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_cuda:
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def _blank(values: pytree.Tree, places: np.ndarray) -> pytree.Tree:
    """Rows that hold another item's numbers, made to say nothing."""
    if len(places):
        values = pytree.apply(values, torch.clone)
        pytree.put_rows(values, places, pytree.blank_rows(values, len(places)))
    return values


def _shapes(values: pytree.Tree) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, shape) for name, _, shape in pytree.spec(values)]


def _merge(done: BatchResult, part: BatchResult, places: list[int]) -> None:
    """Puts the rows that a fallback saved into the batch."""
    bad = is_bad(part.status)
    saved = np.flatnonzero(~bad).tolist()
    for place in np.flatnonzero(bad).tolist():
        if reason := part.messages.get(place):
            before = done.messages.get(places[place], "the function flagged it")
            done.messages[places[place]] = f"{before}; the fallback too: {reason}"
    if not saved or part.values is None:
        return
    if done.values is None:
        done.values = pytree.blank_rows(part.values, done.count)
    if _shapes(done.values) != _shapes(part.values):
        raise InputError(
            f"the fallback returned {_shapes(part.values)} for an item and the function {_shapes(done.values)}; names "
            "and shapes must be the same"
        )
    done.values = pytree.apply(done.values, torch.clone)  # it may be the function's own memory, or expanded
    target, source = torch.tensor([places[place] for place in saved]), torch.tensor(saved)
    pairs = zip(pytree.leaves(done.values), pytree.leaves(part.values), strict=True)
    lost = torch.zeros(len(saved), dtype=torch.bool)  # finite as the fallback has it, and not in the result's dtype
    for (_, mine), (_, theirs) in pairs:
        rows = theirs[source]
        mine[target] = rows.to(mine.dtype)
        if rows.is_floating_point() or rows.is_complex():
            lost |= (torch.isfinite(rows) & ~torch.isfinite(mine[target])).reshape(len(saved), -1).any(dim=1)
    done.status[target[~lost].numpy()] = Status.RESCUED
    for place in target[lost].tolist():
        done.messages[place] = (
            f"{done.messages.get(place, 'it failed')}; the fallback's result is beyond the dtype's range"
        )
