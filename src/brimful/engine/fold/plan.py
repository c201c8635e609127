"""The plan of a fold, as a pure function: all components at once, in chunks, in chunks of components and of samples, or
spread over ranks; the memory of each by part, and the fastest that fits."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...core.base.formatting import format_count
from ...core.memory.cost import MARGIN, Cost
from ...core.memory.plan import Candidate, Parts, Plan, choose

SINGLE, CHUNKED, ACCUMULATED, SHARDED = "single", "chunked", "gradient_accumulation", "model_parallel"


@dataclass(frozen=True, slots=True)
class FoldCost:
    """Bytes of a chunk of components, for some number of samples, by part.

    Attributes:
        fixed: bytes that do not depend on the chunk, by what they are for.
        per_component: bytes that each component of the chunk adds, likewise.
        margin, source: as in `Cost`.

    Example:
        >>> cost = FoldCost({"parameters": 1000}, {"activations": 10})
        >>> cost.total.at(50), cost.parts(50)
        (1500, (('parameters', 1000), ('activations', 500)))
    """

    fixed: Mapping[str, float]
    per_component: Mapping[str, float]
    margin: float = MARGIN
    source: str = "formula"

    @property
    def total(self) -> Cost:
        return Cost(sum(self.fixed.values()), sum(self.per_component.values()), self.margin, self.source)

    def parts(self, chunk: int) -> Parts:
        chunked = {name: chunk * size for name, size in self.per_component.items()}
        return tuple((name, math.ceil(size)) for name, size in {**self.fixed, **chunked}.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """Expected time of the strategies, relative to all components at once.

    Attributes:
        recompute: of chunks, whose forward pass is computed again in the backward pass.
        chunk: what every chunk adds.
        block: what every further block of samples adds, which computes the components anew.
        small_chunk: what chunks half as large as `efficient_chunk` add.
        efficient_chunk: components of a chunk that is large enough to be efficient.
        communication: what exchanging the samples among ranks adds.
    """

    recompute: float = 4 / 3  # the forward pass is a quarter of the whole, and done twice
    chunk: float = 1e-4
    block: float = 0.05
    small_chunk: float = 0.0
    efficient_chunk: int = 1
    communication: float = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldSizes:
    """What a fold's plan depends on, its cost and the budget apart.

    Attributes:
        components, samples: how many there are; of several ranks, all components, and the samples of one.
        ranks: over which the components may be spread; their samples are then gathered on each.
        chunk: the most components at a time that the caller allows; None for as many as are useful.
        max_chunk: the most that are useful, given the cost.
        blocks: of samples, where the caller has decided; None for as few as fit.
        single: expected time of all components at once; None where that is no choice.
        component: what to call a component in messages.
    """

    components: int
    samples: int
    ranks: int = 1
    chunk: int | None = None
    max_chunk: Callable[[Cost], int]
    blocks: int | None = None
    single: float | None = 1.0
    slowness: Slowness = Slowness()
    device: str = "cpu"
    precision: str = "float32"
    component: str = "component"


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """A plan, whose items are the components and whose batch is a chunk, and the blocks of samples of each step."""

    plan: Plan
    blocks: int
    samples: int


def plan_strategies(
    work: str,
    sizes: FoldSizes,
    cost: Callable[[int], FoldCost],
    budget: int,
    strategy: str = "auto",
    single: FoldCost | None = None,
) -> FoldPlan:
    """The fastest strategy that fits, or the one that was asked for.

    Args:
        work: what it is for.
        sizes: what is folded.
        cost: bytes of a chunk, for a number of samples.
        budget: bytes allowed on a device.
        strategy: "auto" for any of them.
        single: bytes of all components at once, where they differ from those of a chunk as large.

    Raises:
        BudgetError: not even one component fits, for one sample.
    """
    names = [SINGLE] if sizes.single is not None else []
    names += [CHUNKED, ACCUMULATED, *([SHARDED] if sizes.ranks > 1 else [])]
    rows = {name: _row(name, sizes, cost, budget, single) for name in names}
    plan = choose(work, [row.candidate for name, row in rows.items() if strategy in ("auto", name)], budget)
    row = rows[plan.strategy]
    if sizes.chunk is not None and plan.strategy != SINGLE and plan.capacity >= row.chunk:
        plan = replace(plan, batch=row.chunk, predicted=plan.cost.at(row.chunk))  # as asked for, not in equal parts
    if plan.strategy == ACCUMULATED:
        plan = replace(plan, work=f"{work}, {format_count(row.samples)} at a time")
    rejected = tuple(
        replace(other, parts=rows[other.strategy].cost.parts(rows[other.strategy].chunk)) for other in plan.rejected
    )
    return FoldPlan(
        replace(plan, parts=row.cost.parts(plan.batch), rejected=rejected), row.blocks, min(row.samples, sizes.samples)
    )


@dataclass(frozen=True, slots=True)
class _Row:
    candidate: Candidate
    cost: FoldCost
    chunk: int  # the largest that fits
    blocks: int
    samples: int


def _row(name: str, sizes: FoldSizes, cost: Callable[[int], FoldCost], budget: int, single: FoldCost | None) -> _Row:
    """A strategy with its blocks of samples and the largest chunk that fits."""
    slowness, ranks = sizes.slowness, sizes.ranks if name == SHARDED else 1
    components = math.ceil(sizes.components / ranks)
    blocks = sizes.blocks or (min(2, max(1, sizes.samples)) if name == ACCUMULATED else 1)
    while True:
        samples = math.ceil(sizes.samples / blocks) * ranks
        needed = single if name == SINGLE and single is not None else cost(samples)
        total = needed.total
        largest = components if name == SINGLE else min(components, sizes.chunk or sizes.max_chunk(total))
        room = total.capacity(budget)
        if name != ACCUMULATED or sizes.blocks or blocks >= sizes.samples:
            break
        if room >= min(largest, slowness.efficient_chunk):
            break
        blocks = min(2 * blocks, sizes.samples)
    chunk = largest if name == SINGLE or math.isinf(room) else max(1, min(largest, math.floor(room)))
    time = slowness.recompute * (1 + slowness.block * (blocks - 1))
    time += slowness.chunk * blocks * math.ceil(components / max(1, chunk))
    time += slowness.small_chunk * (max(1.0, min(slowness.efficient_chunk, components) / max(1, chunk)) - 1)
    if name == SINGLE:
        time = sizes.single or 1.0
    candidate = Candidate(
        strategy=name,
        cost=total,
        items=components,
        most=largest,
        divisible=name != SINGLE,
        unit=sizes.component,
        slowness=time / ranks + (slowness.communication if ranks > 1 else 0),
        devices=(sizes.device,) * sizes.ranks,
        precision=sizes.precision,
    )
    return _Row(candidate, needed, chunk, blocks, samples)
