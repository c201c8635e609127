"""The plan of a fold: all components at once, in chunks, or in chunks of both components and samples."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...core.base.errors import BudgetError
from ...core.base.units import format_count
from ...core.memory.cost import Cost
from ...core.memory.plan import Candidate, Plan, choose

MOST = 4096
"""Components of a chunk beyond which larger ones are no faster, unless the term says otherwise (`term.most`)."""

_AGAIN = 4 / 3  # the forward pass is a quarter of the whole, and done twice
_PIECE, _BLOCK = 1e-4, 0.05  # what a chunk adds to the time, and a block of samples, which computes the components anew
_NEAR, _FEW = 64e6, 16  # on a CPU, bytes of a chunk beyond which caches no longer help; but never so few components
_KEPT = 2.0  # numbers of the state kept twice: as it runs, and as a result


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """All that a fold's plan depends on, the cost and the budget apart.

    Attributes:
        components, samples: how many there are; of a sharded fold, this rank's components and all ranks' samples.
        width: entries of a value.
        bytes: of a number in the state.
        gradients: bytes of the sums of all gradients that are needed, and of what they are cast to at the end.
        given: bytes of these gradients where all is done at once; None for as many.
        beside: bytes in use already.
        chunk: the most components at a time that the caller allows; None for as many as are of use.
        most: the most that are of use.
        strategy: the one that was asked for, or "auto".
        differentiates: whether there is a backward pass.
        fused: whether the term has its own; it then computes all at once again too.
    """

    components: int
    samples: int
    width: int
    bytes: int = 4
    gradients: int = 0
    given: int | None = None
    beside: int = 0
    chunk: int | None = None
    most: int = MOST
    strategy: str = "auto"
    differentiates: bool = True
    fused: bool = False
    device: str = "cpu"
    precision: str = "float32"

    @property
    def kept(self) -> float:
        """Bytes that are there whatever the cut."""
        return self.beside + self.gradients + _KEPT * self.samples * (self.width + 2) * self.bytes


@dataclass(frozen=True, slots=True)
class Folding:
    """A plan and the samples it takes at a time; the plan's items are the components, its batch is a chunk."""

    plan: Plan
    samples: int


def decide(shape: Shape, cost: Callable[[int], Cost], budget: int, single: Cost | None = None) -> Folding:
    """The fastest way that fits; pure.

    Args:
        shape: what is folded.
        cost: bytes of a chunk by the number of its components, for a number of samples.
        budget: bytes allowed.
        single: bytes of all components at once, where they differ from those of a chunk as large.
    """
    blocks = _blocks(shape, cost, budget)
    rows = _rows(shape, cost, blocks, budget)
    if shape.chunk is None:
        # Where nothing is kept for a backward pass, all at once has nothing to win.
        slowness = math.inf if shape.fused or not shape.differentiates else 1.0
        kept = shape.kept - (0 if shape.given is None else shape.gradients - shape.given)
        rows["single"] = _candidate(shape, "single", _with(single or cost(shape.samples), kept), slowness)
    rows = {name: row for name, row in rows.items() if _asked(shape.strategy, name)}
    work = f"fold of {format_count(shape.components)} components for {format_count(shape.samples)} samples"
    try:
        plan = choose(work, list(rows.values()), budget)
    except BudgetError as error:
        raise BudgetError(
            f"{error} A lower precision, or a term that needs less for a component, helps too."
        ) from error
    samples = shape.samples
    if plan.strategy.endswith("gradient_accumulation") or plan.strategy.endswith(_CUT):
        samples = math.ceil(shape.samples / blocks)
        plan = replace(plan, work=f"{work}, {format_count(samples)} at a time")
    if shape.chunk is not None and plan.strategy != "single" and plan.capacity >= min(shape.chunk, shape.components):
        batch = min(shape.chunk, shape.components)  # as it was asked for, rather than in equal parts
        plan = replace(plan, batch=batch, predicted=plan.cost.at(batch))
    return Folding(replace(plan, strategy=plan.strategy.removesuffix(_CUT)), samples)


_CUT = ", in blocks of samples"


def _asked(strategy: str, name: str) -> bool:
    name = name.removesuffix(_CUT)
    return name == strategy or (strategy == "auto" and name != "model_parallel")


def _rows(shape: Shape, cost: Callable[[int], Cost], blocks: int, budget: int) -> dict[str, Candidate]:
    whole, part = _with(cost(shape.samples), shape.kept), _with(cost(math.ceil(shape.samples / blocks)), shape.kept)
    again = _AGAIN if shape.differentiates else 1.0
    chunked = again + _PIECE * _chunks(shape, whole, budget)
    accumulated = again * (1 + _BLOCK * (blocks - 1)) + _PIECE * blocks * (1 + _chunks(shape, part, budget))
    found = {"chunked": (whole, chunked), "gradient_accumulation": (part, accumulated)}
    found |= {"model_parallel": (whole, chunked), f"model_parallel{_CUT}": (part, accumulated)}
    return {name: _candidate(shape, name, *figures) for name, figures in found.items()}


def _candidate(shape: Shape, name: str, cost: Cost, slowness: float) -> Candidate:
    return Candidate(
        strategy=name,
        cost=cost,
        items=shape.components,
        most=_most(shape, cost),
        divisible=name != "single",
        piece="component",
        slowness=slowness,
        devices=(shape.device,),
        precision=shape.precision,
    )


def _blocks(shape: Shape, cost: Callable[[int], Cost], budget: int) -> int:
    """Blocks of samples: two, or as many as it takes for one component to fit."""
    blocks = min(2, max(1, shape.samples))
    while blocks < shape.samples:
        if _with(cost(math.ceil(shape.samples / blocks)), shape.kept).guarded(1) <= budget:
            break
        blocks *= 2
    return min(blocks, max(1, shape.samples))


def _chunks(shape: Shape, cost: Cost, budget: int) -> int:
    room = min(cost.capacity(budget), _most(shape, cost))
    return math.ceil(shape.components / max(1, math.floor(room)))


def _most(shape: Shape, cost: Cost) -> int:
    """The most components of a chunk: as many as the caller allows, or as are of use."""
    if shape.chunk is not None:
        return shape.chunk
    if shape.device == "cpu" and cost.per_unit:
        return min(shape.most, max(_FEW, int(_NEAR / cost.per_unit)))
    return shape.most


def _with(cost: Cost, kept: float) -> Cost:
    return Cost(cost.fixed + kept, cost.per_unit, cost.margin, cost.source)
