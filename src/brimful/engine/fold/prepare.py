"""From a term and its data to the plan of a fold: what is known of it, measured where it is not, and remembered."""

import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.pytree import Tree
from ...core.memory.limit import MemoryLimit
from .online_softmax import at_least_single
from .passes import Passes
from .plan import MOST, Folding, Shape, decide
from .probe import Pair, formula, measured
from .term import is_fused, tried
from .tiling import Cuts

_FRESH = 1.0  # seconds for which a plan holds; then memory is looked at again
_PLANS = 64  # kept of a term, and forms of its data
_CELLS = 64  # of what a function closes over, the things in a list that are looked at
_CARVED = 20 * 2**20  # bytes: torch takes memory for tensors of 1 to 10 MB in blocks of so many


@dataclass(slots=True, eq=False)
class _Known:
    """What is remembered of a term with data of one form. It must not refer to the term, which would then live on.

    Attributes:
        width, dtype: of its values.
        pair: what was measured; None for a term that has a formula.
        lowered: the latest cuts, which running out of memory may have lowered.
        made: plans, by what was asked for.
    """

    width: int
    dtype: torch.dtype
    pair: Pair | None
    lowered: Cuts | None = None
    made: dict[Any, tuple[float, Folding]] = field(default_factory=dict)


_memory: weakref.WeakKeyDictionary[Any, dict[Any, _Known]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What the caller asked for, checked."""

    chunk: int | None
    strategy: str
    budget: Any


def prepare(
    request: Request, passes: Passes, components: Tree, x: Tree, needed: Sequence[bool], samples: int
) -> tuple[Folding, Cuts]:
    """The plan of a fold and its cuts.

    Args:
        samples: of all ranks; those of x are taken for a sample of them.
    """
    known = _known(request, passes, components, x, needed)
    asked = (request.chunk, request.strategy, str(request.budget), pytree.rows(components), samples)
    at, folding = known.made.get(asked, (-_FRESH, None))
    if folding is None or time.monotonic() - at > _FRESH:
        folding = _decided(request, passes, known, components, x, needed, samples)
        if len(known.made) >= _PLANS:
            known.made.clear()
        known.made[asked] = (time.monotonic(), folding)
    chunk, rows = max(1, folding.plan.batch), max(1, folding.samples)
    if known.lowered is not None and known.lowered.told:  # memory ran out last time
        chunk, rows = min(chunk, known.lowered.chunk), min(rows, known.lowered.samples)
    known.lowered = Cuts(chunk, rows, passes.device, told=known.lowered is not None and known.lowered.told)
    return folding, known.lowered


def _decided(
    request: Request,
    passes: Passes,
    known: _Known,
    components: Tree,
    x: Tree,
    needed: Sequence[bool],
    samples: int,
) -> Folding:
    inputs = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)] + list(passes.held.tensors)
    gradients, fused = passes.weigh(inputs, needed), is_fused(passes.term)
    wide, gathered = at_least_single(known.dtype), 2 * pytree.nbytes(x) * (samples / pytree.rows(x) - 1)
    shape = Shape(
        components=pytree.rows(components),
        samples=samples,
        width=known.width,
        bytes=wide.itemsize,
        gradients=gradients.end,
        given=gradients.end if fused else gradients.given,
        beside=int(gathered) + (_allocated(passes.device) if passes.device.type == "cuda" else 0),
        chunk=request.chunk,
        most=int(getattr(passes.term, "most", MOST)),
        strategy=request.strategy,
        differentiates=any(needed),
        fused=fused,
        device=str(passes.device),
        precision=str(known.dtype).removeprefix("torch."),
    )
    cost = formula(passes.term, known.dtype) if known.pair is None else known.pair.at
    assert cost is not None
    single = None if known.pair is None else known.pair.single
    return decide(shape, cost, limit(request.budget, passes.device), single)


def _allocated(device: torch.device) -> int:
    """Bytes in use, with those that tensors of a chunk leave unused in the blocks that they are carved from."""
    return torch.cuda.memory_allocated(device) + _CARVED


def limit(budget: Any, device: torch.device) -> int:
    """The bytes that a budget allows, and whoever holds the device to less already."""
    allowed = MemoryLimit(budget, device).bytes
    if device.type == "cuda":
        share, total = torch.cuda.get_per_process_memory_fraction(device), torch.cuda.mem_get_info(device)[1]
        allowed = min(allowed, int(share * total))
    return allowed


def _known(request: Request, passes: Passes, components: Tree, x: Tree, needed: Sequence[bool]) -> _Known:
    most = min(request.chunk or MOST, pytree.rows(components))
    term, held = passes.term, passes.held.tensors
    forms = tuple(tuple(pytree.spec(tree)) for tree in (components, x))
    shapes = tuple((tuple(each.shape), each.dtype) for each in held)
    sizes = (most.bit_length(), pytree.rows(x).bit_length())  # nearly as many cost nearly as much
    closed = _likeness(term) if isinstance(term, FunctionType | MethodType) else None
    key = (forms, sizes, tuple(needed), str(passes.device), shapes, passes.autocast.enabled, closed)
    drawer = _drawer(term)
    if key not in drawer:
        with torch.no_grad(), passes.autocast():
            logit, value = tried(term, components, x, passes.device)
        told = formula(term, logit.dtype) is not None
        room = limit(request.budget, passes.device)
        pair = None if told else measured(passes, components, x, needed, most, room)
        if len(drawer) >= _PLANS:
            drawer.clear()
        drawer[key] = _Known(value.shape[2], logit.dtype, pair)
    return drawer[key]


def _drawer(term: Any) -> dict[Any, _Known]:
    """Where things about a term are remembered: with the term itself, with its object where it is a method, or with
    its code where it is a function, which a loop may make anew each time."""
    owner = term.__self__ if isinstance(term, MethodType) else getattr(term, "__code__", term)
    try:
        return _memory.setdefault(owner, {})
    except TypeError:  # it cannot be referred to weakly, or has no hash
        return {}


def _likeness(value: Any, past: tuple[int, ...] = ()) -> Any:
    """What the cost of a function may depend on beside its code: of the tensors that it closes over their form, of
    whole numbers and text their value, of other objects which one it is, without keeping it alive. Not the value of a
    float, which may follow a schedule."""
    past = (*past, id(value))
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
            return _which(value)
    found = tuple(_likeness(each, past) for each in inside if id(each) not in past)
    return getattr(value, "__code__", len(value) if isinstance(value, dict | tuple | list) else None), found


def _which(value: Any) -> Any:
    try:
        reference = weakref.ref(value)
        hash(reference)
        return reference
    except TypeError:
        return id(value)
