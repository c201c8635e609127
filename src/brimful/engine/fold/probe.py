"""What a chunk of a fold needs in bytes: by the term's own formula, or by trying a few small ones."""

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...core.base import pytree
from ...core.base.errors import ConfigError
from ...core.base.pytree import Tree
from ...core.memory import devices
from ...core.memory.cost import Cost
from ...core.memory.oom import clear_frames, error_line, is_out_of_memory
from .online_softmax import whole
from .passes import Passes, cut
from .term import evaluate, is_fused, unhooked
from .tiling import Cuts, too_small

_POWERS = 5  # probes of 1, 4, 16, 64 and 256 components at most
_FIXED = 0.05  # share of what is fixed at which a probe is large enough


@dataclass(frozen=True, slots=True)
class Pair:
    """Bytes of a chunk by the number of its components, for one or two numbers of samples; a line between and beyond.

    What the fold itself keeps is not in it: the state, and the sums of the gradients.

    Attributes:
        known: the cost for each number of samples.
        single: the cost of components that are done at once, with a graph, for all samples; None where that was not
            measured.
    """

    known: tuple[tuple[int, Cost], ...]
    single: Cost | None = None

    def at(self, samples: int) -> Cost:
        """The cost for so many samples. From one number alone: in proportion, where there are more."""
        (first, low), (last, high) = self.known[0], self.known[-1]
        if first == last:
            more = max(1.0, samples / first)
            return Cost(low.fixed * more, low.per_unit * more, low.margin, low.source)
        share = (samples - first) / (last - first)
        fixed, per_unit = (
            max(0.0, getattr(low, name) + share * (getattr(high, name) - getattr(low, name)))
            for name in ("fixed", "per_unit")
        )
        return Cost(fixed, per_unit, high.margin, high.source)


def formula(term: Any, dtype: torch.dtype) -> Callable[[int], Cost] | None:
    """What the term itself says: `term.cost(samples, dtype)`, where it has that."""
    own = getattr(term, "cost", None)
    if not callable(own):
        return None

    def at(samples: int) -> Cost:
        found = own(samples, dtype)
        if not isinstance(found, Cost):
            raise ConfigError(f"term.cost returned a {type(found).__name__}; return a brimful.Cost by components")
        return found

    return at


def measured(passes: Passes, components: Tree, x: Tree, needed: Sequence[bool], most: int, room: int) -> Pair:
    """The bytes of a few small chunks, done for real: forward, and backward where a gradient is needed.

    Args:
        most: a chunk has no more components than this.
        room: bytes of which a probe should take no more than a part.
    """
    count, samples = min(most, pytree.rows(components)), pytree.rows(x)
    while True:
        found = []
        try:
            probe = functools.partial(_peak, passes, components, x, needed)
            if passes.device.type == "cuda":  # what libraries allocate once would look like the first probe's own
                _line(functools.partial(probe, samples), min(count, 4), room)
            for rows in sorted({max(1, samples // 2), samples}):
                found.append((rows, _line(functools.partial(probe, rows), count, room)))
            if is_fused(passes.term) or not any(needed) or samples < pytree.rows(x):
                return Pair(tuple(found))
            once = _line(functools.partial(probe, samples, once=True), count, room)
            return Pair(tuple(found), once)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            clear_frames(error)
            reason = error_line(error)
        devices.release_cache(passes.device)
        if found:  # fewer samples, or chunks, did fit
            return Pair(tuple(found))
        if samples == 1:
            raise too_small(reason)
        samples = max(1, samples // 4)


def _line(peak: Callable[[int], int], count: int, room: int) -> Cost:
    """Bytes by components, from chunks that grow until what grows with them is nearly all there is.

    The peak of a small chunk may lie at another moment than that of a large one. With f bytes fixed and s a component
    at k components, no moment can cost more than s + f / k a component, or it would have been the peak.
    """
    found: list[tuple[float, float]] = []
    for k in sorted({min(count, 4**power) for power in range(_POWERS)}):
        try:
            found.append((k, peak(k)))
        except Exception as error:
            if not (is_out_of_memory(error) and found):
                raise
            clear_frames(error)
            break
        cost = Cost.fit(found[-2:])
        if len(found) > 1 and (cost.fixed <= _FIXED * cost.per_unit * k or cost.at(4 * k) > room / 2):
            break
    return Cost.fit(found[-2:])


def _peak(
    passes: Passes, components: Tree, x: Tree, needed: Sequence[bool], samples: int, k: int, once: bool = False
) -> int:
    """Bytes at the peak of one chunk, less those that the fold keeps whatever its size. With `once`, as plain autograd
    does it, which computes nothing again."""
    part, some = cut(components, slice(0, k)), cut(x, slice(0, samples))
    trial = Passes(
        passes.term, passes.held, Cuts(k, samples, passes.device, retries=False), passes.device, passes.budget
    )

    def work() -> None:
        kept = trial.state(part, some).result()
        if any(needed):
            trial.gradients(part, some, (*kept, *(torch.ones_like(each) for each in kept)), needed)

    leaves = [leaf for tree in (part, some) for _, leaf in pytree.leaves(tree)]
    inputs = [*leaves, *passes.held.tensors]

    def at_once() -> None:
        for leaf, need in zip(leaves, needed, strict=False):
            leaf.requires_grad_(need)
        wanted = [leaf for leaf, need in zip(inputs, needed, strict=True) if need]
        with trial.within(), torch.enable_grad(), unhooked(passes.held.tensors):
            lse_B, mean_BV = whole(*evaluate(trial.term, part, some, k, samples, trial.device))
            both = lse_B.sum() + mean_BV.sum()
            if both.requires_grad:
                torch.autograd.grad(both, wanted, retain_graph=passes.held.through, allow_unused=True)

    peak = _peak_cuda if passes.device.type == "cuda" else _peak_live
    gradients = passes.weigh(inputs, needed)
    return max(0, peak(at_once if once else work, passes.device) - (gradients.given if once else gradients.sums))


def _peak_cuda(work: Callable[[], None], device: torch.device) -> int:
    """By the allocator's count of bytes in use; of so little, reserved bytes would tell the size of its blocks."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _peak_live(work: Callable[[], None], device: torch.device) -> int:
    """By the tensors that are alive: the resident set says little of so small a run."""
    # A compiled term is measured as it was written: with it, the counting would be compiled too.
    compiling = "torch._dynamo" in sys.modules
    with torch.compiler.set_stance("force_eager") if compiling else contextlib.nullcontext(), _Live() as live:
        work()
    return live.peak


class _Live(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make, for as long as they live."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled, and saying so to the compiler would import it, for seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {each.untyped_storage()._cdata for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        found = func(*args, **(kwargs or {}))
        for each in tree_leaves(found):
            if isinstance(each, Tensor):
                self._note(each.untyped_storage(), given)
        return found

    def _note(self, storage: torch.UntypedStorage, given: set[int]) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self._seen or place in given:
            return
        self._seen.add(place)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, place, size)

    def _gone(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self.now -= size
