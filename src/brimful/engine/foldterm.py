"""What is folded: a term, what it returns, and the tensors it holds that want a gradient.

B samples, k components of a chunk, V entries of a value.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from ..errors import InputError
from . import trees
from .failures import is_full
from .foldcuts import too_small
from .trees import Tree

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
                allocates what it needs before it does: where memory runs out first, the chunk is done again.

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
    part, sample = (trees.apply(tree, lambda leaf: leaf.detach()[:1]) for tree in (components, x))
    k, samples = trees.rows(part), trees.rows(sample)
    drawn = _chance(device)
    with torch.enable_grad():
        mark = torch.zeros((), requires_grad=True).clone().grad_fn
        try:
            outputs = evaluate(term, part, sample, k, samples, device)
        except Exception as error:
            if is_full(error):
                raise too_small(str(error).splitlines()[0]) from error
            raise
    if any(not torch.equal(before, after) for before, after in zip(drawn, _chance(device), strict=True)):
        raise InputError(
            "the term draws random numbers, and each chunk is computed twice; draw them before the fold and hand them "
            "in, call the module's eval() where it is dropout, or use strategy='single'"
        )
    assert mark is not None
    found, through = reached(outputs, since=mark._sequence_nr())
    return Held(_wanting([*own, *found]), through)


def _wanting(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple({id(each): each for each in tensors if each.requires_grad}.values())


def reached(outputs: Sequence[Tensor], since: int = 0) -> tuple[list[Tensor], bool]:
    """The leaves that a graph leads to, and whether it holds operations older than a sequence number."""
    todo = [each.grad_fn for each in outputs if each.grad_fn is not None]
    leaves, seen, older = [each for each in outputs if each.requires_grad and each.is_leaf], set(todo), False
    while todo:
        node = todo.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.append(variable)
        else:
            older = older or node._sequence_nr() < since
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)
    return leaves, older


def _chance(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states
