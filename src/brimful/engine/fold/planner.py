"""The planner of a fold: what is known of a term, measured where it is not, remembered, and the plan that follows."""

import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import BudgetError
from ...core.base.formatting import format_count
from ...core.base.pytree import Tree
from ...core.memory.budget import BudgetLike
from ...core.memory.cost import Cost
from ...core.memory.limit import MemoryLimit
from .online_softmax import at_least_single
from .passes import Passes
from .plan import SHARDED, FoldCost, FoldPlan, FoldSizes, Slowness, plan_strategies
from .probe import ChunkCost, formula, measure
from .term import evaluate_one, is_fused
from .tiling import Tiling

MAX_CHUNK = 4096
"""Components of a chunk beyond which larger ones are no faster, unless the term says otherwise (`term.max_chunk`)."""

_CACHED = 64e6  # bytes of a chunk beyond which the caches of a CPU do not help
_EFFICIENT = 16  # but never fewer components than this in a chunk
_STATES = 2.0  # of the running sums: as they are updated, and as a result
_FRESH = 1.0  # seconds for which a plan holds; then free memory is read again
_PLANS = 64  # remembered of a term, and forms of its data
_CELLS = 64  # of what a function closes over, the things in a list that are looked at
_BLOCK = 20 * 2**20  # bytes: torch allocates tensors of 1 to 10 MB from blocks of this size


@dataclass(slots=True, eq=False)
class _TermData:
    """What is remembered of a term with data of one form. It must not refer to the term, which would then live on.

    Attributes:
        width, dtype: of its values.
        cost: what was measured; None for a term that has a formula.
        tiling: the latest, which running out of memory may have shrunk.
        plans: by what was asked for.
    """

    width: int
    dtype: torch.dtype
    cost: ChunkCost | None
    tiling: Tiling | None = None
    plans: dict[Any, tuple[float, FoldPlan]] = field(default_factory=dict)


_remembered: weakref.WeakKeyDictionary[Any, dict[Any, _TermData]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class FoldRequest:
    """What the caller asked for, checked."""

    chunk_size: int | None
    strategy: str


def plan_tiling(
    request: FoldRequest, passes: Passes, components: Tree, x: Tree, needed: Sequence[bool], samples: int
) -> tuple[FoldPlan, Tiling]:
    """The plan of a fold and its tiles.

    Args:
        samples: of all ranks; those of x are taken for a sample of them.
    """
    data = _term_data(request, passes, components, x, needed)
    key = (request.chunk_size, request.strategy, str(passes.budget), pytree.rows(components), samples)
    at, fold_plan = data.plans.get(key, (-_FRESH, None))
    if fold_plan is None or time.monotonic() - at > _FRESH:
        fold_plan = _plan(request, passes, data, components, x, needed, samples)
        if len(data.plans) >= _PLANS:
            data.plans.clear()
        data.plans[key] = (time.monotonic(), fold_plan)
    tiling = Tiling(max(1, fold_plan.plan.batch), max(1, fold_plan.samples), passes.device)
    if data.tiling is not None and data.tiling.warned:  # memory ran out last time
        chunk, rows = min(tiling.chunk, data.tiling.chunk), min(tiling.samples, data.tiling.samples)
        tiling = Tiling(chunk, rows, passes.device, warned=True)
    data.tiling = tiling
    return fold_plan, tiling


def _plan(
    request: FoldRequest,
    passes: Passes,
    data: _TermData,
    components: Tree,
    x: Tree,
    needed: Sequence[bool],
    samples: int,
) -> FoldPlan:
    inputs = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)] + list(passes.captured.tensors)
    gradients, fused = passes.gradient_bytes(inputs, needed), is_fused(passes.term)
    gathered = 2 * pytree.nbytes(x) * (samples / pytree.rows(x) - 1)
    fixed = {
        "in use": int(gathered) + _allocated(passes.device),
        "gradients": gradients.peak,
        "running sums": _STATES * samples * (data.width + 2) * at_least_single(data.dtype).itemsize,
    }
    chunk_cost = formula(passes.term, data.dtype) if data.cost is None else data.cost.at
    assert chunk_cost is not None

    def with_fixed(cost: Cost, fixed: dict[str, float] = fixed) -> FoldCost:
        return FoldCost({**fixed, "workspace": cost.fixed}, {"chunk": cost.per_unit}, cost.margin, cost.source)

    max_chunk = int(getattr(passes.term, "max_chunk", MAX_CHUNK))

    def useful(cost: Cost) -> int:
        if passes.device.type == "cpu" and cost.per_unit:
            return min(max_chunk, max(_EFFICIENT, int(_CACHED / cost.per_unit)))
        return max_chunk

    # Where nothing is kept for a backward pass, or it computes all again anyway, all at once has nothing to win.
    recomputes = any(needed) and not fused
    at_once = None if request.chunk_size is not None else 1.0 if recomputes else float("inf")
    sizes = FoldSizes(
        components=pytree.rows(components),
        samples=samples,
        chunk=request.chunk_size,
        max_chunk=useful,
        single=at_once if request.strategy != SHARDED else None,
        slowness=Slowness() if any(needed) else Slowness(recompute=1.0),
        device=str(passes.device),
        precision=str(data.dtype).removeprefix("torch."),
    )
    whole = chunk_cost(samples) if data.cost is None or data.cost.single is None else data.cost.single
    single = with_fixed(whole, fixed if fused else {**fixed, "gradients": gradients.returned})
    work = f"fold of {format_count(sizes.components)} components for {format_count(samples)} samples"
    asked = "auto" if request.strategy == SHARDED else request.strategy
    try:
        planned = plan_strategies(
            work,
            sizes,
            lambda rows: with_fixed(chunk_cost(rows)),
            memory_limit(passes.budget, passes.device),
            asked,
            single,
        )
    except BudgetError as error:
        raise BudgetError(f"{error} A lower precision, or a term that needs less per component, helps too.") from error
    if request.strategy == SHARDED:
        planned = replace(planned, plan=replace(planned.plan, strategy=SHARDED))
    return planned


def _allocated(device: torch.device) -> int:
    """Bytes in use on a GPU, with those that tensors of a chunk leave unused in the blocks they are allocated from."""
    return torch.cuda.memory_allocated(device) + _BLOCK if device.type == "cuda" else 0


def memory_limit(budget: BudgetLike, device: torch.device) -> int:
    """The bytes that a budget allows, or a lower limit that is in force on the device already."""
    allowed = MemoryLimit(budget, device).bytes
    if device.type == "cuda":
        fraction, total = torch.cuda.get_per_process_memory_fraction(device), torch.cuda.mem_get_info(device)[1]
        allowed = min(allowed, int(fraction * total))
    return allowed


def _term_data(request: FoldRequest, passes: Passes, components: Tree, x: Tree, needed: Sequence[bool]) -> _TermData:
    most = min(request.chunk_size or MAX_CHUNK, pytree.rows(components))
    term = passes.term
    key = (
        tuple(tuple(pytree.spec(tree)) for tree in (components, x)),
        (most.bit_length(), pytree.rows(x).bit_length()),  # nearly as many cost nearly as much
        tuple(needed),
        str(passes.device),
        tuple((tuple(tensor.shape), tensor.dtype) for tensor in passes.captured.tensors),
        passes.autocast.keywords["enabled"],
        _signature(term) if isinstance(term, FunctionType | MethodType) else None,
    )
    remembered = remembered_of(term)
    if key not in remembered:
        with torch.no_grad(), passes.autocast():
            logit, value = evaluate_one(term, components, x, passes.device)
        cost = None
        if formula(term, logit.dtype) is None:
            cost = measure(passes, components, x, needed, most, memory_limit(passes.budget, passes.device))
        if len(remembered) >= _PLANS:
            remembered.clear()
        remembered[key] = _TermData(value.shape[2], logit.dtype, cost)
    return remembered[key]


def remembered_of(term: Any) -> dict[Any, _TermData]:
    """What is remembered with the term itself, with its object where it is a method, or with its code where it is a
    function, which a loop may make anew each time."""
    owner = term.__self__ if isinstance(term, MethodType) else getattr(term, "__code__", term)
    try:
        return _remembered.setdefault(owner, {})
    except TypeError:  # it cannot be referred to weakly, or has no hash
        return {}


def _signature(value: Any, visited: tuple[int, ...] = ()) -> Any:
    """What the cost of a function may depend on beside its code: of the tensors that it closes over their form, of
    whole numbers and text their value, of other objects their identity, without keeping them alive. Not the value of a
    float, which may follow a schedule."""
    visited = (*visited, id(value))
    match value:
        case Tensor():
            return tuple(value.shape), value.dtype, value.device, value.requires_grad
        case FunctionType():
            inside = [*(value.__closure__ or ()), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        case MethodType():
            inside = [value.__func__, value.__self__]
        case CellType():
            try:
                inside = [value.cell_contents]
            except ValueError:  # nothing is in it yet
                inside = []
        case dict():
            inside = list(islice(value.values(), _CELLS))
        case tuple() | list():
            inside = value[:_CELLS]
        case int() | str() | torch.dtype() | torch.device() | None:
            return value
        case float() | complex():
            return type(value)
        case _:
            return _identity(value)
    signatures = tuple(_signature(item, visited) for item in inside if id(item) not in visited)
    return getattr(value, "__code__", len(value) if isinstance(value, dict | tuple | list) else None), signatures


def _identity(value: Any) -> Any:
    try:
        reference = weakref.ref(value)
        hash(reference)
        return reference
    except TypeError:
        return id(value)
