"""`fold`: a softmax-weighted mean over any number of components: exact, differentiable, in chunks that fit."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...core.base import pytree
from ...core.base.arguments import whole_number
from ...core.base.errors import ConfigError, InputError
from ...core.base.pytree import Tree
from ...core.memory.budget import Budget, BudgetLike
from ...core.memory.oom import retry_smaller
from ...core.memory.plan import Plan
from .autograd import apply_fold, is_transformed
from .online_softmax import softmax_mean
from .passes import Passes
from .plan import ACCUMULATED, CHUNKED, SHARDED, SINGLE
from .planner import FoldRequest, plan_tiling
from .sharded import FoldRanks, ShardedPasses, resolve_group
from .term import CapturedTensors, FusedTerm, Term, captured_tensors, differentiable_term, evaluate, is_fused
from .tiling import ADVICE, SMALLEST, Tiling

__all__ = ["STRATEGIES", "FusedTerm", "fold", "plan_fold"]

_UNMEASURED = 64
STRATEGIES = ("auto", SINGLE, CHUNKED, ACCUMULATED, SHARDED)


def fold(
    term: Term | FusedTerm,
    components: Any,
    x: Any,
    *,
    chunk_size: int | str = "auto",
    strategy: str = "auto",
    budget: BudgetLike = None,
    group: Any = None,
) -> tuple[Float[Tensor, " B"], Float[Tensor, "B V"]]:
    """The log-sum-exp of all components' logits, and the mean of their values, weighted by the softmax of the logits.

    For K components and B samples, `lse = log sum_k exp(a_k)` and `mean = sum_k softmax(a)_k v_k`, with logits a and
    values v from the term. The components are taken in chunks, merged exactly; the backward pass computes each chunk
    again. Differentiable, any number of times, with respect to components, x, and what the term captures: parameters of
    a module, and tensors that a function closes over. Inside transforms of `torch.func` all components are computed at
    once, whatever the strategy.

    Args:
        term: `term(chunk, x) -> (logit_Bk, value_BkV)`, for the k components of a chunk and the samples of x. It is
            called on any part of both, more than once, and must not draw random numbers. One that brings its own
            backward pass is a `FusedTerm`.
        components: a tensor, or a tuple, list or dict of tensors, with the components along the leading axis.
        x: likewise, with the samples along the leading axis; results are where it is.
        chunk_size: the most components at a time, or "auto" for as many as fit the budget and are useful.
        strategy: "single" (all components at once, nothing computed twice), "chunked", "gradient_accumulation" (chunks
            of components and of samples), "model_parallel" (components spread over the ranks of `group`), or "auto":
            the fastest that fits.
        budget: bytes that may be used, as in `brimful.Budget`; None for 90% of what is free.
        group: a `torch.distributed` process group, or True for all ranks. Each rank brings its own part of the
            components and its own samples, as many as it likes, and gets the results of its own samples over all
            components. Gradients of what the term captures are to be summed over ranks, as data-parallel training does.

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
    if is_transformed():
        return _fold_transformed(term, components, x, _request(term, chunk_size, strategy, budget, bool(group)))
    passes, _, single = _prepare(term, components, x, chunk_size, strategy, budget, group)
    if not single:
        return apply_fold(passes, components, x)
    sizes, device = (pytree.rows(components), pytree.rows(x)), passes.device

    def attempt() -> tuple[Tensor, Tensor]:
        if not single:
            return apply_fold(passes, components, x)
        with passes.limited():
            return softmax_mean(*evaluate(term, components, x, *sizes, device))

    def shrink() -> bool:
        nonlocal single
        single = False
        if torch.is_grad_enabled():
            passes.captured = captured_tensors(term, components, x, device)
        return passes.tiling.shrink(*sizes)

    return retry_smaller(attempt, shrink, device, SMALLEST, ADVICE)


def _fold_transformed(term: Any, components: Tree, x: Tree, request: FoldRequest) -> tuple[Tensor, Tensor]:
    """All components at once, in operations that `torch.func` can transform."""
    if request.strategy == SHARDED:
        raise InputError(
            "a fold over ranks cannot be transformed by torch.func or differentiated in forward mode; use "
            "torch.autograd, or fold on one rank (group=None)"
        )
    sizes = pytree.rows(components, "components"), pytree.rows(x, "x")
    device = pytree.leaves(x)[0][1].device
    return softmax_mean(*evaluate(differentiable_term(term), components, x, *sizes, device))


def plan_fold(
    term: Term | FusedTerm,
    components: Any,
    x: Any,
    *,
    chunk_size: int | str = "auto",
    strategy: str = "auto",
    budget: BudgetLike = None,
    group: Any = None,
) -> Plan:
    """What `fold` would do with these arguments, and why: a table of `plan.explain()`. A few components are computed,
    to measure what they need, unless the term has a formula for it. With a group, all ranks must call it."""
    _, plan, _ = _prepare(term, components, x, chunk_size, strategy, budget, group, planned=True)
    if plan is None:
        counts = f"{pytree.rows(components)} components and {pytree.rows(x)} samples"
        raise InputError(f"there is nothing to plan for {counts}")
    return plan


def _prepare(
    term: Any,
    components: Tree,
    x: Tree,
    chunk_size: int | str,
    strategy: str,
    budget: BudgetLike,
    group: Any,
    planned: bool = False,
) -> tuple[Passes, Plan | None, bool]:
    """How a fold is computed; its plan, or None where the caller left nothing to decide; and whether all is computed at
    once, in plain operations."""
    process_group = resolve_group(group)
    request = _request(term, chunk_size, strategy, budget, process_group is not None)
    count, samples = pytree.rows(components, "components"), pytree.rows(x, "x")
    leaves = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)]
    device = pytree.leaves(x)[0][1].device
    recording = torch.is_grad_enabled()
    plain = request.strategy == SINGLE and not is_fused(term)
    needs_captured = recording and (planned or not plain)
    captured = captured_tensors(term, components, x, device) if needs_captured else CapturedTensors()
    ranks = None if process_group is None else FoldRanks.gather_sizes(process_group, components, x, captured, device)
    all_samples = samples if ranks is None else ranks.samples
    most = count if request.chunk_size is None else min(request.chunk_size, count)
    if ranks is not None and not samples:  # nothing to measure with: a few at a time
        most = min(most, _UNMEASURED)
    parts = term, captured, Tiling(max(1, most), max(1, all_samples), device), device, budget
    passes = Passes(*parts) if ranks is None else ShardedPasses(*parts, ranks.differentiates, ranks=ranks)
    decided = request.strategy == SINGLE or (
        request.chunk_size is not None and budget is None and request.strategy != ACCUMULATED
    )
    if not (count and samples) or (decided and not planned):
        return passes, None, plain
    needed = [recording and leaf.requires_grad for leaf in (*leaves, *captured.tensors)]
    if ranks is not None:
        needed[len(pytree.leaves(components)) : len(leaves)] = ranks.needed
    fold_plan, passes.tiling = plan_tiling(request, passes, components, x, needed, all_samples)
    return passes, fold_plan.plan, fold_plan.plan.strategy == SINGLE and not is_fused(term)


def _request(term: Any, chunk_size: Any, strategy: Any, budget: BudgetLike, ranks: bool) -> FoldRequest:
    if not callable(term):
        raise InputError(f"the term is a {type(term).__name__}; give a function of (chunk, x)")
    if chunk_size != "auto":
        whole_number("chunk_size", chunk_size, 1)
    name = SINGLE if strategy == "single_gpu" else strategy
    if name not in STRATEGIES:
        raise ConfigError(f"strategy is {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    if name == SHARDED and not ranks:
        raise ConfigError(
            "strategy is 'model_parallel', which needs ranks; give group=True under torchrun, or 'chunked'"
        )
    if ranks and name not in ("auto", SHARDED):
        raise ConfigError(f"strategy is {name!r}, and group spreads the components over ranks; use 'model_parallel'")
    Budget.parse(budget)
    chunk = None if chunk_size == "auto" or name == SINGLE else int(chunk_size)
    return FoldRequest(chunk, SHARDED if ranks else name)
