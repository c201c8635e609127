"""What is folded: a term, what it returns, and the tensors it captures that require a gradient.

B samples, k components of a chunk, V entries of a value.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.pytree import Tree
from ...core.memory.oom import retry_smaller
from .graph import graph_leaves, independent, tensors_of
from .tiling import ADVICE, SMALLEST

Term = Callable[[Any, Any], tuple[Tensor, Tensor]]
"""`term(chunk, x) -> (logit_Bk, value_BkV)`."""

TermVJP = Callable[[Tensor, Tensor], tuple[Tree | None, Tree | None]]
"""`backward(grad_logit_Bk, grad_value_BkV) -> (grad_chunk, grad_x)`."""


@runtime_checkable
class FusedTerm(Protocol):
    """A term that brings its own backward pass.

    `fold` calls the term itself, without a graph, in its forward pass, and `vjp` for every chunk in its backward pass.
    A method `plain(chunk, x)`, with the same logits and values in operations that autograd can differentiate, is called
    for second derivatives and inside transforms of `torch.func`; without it these are refused.
    """

    def __call__(self, chunk: Any, x: Any) -> tuple[Tensor, Tensor]: ...

    def parameters(self) -> Iterable[Tensor]:
        """All tensors of the term that may require a gradient. Others get none."""
        ...

    def vjp(self, chunk: Any, x: Any, grads: dict[Tensor, Tensor]) -> tuple[Tensor, Tensor, TermVJP]:
        """The term's logits and values, and their vector-Jacobian product. Called without a graph.

        Args:
            chunk, x: as the term gets them; a tensor's `requires_grad` says whether its gradient is needed.
            grads: from each parameter that requires a gradient to the buffer of its sum. The backward function adds to
                it in place, and allocates what it needs before it does: where memory runs out first, the chunk is
                computed again. A buffer has its parameter's dtype: where that is half precision, many small chunks add
                up to little.

        Returns:
            The logits, the values, and `backward(grad_logit, grad_value) -> (grad_chunk, grad_x)`: gradients of the
            form of the chunk and of x, with None for a tensor, or for all of them, where none is needed. The two that
            it is given are its own to write to.
        """
        ...


def is_fused(term: Any) -> bool:
    """Whether a term brings its own backward pass."""
    return callable(getattr(term, "vjp", None))


def differentiable_term(term: Any) -> Term:
    """The term in operations that autograd can differentiate any number of times: itself, or its method `plain` where
    it brings its own backward pass."""
    if not is_fused(term):
        return term
    if callable(getattr(term, "plain", None)):
        return term.plain
    raise InputError(
        f"the term {type(term).__name__} brings its own backward pass, and this asks for a second derivative or a "
        "transform of torch.func; give it a method plain(chunk, x) that returns the same logits and values in "
        "operations that autograd can differentiate"
    )


def evaluate(term: Term, chunk: Tree, x: Tree, k: int, samples: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The term's logits and values, checked."""
    return checked(term(chunk, x), k, samples, device)


def checked(returned: Any, k: int, samples: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The logits and values that a term returned, if they are of the right form."""
    if not (
        isinstance(returned, tuple | list) and len(returned) == 2 and all(isinstance(part, Tensor) for part in returned)
    ):
        what = f"{len(returned)} things" if isinstance(returned, tuple | list) else f"a {type(returned).__name__}"
        raise InputError(f"the term returned {what}; return two tensors, the logits (B, k) and the values (B, k, V)")
    logit, value = returned
    if logit.shape != (samples, k) or value.ndim != 3 or value.shape[:2] != (samples, k):
        raise InputError(
            f"the term's logits have shape {tuple(logit.shape)} and its values {tuple(value.shape)} for {samples} "
            f"samples and a chunk of {k} components; return ({samples}, {k}) and ({samples}, {k}, V), with V = 1 for a "
            "number"
        )
    if not logit.is_floating_point() or logit.dtype != value.dtype:
        raise InputError(
            f"the term's logits are {logit.dtype} and its values {value.dtype}; return one floating dtype for both"
        )
    if logit.device != device or value.device != device:
        raise InputError(
            f"the term's logits are on {logit.device} and its values on {value.device}, while x is on {device}; return "
            "both there (a chunk that lies elsewhere is the term's to move)"
        )
    return logit, value


@dataclass(frozen=True, slots=True, eq=False)
class CapturedTensors:
    """The tensors that a term uses beside its arguments and that require a gradient.

    Attributes:
        tensors: leaves of the graph, each once.
        earlier_graph: whether some are reached through operations made before the fold, whose graph every chunk uses.
    """

    tensors: tuple[Tensor, ...] = ()
    earlier_graph: bool = False


def captured_tensors(term: Any, components: Tree, x: Tree, device: torch.device) -> CapturedTensors:
    """What a term captures: its parameters, and the leaves of its graph for one component and one sample."""
    own = list(term.parameters()) if callable(getattr(term, "parameters", None)) else []
    if is_fused(term):
        return CapturedTensors(_differentiable(own))
    before = _rng_states(device)
    with torch.enable_grad():
        since = _sequence_number()
        outputs = evaluate_one(term, components, x, device)
        until = _sequence_number()
    if any(not torch.equal(one, other) for one, other in zip(before, _rng_states(device), strict=True)):
        raise InputError(
            "the term draws random numbers, and each chunk is computed twice; draw them before the fold and hand them "
            "in, call the module's eval() where it is dropout, or use strategy='single'"
        )
    made = range(since + 1, until)
    leaves, earlier = graph_leaves([*outputs, *own], made)
    if not earlier:
        return CapturedTensors(_differentiable(leaves))
    results = independent([tensor for tensor in tensors_of(term) if tensor.grad_fn is not None], [*outputs, *own])
    leaves, earlier = graph_leaves([*outputs, *own], made, {result.grad_fn for result in results})
    return CapturedTensors(_differentiable([*leaves, *results]), earlier)


def evaluate_one(term: Term, components: Tree, x: Tree, device: torch.device) -> tuple[Tensor, Tensor]:
    """The term's logits and values for one component and one sample. Where these do not fit, nothing does."""
    part, sample = (pytree.apply(tree, lambda leaf: leaf.detach()[:1]) for tree in (components, x))
    rows = pytree.rows(part), pytree.rows(sample)
    return retry_smaller(lambda: evaluate(term, part, sample, *rows, device), lambda: False, device, SMALLEST, ADVICE)


@contextlib.contextmanager
def without_hooks(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Disables the hooks on tensors' gradients: they are for the whole gradient, and not for each chunk's."""
    hooks = [tensor._backward_hooks for tensor in tensors if tensor._backward_hooks]
    saved = [dict(of_tensor) for of_tensor in hooks]
    for of_tensor in hooks:
        of_tensor.clear()
    try:
        yield
    finally:
        for of_tensor, before in zip(hooks, saved, strict=True):
            of_tensor.update(before)


def _differentiable(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple({id(tensor): tensor for tensor in tensors if tensor.requires_grad}.values())


def _sequence_number() -> int:
    """The sequence number of an operation made now; each thread counts its own."""
    node = torch.zeros((), requires_grad=True).clone().grad_fn
    assert node is not None
    return node._sequence_nr()


def _rng_states(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states
