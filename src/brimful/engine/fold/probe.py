"""What a chunk of a fold needs in bytes: by the term's own formula, or by trying a few small ones."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...core.base import pytree
from ...core.base.errors import ConfigError
from ...core.base.pytree import Tree
from ...core.memory.cost import Cost
from ...core.memory.oom import OutOfMemory
from ...core.memory.probe import peak_bytes, probe
from .online_softmax import whole
from .passes import Passes, cut
from .term import evaluate, is_fused, unhooked
from .tiling import Cuts, too_small

_LARGEST = 256  # components of a probe: 1, 4, 16 and so on up to this
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
    peak = functools.partial(_peak, passes, components, x, needed)

    def line(rows: int, count: int = count, once: bool = False) -> Cost:
        """Bytes by components, from chunks that grow until what grows with them is nearly all there is.

        The peak of a small chunk may lie at another moment than that of a large one. With f bytes fixed and s a
        component at k components, no moment can cost more than s + f / k a component, or it would have been the peak.
        """

        def following(cost: Cost, k: int) -> int | None:
            enough = k > 1 and (cost.fixed <= _FIXED * cost.per_unit * k or cost.at(4 * k) > room / 2)
            return None if enough else min(count, 4 * k, _LARGEST)

        return probe(functools.partial(peak, rows, once=once), 1, following, passes.device)

    while True:
        found = []
        try:
            if passes.device.type == "cuda":  # what libraries allocate once would look like the first probe's own
                line(samples, min(count, 4))
            for rows in sorted({max(1, samples // 2), samples}):
                found.append((rows, line(rows)))
            if is_fused(passes.term) or not any(needed) or samples < pytree.rows(x):
                return Pair(tuple(found))
            return Pair(tuple(found), line(samples, once=True))
        except OutOfMemory as error:
            if found:  # fewer samples, or chunks, did fit
                return Pair(tuple(found))
            if samples == 1:
                raise too_small(str(error)) from error
            samples = max(1, samples // 4)


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

    gradients = passes.weigh(inputs, needed)
    peak = peak_bytes(at_once if once else work, passes.device)
    return max(0, peak - (gradients.given if once else gradients.sums))
