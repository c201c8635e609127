"""Running a function on one batch: moving it in, computing, moving the result out, isolating the items that fail, and
retrying those another way (`Fallback`).

On CUDA the moves run on streams of their own, so that the next batch arrives and the last result leaves while
this batch computes. `stage` and `launch` only start work; `finish` waits for it.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ...core.base import pytree
from ...core.base.errors import DeviceError, InputError
from ...core.memory import devices
from ...core.memory.oom import (
    InseparableBatch,
    OutOfMemory,
    clear_frames,
    error_line,
    is_device_lost,
    is_out_of_memory,
    retry_smaller,
)
from .batch import OWN_CODES, Batch, BatchResult, Status, check, is_bad
from .bisect import find_bad
from .sources import LoadedBatch

_SAMPLED = 64  # single items that must all fail before the function itself is held to be wrong
_FEW = 3  # a batch this small says nothing about the function


@dataclass(slots=True)
class StagedBatch:
    """A batch on its way to the device, where it is once `arrived` has happened."""

    loaded: LoadedBatch
    tree: pytree.Tree | None
    arrived: Any = None

    def take(self) -> pytree.Tree | None:
        """The batch, for whoever is to be the only one that holds it."""
        tree, self.tree = self.tree, None
        return tree


@dataclass(slots=True)
class LaunchedBatch:
    """A batch whose results are on their way to host memory, where they are once `left` has happened.

    Attributes:
        returned: what the function returned; None where it worked for no item.
        finite: which rows are finite; None where that is not asked.
        failed: the reason for each item on which the function failed, by its index in the batch.
        holding: device tensors that must live until `left`.
    """

    loaded: LoadedBatch
    returned: Batch | None
    finite: torch.Tensor | None
    failed: dict[int, str]
    left: Any = None
    holding: Any = None

    def computed(self) -> bool:
        """Whether the results are there already."""
        return self.left is None or self.left.query()


class Executor:
    """Runs one function on one device.

    Args:
        fn: the user's function.
        device: where it runs.
        nonfinite: "flag" marks rows that hold a NaN or an infinity; "allow" lets them be.
        fallback: how to retry items that failed: another function, a dtype to compute in, or a device. None: they stay
            failed.
        lenient: the function may fail on all it is given without being held to be wrong.
    """

    def __init__(
        self,
        fn: Callable[[Any], Any],
        device: torch.device,
        *,
        nonfinite: str = "flag",
        fallback: Any = None,
        lenient: bool = False,
    ) -> None:
        self.fn, self.device, self._flag = fn, device, nonfinite == "flag"
        self._fallback = None if fallback is None else Fallback(self, nonfinite, fallback)
        self._form: pytree.Tree | None = None  # one row of results, for batches where all failed
        self._worked = lenient
        self._cuda = device.type == "cuda"
        self._inward, self._outward = (torch.cuda.Stream(device) if self._cuda else None for _ in range(2))

    def run(self, loaded: LoadedBatch) -> BatchResult:
        """The whole of it, for a batch that overlaps with no other."""
        return self.finish(self.launch(self.stage(loaded)))

    def pin(self, loaded: LoadedBatch) -> LoadedBatch:
        """Copies a batch to memory that the device can read by itself; on the loader's thread."""
        if not self._cuda or loaded.tree is None:
            return loaded

        def pinned(tensor: torch.Tensor) -> torch.Tensor:
            return tensor if tensor.is_cuda or tensor.is_pinned() else _empty_pinned(tensor).copy_(tensor)

        return replace(loaded, tree=pytree.apply(loaded.tree, pinned))

    def stage(self, loaded: LoadedBatch) -> StagedBatch:
        """Starts moving a batch to the device. The function gets a copy it may change as it likes."""
        if loaded.tree is None:
            return StagedBatch(loaded, None)
        if self._inward is None:
            return StagedBatch(loaded, pytree.apply(loaded.tree, lambda tensor: tensor.clone().to(self.device)))
        with self._on_device(loaded):
            compute = torch.cuda.current_stream()

            def move(tensor: torch.Tensor) -> torch.Tensor:
                moved = torch.empty_like(tensor, device=self.device).copy_(tensor, non_blocking=True)
                moved.record_stream(compute)
                return moved

            # Memory of the inward stream's own pool: it need not wait for what computes now.
            with torch.cuda.stream(self._inward):
                return StagedBatch(loaded, pytree.apply(loaded.tree, move), self._inward.record_event())

    def launch(self, staged: StagedBatch) -> LaunchedBatch:
        """Runs the function, and starts moving its results back. An error that says that memory ran out is raised as
        it is.

        Raises:
            InseparableBatch: the batch fails and no item of it does alone.
            DeviceError: the device is lost to this process.
        """
        loaded, failed = staged.loaded, dict(staged.loaded.bad)
        returned = None if staged.tree is None else self._call(staged, loaded)
        if isinstance(returned, Exception):
            returned, isolated = self._isolate(loaded, returned)
            failed |= isolated
        if returned is None:
            return LaunchedBatch(loaded, None, None, failed)
        self._worked = True
        with self._on_device(loaded):
            return self._send_back(loaded, returned, failed)

    def _call(self, staged: StagedBatch, whole: LoadedBatch) -> Batch | Exception:
        """What the function returns for a batch, or raises for want of anything but memory.

        Args:
            whole: the batch that it is, or is a part of.
        """
        if staged.arrived is not None:
            torch.cuda.current_stream(self.device).wait_event(staged.arrived)
        try:
            with self._on_device(whole):
                returned = self.fn(staged.take())
        except DeviceError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            clear_frames(error)
            # Without this frame, which the traceback would hold with the batch until garbage is collected.
            return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        return check(returned, staged.loaded.count)

    @contextlib.contextmanager
    def _on_device(self, loaded: LoadedBatch) -> Iterator[None]:
        """Makes the device the current one. Where it is lost, the error says at which items."""
        try:
            with torch.cuda.device(self.device) if self._cuda else contextlib.nullcontext():
                yield
        except RuntimeError as error:
            if not is_device_lost(error):
                raise
            raise DeviceError(
                f"{self.device} is lost to this process: {error_line(error)}. It happened in the batch at positions "
                f"{loaded.start} to {loaded.stop}. With out=, what was finished is kept: run the same command again "
                "to go on. If it happens at the same place again, look at those items."
            ) from error

    def _isolate(self, loaded: LoadedBatch, error: Exception) -> tuple[Batch | None, dict[int, str]]:
        """Finds the items that make the function fail, and runs the batch at its own size without them."""

        def attempt(items: Sequence[int]) -> Batch | Exception:
            return self._call(self.stage(loaded.select(items)), loaded)

        good = [item for item in range(loaded.count) if item not in loaded.bad]
        if not self._worked and len(good) > _FEW:
            sampled = good[:: math.ceil(len(good) / _SAMPLED)]
            if all(isinstance(attempt([item]), Exception) for item in sampled):
                error.add_note(
                    f"brimful.map: the function failed on a whole batch and on each of {len(sampled)} single items of "
                    "it, and has not worked once; mend it and run again."
                )
                raise error
        bad = {item: error_line(reason) for item, reason in find_bad(good, attempt).items()}
        left = [item for item in good if item not in bad]
        if not left:
            return None, bad
        returned = attempt([left[0] if item in bad or item in loaded.bad else item for item in range(loaded.count)])
        if isinstance(returned, Exception):
            raise InseparableBatch
        return returned, bad

    def _send_back(self, loaded: LoadedBatch, returned: Batch, failed: dict[int, str]) -> LaunchedBatch:
        # Copies: the function may return the same memory each time, and these are still on their way when it does.
        values = pytree.apply(returned.values, lambda tensor: tensor.detach().clone())
        finite = pytree.finite_rows(values, loaded.count) if self._flag else None
        here = Batch(values, returned.status, dict(returned.message), dict(returned.meaning))
        if self._outward is None:
            return LaunchedBatch(loaded, replace(here, values=pytree.to(values, torch.device("cpu"))), finite, failed)
        self._outward.wait_event(torch.cuda.current_stream().record_event())
        with torch.cuda.stream(self._outward):
            there = replace(here, values=pytree.apply(values, _to_host), status=_to_host(here.status))
            return LaunchedBatch(loaded, there, _to_host(finite), failed, self._outward.record_event(), (here, finite))

    def finish(self, launched: LaunchedBatch) -> BatchResult:
        """Waits for a batch's results, flags what is bad, and sends that to the fallback."""
        loaded, returned = launched.loaded, launched.returned or Batch(None)
        if launched.left is not None:
            with self._on_device(loaded):
                launched.left.synchronize()
            launched.holding = None
        status = np.zeros(loaded.count, dtype=np.int8)
        if returned.status is not None:
            status[:] = _codes(returned.status.numpy())
        messages = {item: text for item, text in returned.message.items() if 0 <= item < loaded.count}
        if launched.finite is not None:
            infinite = ~launched.finite.numpy() & (status == Status.OK)
            status[infinite] = Status.NONFINITE
            for item in np.flatnonzero(infinite).tolist():
                messages.setdefault(item, "the result is not finite")
        for item in np.flatnonzero(np.isin(status, list(returned.meaning))).tolist():
            messages.setdefault(item, returned.meaning[int(status[item])])
        status[list(launched.failed)] = Status.FAILED
        messages |= launched.failed
        values = returned.values
        if values is not None and launched.failed:  # these rows hold another item's numbers
            values = pytree.apply(values, torch.clone)
            blank = pytree.blank_rows(values, len(launched.failed))
            pytree.put_rows(values, np.fromiter(launched.failed, dtype=np.int64), blank)
        reran = len(launched.failed) > len(loaded.bad)
        return self._complete(loaded, BatchResult(loaded.start, loaded.count, values, status, messages, reran))

    def too_big(self, loaded: LoadedBatch) -> BatchResult:
        """The result of an item that alone does not fit."""
        status = np.full(loaded.count, Status.TOO_BIG, dtype=np.int8)
        messages = dict.fromkeys(range(loaded.count), "this item alone does not fit the memory budget")
        return self._complete(loaded, BatchResult(loaded.start, loaded.count, None, status, messages))

    def _complete(self, loaded: LoadedBatch, done: BatchResult) -> BatchResult:
        """Gives items without a result blank rows, where it is known what a result looks like, and a second try."""
        if done.values is None and self._form is not None:
            done.values = pytree.blank_rows(self._form, done.count)
        if self._fallback is not None:
            done = self._fallback(loaded, done)
        if done.values is not None and self._form is None:
            self._form = pytree.blank_rows(done.values, 1)
        return done


class Fallback:
    """Retries the items of a batch that failed.

    Args:
        first: the executor whose function failed on them.
        nonfinite: as for `Executor`.
        fallback: another function, a dtype to compute in, or a device.
    """

    def __init__(self, first: Executor, nonfinite: str, fallback: Any) -> None:
        def cast(tree: pytree.Tree) -> Any:
            floats = pytree.apply(tree, lambda tensor: tensor.to(fallback) if tensor.is_floating_point() else tensor)
            return first.fn(floats)

        fn, device = cast if isinstance(fallback, torch.dtype) else fallback, first.device
        if isinstance(fallback, str | torch.device):
            fn, device = first.fn, devices.resolve(fallback)
        self._executor = Executor(fn, device, nonfinite=nonfinite, lenient=True)

    def __call__(self, loaded: LoadedBatch, done: BatchResult) -> BatchResult:
        """The result of a batch with what the fallback gives for its bad items. The function's own codes are final."""
        bad = np.flatnonzero(is_bad(done.status) & (done.status < OWN_CODES))
        bad = bad[[item not in loaded.bad for item in bad.tolist()]]
        if len(bad) and loaded.tree is not None:
            for part in self._run(loaded.select(bad)):
                _merge(done, part, bad[part.start : part.start + part.count])
        return done

    def _run(self, loaded: LoadedBatch) -> Iterator[BatchResult]:
        """The results of these items; those that do not fit together are run in halves."""
        waiting = [loaded]

        def shrink() -> bool:
            if waiting[-1].count == 1:
                raise OutOfMemory
            waiting[-1:] = reversed(waiting[-1].halves())
            return True

        while waiting:
            try:
                yield retry_smaller(lambda: self._executor.run(waiting[-1]), shrink, self._executor.device)
            except OutOfMemory:
                yield self._executor.too_big(waiting[-1])
            waiting.pop()


def _merge(done: BatchResult, part: BatchResult, items: np.ndarray) -> None:
    """Puts the rows that a fallback saved into the batch.

    Args:
        items: the index in the batch of each item of the part.
    """
    failed = is_bad(part.status)
    for item, row in zip(items[failed].tolist(), np.flatnonzero(failed).tolist(), strict=True):
        if reason := part.messages.get(row):
            done.messages[item] = f"{done.messages.get(item, 'the function flagged it')}; the fallback too: {reason}"
    if failed.all() or part.values is None:
        return
    if done.values is None:
        done.values = pytree.blank_rows(part.values, done.count)
    if _shapes(done.values) != _shapes(part.values):
        raise InputError(
            f"the fallback returned {_shapes(part.values)} for an item and the function {_shapes(done.values)}; names "
            "and shapes must be the same"
        )
    done.values = pytree.apply(done.values, torch.clone)  # it may be the function's own memory, or expanded
    target, saved = torch.from_numpy(items[~failed]), torch.from_numpy(np.flatnonzero(~failed))
    lost = torch.zeros(len(saved), dtype=torch.bool)  # finite as the fallback has it, and not in the result's dtype
    for (_, mine), (_, theirs) in zip(pytree.leaves(done.values), pytree.leaves(part.values), strict=True):
        rows = theirs[saved]
        mine[target] = rows.to(mine.dtype)
        if rows.is_floating_point() or rows.is_complex():
            lost |= (torch.isfinite(rows) & ~torch.isfinite(mine[target])).reshape(len(saved), -1).any(dim=1)
    done.status[target[~lost].numpy()] = Status.RESCUED
    for item in target[lost].tolist():
        before = done.messages.get(item, "it failed")
        done.messages[item] = f"{before}; the fallback's result is beyond the dtype's range"


def _shapes(values: pytree.Tree) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, shape) for name, _, shape in pytree.spec(values)]


def _codes(status: np.ndarray) -> np.ndarray:
    known = (status >= 0) & (status <= max(Status)) | (status >= OWN_CODES) & (status <= np.iinfo(np.int8).max)
    if not known.all():
        raise InputError(
            f"Batch.status holds {int(status[~known][0])}; use a Status, or codes of your own from {OWN_CODES} to "
            f"{np.iinfo(np.int8).max}"
        )
    return status


def _empty_pinned(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


def _to_host(tensor: Any) -> Any:
    return _empty_pinned(tensor).copy_(tensor, non_blocking=True) if tensor is not None and tensor.is_cuda else tensor
