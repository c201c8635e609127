"""What is folded: a term, what it returns, and the tensors it holds that want a gradient.

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
from ...core.memory.oom import error_line, is_out_of_memory
from .tiling import too_small

Term = Callable[[Any, Any], tuple[Tensor, Tensor]]
"""`term(chunk, x) -> (logit_Bk, value_BkV)`."""

Pull = Callable[[Tensor, Tensor], tuple[Tree | None, Tree | None]]
"""`pull(logit_bar_Bk, value_bar_BkV) -> (chunk_bar, x_bar)`."""


@runtime_checkable
class FusedTerm(Protocol):
    """A term that brings its own backward pass.

    `fold` calls the term itself, without a graph, in its forward pass, and `vjp` for every chunk in its backward pass.
    """

    def __call__(self, chunk: Any, x: Any) -> tuple[Tensor, Tensor]: ...

    def parameters(self) -> Iterable[Tensor]:
        """All tensors that the term holds and that may want a gradient. Others get none."""
        ...

    def vjp(self, chunk: Any, x: Any, grads: dict[Tensor, Tensor]) -> tuple[Tensor, Tensor, Pull]:
        """The term's values, and how to pull a gradient back through them. Called without a graph.

        Args:
            chunk, x: as the term gets them; a tensor's `requires_grad` says whether its gradient is needed.
            grads: from each parameter that wants a gradient to the buffer of its sum. Pulling adds to it in place, and
                allocates what it needs before it does: where memory runs out first, the chunk is done again. A buffer
                has its parameter's dtype: where that is half precision, many small chunks add up to little.

        Returns:
            The logits, the values, and `pull(logit_bar, value_bar) -> (chunk_bar, x_bar)`: gradients of the form of the
            chunk and of x, with None for a tensor, or for all of them, where none is needed. The two that pull is
            given are its own to write to.
        """
        ...


def is_fused(term: Any) -> bool:
    """Whether a term brings its own backward pass."""
    return callable(getattr(term, "vjp", None))


def evaluate(term: Term, chunk: Tree, x: Tree, k: int, samples: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The term's logits and values, checked."""
    return checked(term(chunk, x), k, samples, device)


def checked(found: Any, k: int, samples: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """What a term returned, if it is what a term returns."""
    if not (isinstance(found, tuple | list) and len(found) == 2 and all(isinstance(part, Tensor) for part in found)):
        what = f"{len(found)} things" if isinstance(found, tuple | list) else f"a {type(found).__name__}"
        raise InputError(f"the term returned {what}; return two tensors, the logits (B, k) and the values (B, k, V)")
    logit, value = found
    if logit.shape != (samples, k):
        raise InputError(
            f"the term's logits have shape {tuple(logit.shape)} for {samples} samples and a chunk of {k} components; "
            f"return ({samples}, {k})"
        )
    if value.ndim != 3 or value.shape[:2] != (samples, k):
        raise InputError(
            f"the term's values have shape {tuple(value.shape)} for {samples} samples and a chunk of {k} components; "
            f"return ({samples}, {k}, V), with V = 1 for a number"
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
class Held:
    """The tensors a term holds that want a gradient.

    Attributes:
        tensors: leaves of the graph, each once.
        through: whether some are reached through operations made before the fold, whose graph each chunk goes through.
    """

    tensors: tuple[Tensor, ...] = ()
    through: bool = False


def held(term: Any, components: Tree, x: Tree, device: torch.device) -> Held:
    """What a term holds: its parameters, and what a trial on one component and one sample finds in its graph."""
    own = list(term.parameters()) if callable(getattr(term, "parameters", None)) else []
    if is_fused(term):
        return Held(_wanting(own))
    drawn = _chance(device)
    with torch.enable_grad():
        since = _number()
        outputs = tried(term, components, x, device)
        until = _number()
    if any(not torch.equal(before, after) for before, after in zip(drawn, _chance(device), strict=True)):
        raise InputError(
            "the term draws random numbers, and each chunk is computed twice; draw them before the fold and hand them "
            "in, call the module's eval() where it is dropout, or use strategy='single'"
        )
    found, through = reached([*outputs, *own], range(since + 1, until))
    return Held(_wanting(found), through)


def tried(term: Term, components: Tree, x: Tree, device: torch.device) -> tuple[Tensor, Tensor]:
    """The term's logits and values for one component and one sample. Where these do not fit, nothing does."""
    part, sample = (pytree.apply(tree, lambda leaf: leaf.detach()[:1]) for tree in (components, x))
    try:
        return evaluate(term, part, sample, pytree.rows(part), pytree.rows(sample), device)
    except Exception as error:
        if is_out_of_memory(error):
            raise too_small(error_line(error)) from error
        raise


@contextlib.contextmanager
def unhooked(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Keeps back the hooks on tensors' gradients: they are for the whole gradient, and not for each chunk's."""
    hooks = [each._backward_hooks for each in tensors if each._backward_hooks]
    kept = [dict(each) for each in hooks]
    for each in hooks:
        each.clear()
    try:
        yield
    finally:
        for each, before in zip(hooks, kept, strict=True):
            each.update(before)


def _wanting(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple({id(each): each for each in tensors if each.requires_grad}.values())


def reached(outputs: Sequence[Tensor], made: range = range(0)) -> tuple[list[Tensor], bool]:
    """The leaves that a graph leads to, and whether it holds operations with other sequence numbers than those made."""
    todo = [each.grad_fn for each in outputs if each.grad_fn is not None]
    leaves, seen, older = [each for each in outputs if each.requires_grad and each.is_leaf], set(todo), False
    while todo:
        node = todo.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.append(variable)
        else:
            older = older or node._sequence_nr() not in made  # another thread's numbers may be larger
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)
    return leaves, older


def _number() -> int:
    """The sequence number of an operation made now; each thread counts its own."""
    node = torch.zeros((), requires_grad=True).clone().grad_fn
    assert node is not None
    return node._sequence_nr()


def _chance(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states
