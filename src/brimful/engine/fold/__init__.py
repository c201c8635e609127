"""`fold`: a softmax-weighted mean over any number of components: exact, differentiable, in chunks that fit."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import ConfigError, InputError
from ...core.base.pytree import Tree
from ...core.memory.budget import Budget
from ...core.memory.oom import clear_frames, is_out_of_memory
from ...core.memory.plan import Plan
from ...data.loader import whole_number
from . import sharded
from .autograd import folded
from .online_softmax import whole
from .passes import Passes
from .prepare import Request, prepare
from .sharded import Met, Shards
from .term import FusedTerm, Held, Term, evaluate, held, is_fused
from .tiling import Cuts

__all__ = ["STRATEGIES", "FusedTerm", "fold", "plan_fold"]

_UNMEASURED = 64
STRATEGIES = ("auto", "single", "chunked", "gradient_accumulation", "model_parallel")


def fold(
    term: Term | FusedTerm,
    components: Any,
    x: Any,
    *,
    chunk: int | str = "auto",
    strategy: str = "auto",
    budget: Any = None,
    group: Any = None,
) -> tuple[Float[Tensor, " B"], Float[Tensor, "B V"]]:
    """The log-sum-exp of all components' logits, and the mean of their values, weighted by the softmax of the logits.

    For K components and B samples, `lse = log sum_k exp(a_k)` and `mean = sum_k softmax(a)_k v_k`, with logits a and
    values v from the term. The components are taken in chunks, merged exactly; the backward pass computes each chunk
    again. Differentiable, once, with respect to components, x, and what the term holds: parameters of a module, and
    tensors that a function closes over.

    Args:
        term: `term(chunk, x) -> (logit_Bk, value_BkV)`, for the k components of a chunk and the samples of x. It is
            called on any part of both, more than once, and must not draw random numbers. One that brings its own
            backward pass is a `FusedTerm`.
        components: a tensor, or a tuple, list or dict of tensors, with the components along the leading axis.
        x: likewise, with the samples along the leading axis; results are where it is.
        chunk: the most components at a time, or "auto" for as many as fit the budget and are of use.
        strategy: "single" (all components at once, nothing computed twice), "chunked", "gradient_accumulation" (chunks
            of components and of samples), "model_parallel" (components spread over the ranks of `group`), or "auto":
            the fastest that fits.
        budget: bytes that may be used, as in `brimful.Budget`; None for 90% of what is free.
        group: a `torch.distributed` process group, or True for all ranks. Each rank brings its own part of the
            components and its own samples, as many as it likes, and gets the results of its own samples over all
            components. Gradients of what the term holds are to be added up over ranks, as data-parallel training does.

    Returns:
        `lse_B` and `mean_BV`: -inf and 0 for a sample to which no component adds anything (all logits are -inf, or
        there are no components). A logit of NaN or +inf makes its sample NaN, and no other.

    Raises:
        InputError: what goes in, or what the term returns, is not of this form.
        ConfigError: an option is wrong.
        BudgetError: not even one component fits, for one sample.
        WorkerError: another rank is gone.

    Example:
        >>> points, x = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([[0.5]])
        >>> def term(chunk, x):
        ...     return -0.5 * (x - chunk.T) ** 2, chunk.expand(len(x), -1, -1)
        >>> lse, mean = fold(term, points, x)
        >>> [round(value, 4) for value in (lse.item(), mean.item())]
        [0.5927, 0.5607]
    """
    ready = _ready(term, components, x, chunk, strategy, budget, group)
    if ready.single:
        try:
            with ready.passes.within():
                return whole(*evaluate(term, components, x, ready.count, ready.samples, ready.passes.device))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            clear_frames(error)
        ready.passes.cuts.lower(ready.count, ready.samples)
        if torch.is_grad_enabled():
            ready.passes.held = held(term, components, x, ready.passes.device)
    passes = ready.passes if ready.met is None else Shards(ready.passes, ready.met)
    return folded(passes, components, x, called=ready.met is not None and ready.met.differentiates)


def plan_fold(
    term: Term | FusedTerm,
    components: Any,
    x: Any,
    *,
    chunk: int | str = "auto",
    strategy: str = "auto",
    budget: Any = None,
    group: Any = None,
) -> Plan:
    """What `fold` would do with these arguments, and why: a table of `plan.explain()`. A few components are tried out,
    to see what they need, unless the term has a formula for it. With a group, all ranks must ask."""
    ready = _ready(term, components, x, chunk, strategy, budget, group, plan=True)
    if ready.plan is None:
        raise InputError(f"there is nothing to plan for {ready.count} components and {ready.samples} samples")
    return ready.plan


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A fold that is about to be done.

    Attributes:
        passes: how.
        met: the ranks it is done with.
        plan: what was planned; None where the caller left nothing to decide.
        single: whether to do it all at once, in plain operations.
        count, samples: this rank's components and samples.
    """

    passes: Passes
    met: Met | None
    plan: Plan | None
    single: bool
    count: int
    samples: int


def _ready(
    term: Any, components: Tree, x: Tree, chunk: Any, strategy: str, budget: Any, group: Any, plan: bool = False
) -> _Ready:
    ranks = sharded.resolve(group)
    request = _request(term, chunk, strategy, budget, ranks is not None)
    count, samples = pytree.rows(components, "components"), pytree.rows(x, "x")
    leaves = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)]
    device = pytree.leaves(x)[0][1].device
    recording = torch.is_grad_enabled()
    plain = request.strategy == "single" and not is_fused(term)
    found = held(term, components, x, device) if recording and (plan or not plain) else Held()
    met = None if ranks is None else sharded.meet(ranks, components, x, found, device)
    everyone = samples if met is None else met.samples
    most = count if request.chunk is None else min(request.chunk, count)
    if met is not None and not samples:  # nothing to measure with: a few at a time
        most = min(most, _UNMEASURED)
    passes = Passes(term, found, Cuts(max(1, most), max(1, everyone), device), device, budget)
    decided = request.strategy == "single" or (
        request.chunk is not None and budget is None and request.strategy != "gradient_accumulation"
    )
    if not (count and samples) or (decided and not plan):
        return _Ready(passes, met, None, plain, count, samples)
    needed = [recording and leaf.requires_grad for leaf in (*leaves, *found.tensors)]
    if met is not None:
        first = len(pytree.leaves(components))
        needed[first : len(leaves)] = met.wanted
    folding, passes.cuts = prepare(request, passes, components, x, needed, everyone)
    single = folding.plan.strategy == "single" and not is_fused(term)
    return _Ready(passes, met, folding.plan, single, count, samples)


def _request(term: Any, chunk: Any, strategy: Any, budget: Any, ranks: bool) -> Request:
    if not callable(term):
        raise InputError(f"the term is a {type(term).__name__}; give a function of (chunk, x)")
    if chunk != "auto":
        whole_number("chunk", chunk, 1)
    asked = "single" if strategy == "single_gpu" else strategy
    if asked not in STRATEGIES:
        raise ConfigError(f"strategy is {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    if asked == "model_parallel" and not ranks:
        raise ConfigError(
            "strategy is 'model_parallel', which needs ranks; give group=True under torchrun, or 'chunked'"
        )
    if ranks and asked not in ("auto", "model_parallel"):
        raise ConfigError(f"strategy is {asked!r}, and group spreads the components over ranks; use 'model_parallel'")
    Budget.parse(budget)
    most = None if chunk == "auto" or asked == "single" else int(chunk)
    return Request(most, "model_parallel" if ranks else asked, budget)
