"""What a chunk of a fold needs in bytes: by the term's own formula, or by computing a few small ones."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...core.base import pytree
from ...core.base.errors import BudgetError, ConfigError
from ...core.base.pytree import Tree
from ...core.memory.cost import Cost
from ...core.memory.oom import OutOfMemory
from ...core.memory.probe import peak_bytes, probe
from .online_softmax import softmax_mean
from .passes import Passes, rows_of
from .term import evaluate, is_fused, without_hooks
from .tiling import ADVICE, SMALLEST, Tiling

_LARGEST = 256  # components of a probe: 1, 4, 16 and so on up to this
_FIXED = 0.05  # share of what is fixed at which a probe is large enough


@dataclass(frozen=True, slots=True)
class ChunkCost:
    """Bytes of a chunk by the number of its components, for one or two numbers of samples; a line between and beyond.

    What the fold itself keeps is not in it: the state, and the sums of the gradients.

    Attributes:
        measured: the cost for each number of samples.
        single: the cost of components that are computed at once, with a graph, for all samples; None where that was
            not measured.
    """

    measured: tuple[tuple[int, Cost], ...]
    single: Cost | None = None

    def at(self, samples: int) -> Cost:
        """The cost for so many samples. From one number alone: in proportion, where there are more."""
        (first, low), (last, high) = self.measured[0], self.measured[-1]
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
    """The term's own estimate, `term.cost(samples, dtype)`, where it has one."""
    own = getattr(term, "cost", None)
    if not callable(own):
        return None

    def at(samples: int) -> Cost:
        cost = own(samples, dtype)
        if not isinstance(cost, Cost):
            raise ConfigError(f"term.cost returned a {type(cost).__name__}; return a brimful.Cost by components")
        return cost

    return at


def measure(passes: Passes, components: Tree, x: Tree, needed: Sequence[bool], most: int, room: int) -> ChunkCost:
    """The bytes of a few small chunks, computed for real: forward, and backward where a gradient is needed.

    Args:
        most: a chunk has no more components than this.
        room: bytes of which a probe should take no more than a part.
    """
    count, samples = min(most, pytree.rows(components)), pytree.rows(x)

    def by_components(rows: int, count: int = count, single: bool = False) -> Cost:
        """Bytes by components, from chunks that grow until what grows with them is nearly all there is.

        The peak of a small chunk may lie at another moment than that of a large one. With f bytes fixed and s per
        component at k components, no moment can cost more than s + f / k per component, or it would have been the peak.
        """

        def following(cost: Cost, k: int) -> int | None:
            enough = k > 1 and (cost.fixed <= _FIXED * cost.per_unit * k or cost.at(4 * k) > room / 2)
            return None if enough else min(count, 4 * k, _LARGEST)

        peak = functools.partial(_peak, passes, components, x, needed, rows, single=single)
        return probe(peak, 1, following, passes.device)

    while True:
        costs = []
        try:
            if passes.device.type == "cuda":  # what libraries allocate once would look like the first probe's own
                by_components(samples, min(count, 4))
            for rows in sorted({max(1, samples // 2), samples}):
                costs.append((rows, by_components(rows)))
            if is_fused(passes.term) or not any(needed) or samples < pytree.rows(x):
                return ChunkCost(tuple(costs))
            return ChunkCost(tuple(costs), by_components(samples, single=True))
        except OutOfMemory as error:
            if costs:  # fewer samples, or chunks, did fit
                return ChunkCost(tuple(costs))
            if samples == 1:
                raise BudgetError(f"{SMALLEST} does not fit: {error}. {ADVICE}") from error
            samples = max(1, samples // 4)


def _peak(
    passes: Passes, components: Tree, x: Tree, needed: Sequence[bool], samples: int, k: int, single: bool = False
) -> int:
    """Bytes at the peak of one chunk, less those that the fold keeps whatever its size. With `single`, as plain
    autograd computes it, which computes nothing again."""
    part, some = rows_of(components, slice(0, k)), rows_of(x, slice(0, samples))
    tiling = Tiling(k, samples, passes.device, retries=False)
    trial = Passes(passes.term, passes.captured, tiling, passes.device, passes.budget)
    leaves = [leaf for tree in (part, some) for _, leaf in pytree.leaves(tree)]
    inputs = [*leaves, *passes.captured.tensors]
    gradients = passes.gradient_bytes(inputs, needed)

    def chunked() -> None:
        result = trial.state(part, some).result()
        if any(needed):
            trial.gradients(part, some, (*result, *(torch.ones_like(value) for value in result)), needed)

    def at_once() -> None:
        for leaf, need in zip(leaves, needed, strict=False):
            leaf.requires_grad_(need)
        wanted = [leaf for leaf, need in zip(inputs, needed, strict=True) if need]
        with trial.limited(), torch.enable_grad(), without_hooks(passes.captured.tensors):
            lse_B, mean_BV = softmax_mean(*evaluate(trial.term, part, some, k, samples, trial.device))
            total = lse_B.sum() + mean_BV.sum()
            if total.requires_grad:
                torch.autograd.grad(total, wanted, retain_graph=passes.captured.earlier_graph, allow_unused=True)

    if single:
        return max(0, peak_bytes(at_once, passes.device) - gradients.returned)
    return max(0, peak_bytes(chunked, passes.device) - gradients.summed)
