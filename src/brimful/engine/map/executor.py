"""Running a function on one batch: moving it in, computing, moving the result out, and isolating the items that fail.

On CUDA the moves run on streams of their own, so that the next batch arrives and the last result leaves while
this batch computes. `stage` and `launch` only start work; `finish` waits for it.
"""

import asyncio
import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ...core.base import pytree
from ...core.base.errors import CancelledError, DeviceError, InputError
from ...core.base.rng import BATCH, derive_seed, seed_generators
from ...core.memory import oom
from ...core.memory.devices import transfer_streams
from .batch import OWN_CODES, RESULT, Batch, BatchResult, Status, check
from .bisect import find_bad, find_exhausting, find_first, group_size
from .functions.composition import SetupFailed
from .sources import LoadedBatch

_SAMPLED = 64  # single items that must all fail before the function itself is held to be wrong
_FEW = 3  # a batch this small says nothing about the function
_TOO_BIG = "this item alone does not fit the memory budget"


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
        exhausting: those of them that ran out of memory.
        holding: device tensors that must live until `left`.
    """

    loaded: LoadedBatch
    returned: Batch | None
    finite: torch.Tensor | None
    failed: dict[int, str]
    exhausting: tuple[int, ...] = ()
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
        fallback: retries the items of a finished batch that failed; None: they stay failed.
        seed: of the random numbers that the function draws from the global generators: each batch begins with a state
            of its own, by the position of its first item.
        grad: whether the function runs with autograd on.
        lenient: the function may fail on all it is given without being held to be wrong.
        retries: how often a call that raised is made again, with the same items and random state, before it counts.
    """

    def __init__(
        self,
        fn: Callable[[Any], Any],
        device: torch.device,
        *,
        nonfinite: str = "flag",
        fallback: Callable[[LoadedBatch, BatchResult], BatchResult] | None = None,
        seed: int = 0,
        grad: bool = False,
        lenient: bool = False,
        retries: int = 0,
    ) -> None:
        self.retries, self.on_call = retries, None
        self.fn, self.device, self._flag, self.seed, self.grad = fn, device, nonfinite == "flag", seed, grad
        self._fallback = fallback
        self._isolated = self._bad = 0  # items of batches that failed, and the bad ones among them
        self._form: pytree.Tree | None = None  # one row of results, for batches where all failed
        self._worked = lenient
        self._cuda = device.type == "cuda"
        self._inward, self._outward = transfer_streams(device)

    def watch(self, on_call: Callable[[int], None]) -> None:
        """Makes it announce every call of the function, its fallback's too, with how many items."""
        self.on_call: Callable[[int], None] | None = on_call
        if (inner := getattr(self._fallback, "executor", None)) is not None:
            inner.watch(on_call)

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
        """Runs the function, and starts moving its results back. An error that says that the device's memory ran out
        is raised as it is.

        Raises:
            InseparableBatch: the batch fails and no item of it does alone.
            DeviceError: the device is lost to this process.
        """
        loaded, failed = staged.loaded, dict(staged.loaded.bad)
        returned = None if staged.tree is None else self._tried(lambda: self.stage(loaded), loaded, staged, text=False)
        exhausting: tuple[int, ...] = ()
        if isinstance(error := returned, BaseException):
            full = oom.is_out_of_memory(error)
            with oom.DroppedTraceback(error):
                returned, bad = self._isolate_exhausting(loaded, error) if full else self._isolate(loaded, error)
            tries = f" (tried {1 + self.retries} times)" if self.retries and not full else ""
            failed |= {item: oom.error_line(error) + tries for item, error in bad.items()}
            exhausting = tuple(item for item, error in bad.items() if oom.is_out_of_memory(error))
        if returned is None:
            return LaunchedBatch(loaded, None, None, failed, exhausting)
        self._worked = True
        with self._on_device(loaded):
            return self._send_back(loaded, returned, failed, exhausting)

    def _tried(
        self, stage: Callable[[], StagedBatch], whole: LoadedBatch, staged: StagedBatch | None = None, text: bool = True
    ) -> Batch | BaseException:
        """What the function returns for a batch, or raises every time.

        Args:
            stage: makes the batch anew: the function may have changed what it was given.
            staged: the batch, where it was made already.
            text: of an error only the text is wanted, and not where it was raised.
        """
        returned = self._call(staged or stage(), whole)
        for _ in range(self.retries):
            if not isinstance(returned, BaseException) or oom.is_out_of_memory(returned):
                break
            oom.drop_traceback(returned)
            returned = self._call(stage(), whole)
        if text and isinstance(returned, BaseException):
            oom.drop_traceback(returned)
        return returned

    def _call(self, staged: StagedBatch, whole: LoadedBatch) -> Batch | BaseException:
        """What the function returns for a batch, or a part of the whole one, or raises for want of anything but the
        device's memory."""
        if staged.arrived is not None:
            torch.cuda.current_stream(self.device).wait_event(staged.arrived)
        if self.on_call is not None:
            self.on_call(staged.loaded.count)
        seed_generators(self.device, derive_seed(self.seed, BATCH, whole.first))
        try:
            with self._on_device(whole), torch.set_grad_enabled(self.grad):
                returned = self.fn(staged.take())
        except (DeviceError, CancelledError):
            raise
        except SetupFailed as failed:
            raise failed.error from None
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if self._says_device_is_full(error):
                raise
            oom.clear_frames(error)
            if not self.grad and "does not require grad" in (line := oom.error_line(error, named=False)):
                error.args = (f"{line} (map runs fn under torch.no_grad: pass grad=True)",)
            # Without this frame, which the traceback would hold with the batch until garbage is collected.
            return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        return check(returned, staged.loaded.count)

    def _says_device_is_full(self, error: BaseException) -> bool:
        """Memory of a GPU that runs out says little of the items; that of the host is asked for by one of them."""
        if isinstance(error, torch.OutOfMemoryError):
            return True
        return self._cuda and oom.is_out_of_memory(error) and not isinstance(error, MemoryError)

    @contextlib.contextmanager
    def _on_device(self, loaded: LoadedBatch) -> Iterator[None]:
        """Makes the device the current one. Where it is lost, the error says at which items."""
        try:
            with torch.cuda.device(self.device) if self._cuda else contextlib.nullcontext():
                yield
        except RuntimeError as error:
            if not oom.is_device_lost(error):
                raise
            raise DeviceError(
                f"{self.device} is lost to this process: {oom.error_line(error)}. It happened in the batch at "
                f"positions {loaded.start} to {loaded.stop}. With out=, what was finished is kept: run the same "
                "command again to go on. If it happens at the same place again, look at those items."
            ) from error

    def _isolate(self, loaded: LoadedBatch, error: BaseException) -> tuple[Batch | None, dict[int, BaseException]]:
        """Finds the items that make the function fail, and runs the batch at its own size without them."""
        good = self._readable(loaded)
        if loaded.bad:  # what stands in the place of those may be the reason
            returned = self._run_without(loaded, {})
            if not isinstance(returned, BaseException):
                return returned, {}
        if len(good) == 1:  # it has had its try
            return None, {good[0]: error}
        if not self._worked and len(good) > _FEW:
            sampled = good[:: math.ceil(len(good) / _SAMPLED)]
            if all(isinstance(self._attempt(loaded, [item]), BaseException) for item in sampled):
                error.add_note(
                    f"brimful.map: the function failed on a whole batch and on each of {len(sampled)} single items of "
                    "it, and has not worked once; mend it and run again."
                )
                raise error
        attempt = functools.partial(self._attempt, loaded)
        bad: dict[int, BaseException] = {}
        returned: Batch | BaseException | None = error
        if self._bad <= self._isolated / loaded.count:  # so far at most one in a batch: all others may well pass
            first = find_first(good, attempt, error)
            if first is None:
                raise oom.InseparableBatch
            bad = {good[first[0]]: first[1]}
            returned = self._run_without(loaded, bad)
        if isinstance(returned, BaseException):
            rest = good[good.index(next(iter(bad))) + 1 :] if bad else good
            group = min(len(rest) // 2, group_size(self._bad + len(bad), self._isolated + len(good) - len(rest)))
            more, separable = find_bad(rest, attempt, group)
            bad |= more
            returned = self._run_without(loaded, bad) if separable else error
        self._isolated, self._bad = self._isolated + len(good), self._bad + len(bad)
        if isinstance(returned, BaseException):
            raise oom.InseparableBatch
        return returned, bad

    def _isolate_exhausting(
        self, loaded: LoadedBatch, error: BaseException
    ) -> tuple[Batch | None, dict[int, BaseException]]:
        """Finds the one item that runs out of the host's memory, and runs the batch at its own size without it.

        Where there is no such item, the batch is too large, and the error is raised as it is.
        """
        exhausting = find_exhausting(self._readable(loaded), functools.partial(self._attempt, loaded))
        if exhausting is None or loaded.count == 1:
            raise error
        returned = self._run_without(loaded, {exhausting: error}, text=False)
        if isinstance(returned, BaseException):
            raise returned
        return returned, {exhausting: error}

    def _readable(self, loaded: LoadedBatch) -> list[int]:
        return [item for item in range(loaded.count) if item not in loaded.bad]

    def _attempt(self, loaded: LoadedBatch, items: Sequence[int]) -> Batch | BaseException:
        """What the function returns for some items of a batch, or raises."""
        first, last = items[0], items[-1]
        part = loaded.slice(first, last + 1) if last - first + 1 == len(items) else loaded.select(items)
        return self._tried(lambda: self.stage(part), loaded)

    def _run_without(
        self, loaded: LoadedBatch, bad: Mapping[int, object], text: bool = True
    ) -> Batch | BaseException | None:
        """What the function returns for a batch in which a good item stands in for each bad one; None where all are."""
        out = sorted({*bad, *loaded.bad})
        stand_in = next((item for item in range(loaded.count) if item not in bad and item not in loaded.bad), None)
        if stand_in is None:
            return None

        def stage() -> StagedBatch:
            staged = self.stage(loaded)
            if staged.arrived is not None:
                torch.cuda.current_stream(self.device).wait_event(staged.arrived)
            for _, tensor in pytree.leaves(staged.tree):
                tensor[out] = tensor[stand_in].clone()
            return staged

        return self._tried(stage, loaded, text=text)

    def _send_back(
        self, loaded: LoadedBatch, returned: Batch, failed: dict[int, str], exhausting: tuple[int, ...]
    ) -> LaunchedBatch:
        # Copies: the function may return the same memory each time, and these are still on their way when it does.
        copied = torch.Tensor.detach if returned.fresh else lambda tensor: tensor.detach().clone()
        values = pytree.apply(returned.values, copied)
        finite = pytree.finite_rows(values) if self._flag else None
        here = Batch(values, returned.status, dict(returned.message), dict(returned.meaning))
        if self._outward is None:
            there = replace(here, values=pytree.to(values, torch.device("cpu")))
            return LaunchedBatch(loaded, there, finite, failed, exhausting)
        self._outward.wait_event(torch.cuda.current_stream().record_event())
        with torch.cuda.stream(self._outward):
            there = replace(here, values=pytree.apply(values, _to_host), status=_to_host(here.status))
            left = self._outward.record_event()
            return LaunchedBatch(loaded, there, _to_host(finite), failed, exhausting, left, (here, finite))

    def finish(self, launched: LaunchedBatch) -> BatchResult:
        """Waits for a batch's results, flags what is bad, and sends that to the fallback."""
        loaded, returned = launched.loaded, launched.returned or Batch(None)
        if launched.left is not None:
            with self._on_device(loaded):
                launched.left.synchronize()
            launched.holding = None
        if returned.values is not None:
            pytree.check_offsets(returned.values, RESULT)
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
        status[list(loaded.slow)] = Status.FAILED if loaded.crash else Status.TIMEOUT
        status[list(launched.exhausting)] = Status.TOO_BIG
        messages |= launched.failed
        messages |= {item: f"{_TOO_BIG}: {launched.failed[item]}" for item in launched.exhausting}
        messages = {item: oom.as_text(text) for item, text in messages.items()}
        values = returned.values
        if values is not None and launched.failed:  # these rows hold another item's numbers
            values = pytree.apply(values, torch.clone)
            blank = pytree.blank_rows(values, len(launched.failed))
            values = pytree.put_rows(values, np.fromiter(launched.failed, dtype=np.int64), blank)
        reran = len(launched.failed) > len(loaded.bad)
        return self._complete(loaded, BatchResult(loaded.start, loaded.count, values, status, messages, reran))

    def too_big(self, loaded: LoadedBatch) -> BatchResult:
        """The result of an item that alone does not fit."""
        status = np.full(loaded.count, Status.TOO_BIG, dtype=np.int8)
        messages = dict.fromkeys(range(loaded.count), _TOO_BIG)
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
