"""The two passes of a fold: forward over all tiles without a graph, and backward over them, each computed again."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.pytree import Tree
from ...core.memory.budget import BudgetLike
from ...core.memory.limit import MemoryLimit
from ...core.memory.oom import retry_smaller
from .graph import graph_leaves
from .online_softmax import SoftmaxState, at_least_single, softmax_vjp
from .term import CapturedTensors, checked, evaluate, is_fused, without_hooks
from .tiling import Tiling, size

_ADVICE = (
    "Use a larger budget, or require the gradients of less: they are as large as what they are of, in single precision "
    "at least"
)
Gradients = Sequence[Tensor | None]
Saved = tuple[Tensor, ...]
"""What a backward pass needs of the forward pass, beside what was folded and the results."""


@dataclass(frozen=True, slots=True)
class GradientBytes:
    """Bytes of the gradients of a fold.

    Attributes:
        summed: as they are added up.
        returned: as they are returned to autograd.
        peak: as they are added up, with those of components and x that are then cast to a lower precision. Captured
            tensors are left out of these: a chunk's own gradient of them is as large, and gone by then.
    """

    summed: int
    returned: int
    peak: int


@dataclass(slots=True, eq=False)
class Passes:
    """One fold: its term and its tiles.

    Attributes:
        term: the term.
        captured: the tensors that it captures.
        tiling: the tiles.
        device: where x is, and all results.
        budget: the limit on the device meanwhile, where one was named.
        autocast: the automatic precision that is in force at the fold, for the backward pass to compute in as well;
            without its cache of weights, which would keep those of a pass without a graph for one with it.
        always_differentiates: whether the backward pass is called even where nothing here requires a gradient, since
            other ranks wait for it.
    """

    term: Any
    captured: CapturedTensors
    tiling: Tiling
    device: torch.device
    budget: BudgetLike = None
    always_differentiates: bool = False
    autocast: functools.partial[torch.autocast] = field(init=False)

    def __post_init__(self) -> None:
        kind = self.device.type
        now = {"dtype": torch.get_autocast_dtype(kind), "enabled": torch.is_autocast_enabled(kind)}
        self.autocast = functools.partial(torch.autocast, kind, **now, cache_enabled=False)

    def limited(self) -> contextlib.AbstractContextManager[Any]:
        """Inside the budget: on CUDA the allocator then refuses more."""
        enforced = self.budget is not None and self.device.type == "cuda"
        return MemoryLimit(self.budget, self.device) if enforced else contextlib.nullcontext()

    @property
    def twice_differentiable(self) -> bool:
        """Whether the gradient can be differentiated again."""
        return True

    def forward(self, components: Tree, x: Tree) -> tuple[Tensor, Tensor, torch.dtype, Saved]:
        """The log-sum-exp and the mean of x, the dtype of the term, and what else the backward pass needs."""
        state = self.state(components, x)
        return *state.result(), state.dtype, ()

    def backward(
        self, components: Tree, x: Tree, results: Gradients, saved: Saved, grads: Gradients, needed: Sequence[bool]
    ) -> Gradients:
        """The gradients of the tensors of components, of x, and of those captured, in this order; None where not
        needed.

        Args:
            results: the log-sum-exp and the mean.
            grads: those of both.
        """
        return self.gradients(components, x, (*results, *grads), needed)

    def state(self, components: Tree, x: Tree) -> SoftmaxState:
        """The state of all samples after all components."""
        samples = pytree.rows(x)
        states: list[SoftmaxState] = []

        def compute(part: slice, rows: slice) -> None:
            chunk, some = rows_of(components, part), rows_of(x, rows)
            logit_Bk, value_BkV = evaluate(self.term, chunk, some, size(part), size(rows), self.device)
            if not states:
                states.append(SoftmaxState.empty(samples, value_BkV.shape[2], logit_Bk))
            states[0].merge(rows, logit_Bk, value_BkV)

        with torch.no_grad(), self.autocast(), self.limited():
            self.tiling.for_each_tile(pytree.rows(components), samples, compute)
        return states[0]

    def gradients(self, components: Tree, x: Tree, sample_values: Gradients, needed: Sequence[bool]) -> Gradients:
        """The gradients, from (lse, mean, grad_lse, grad_mean) of all samples."""
        leaves = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)]
        inputs = [*leaves, *self.captured.tensors]
        count, samples, fused = len(pytree.leaves(components)), pytree.rows(x), is_fused(self.term)
        sums: list[Tensor | None] = []
        used: set[int] = set()

        def compute(part: slice, rows: slice) -> None:
            chunk = _requiring_grad(rows_of(components, part), needed[:count])
            some = _requiring_grad(rows_of(x, rows), needed[count:])
            values = [None if value is None else value[rows] for value in sample_values]
            buffers = zip(self.captured.tensors, sums[len(leaves) :], strict=True)
            grads = {leaf: into for leaf, into in buffers if into is not None}
            gradients = (self._fused_vjp if fused else self._autograd_vjp)(chunk, some, values, grads)
            for index, gradient in enumerate(gradients):
                into = sums[index]
                if into is not None and gradient is not None:
                    into[part if index < count else rows if index < len(leaves) else ...].add_(gradient)
                    used.add(index)

        def empty() -> Gradients:
            wanted = zip(inputs, self._sum_dtypes(inputs), needed, strict=True)
            return [torch.zeros_like(leaf, dtype=dtype) if need else None for leaf, dtype, need in wanted]

        def cast() -> Gradients:
            return [None if sum is None else sum.to(leaf.dtype) for sum, leaf in zip(sums, inputs, strict=True)]

        with torch.no_grad(), self.autocast(), self.limited():
            sums.extend(self._undivided(empty))
            if pytree.rows(components) and samples and any(needed):
                with without_hooks(self.captured.tensors):
                    self.tiling.for_each_tile(pytree.rows(components), samples, compute)
                for index in range(len(leaves), len(inputs)):  # as autograd has it: what was not used has none
                    sums[index] = sums[index] if fused or index in used else None
            return self._undivided(cast)

    def _undivided(self, make: Callable[[], Gradients]) -> Gradients:
        """The gradients, or the error that says what to do where they do not fit: smaller chunks are of no help."""
        return retry_smaller(make, lambda: False, self.device, "the gradient of a fold, whatever the chunk,", _ADVICE)

    def _sum_dtypes(self, inputs: Sequence[Tensor]) -> list[torch.dtype]:
        """What gradients are added up in: single precision at least, but for the buffers that a term adds to itself."""
        own = len(inputs) - (len(self.captured.tensors) if is_fused(self.term) else 0)
        return [leaf.dtype if index >= own else at_least_single(leaf.dtype) for index, leaf in enumerate(inputs)]

    def gradient_bytes(self, inputs: Sequence[Tensor], needed: Sequence[bool]) -> GradientBytes:
        """The bytes of gradients on the device."""
        summed = returned = cast = 0
        for index, (leaf, dtype, need) in enumerate(zip(inputs, self._sum_dtypes(inputs), needed, strict=True)):
            if need and leaf.device == self.device:
                summed += leaf.numel() * dtype.itemsize
                returned += leaf.nbytes
                cast += leaf.nbytes if dtype != leaf.dtype and index < len(inputs) - len(self.captured.tensors) else 0
        return GradientBytes(summed, returned, summed + cast)

    def _autograd_vjp(self, chunk: Tree, x: Tree, values: Any, grads: dict[Tensor, Tensor]) -> Gradients:
        """The gradients of a tile's chunk, of x, and of the captured tensors, by autograd."""
        with torch.enable_grad():
            outputs = evaluate(self.term, chunk, x, pytree.rows(chunk), pytree.rows(x), self.device)
        output_grads = softmax_vjp(*(output.detach() for output in outputs), *values)
        leaves = [leaf for tree in (chunk, x) for _, leaf in pytree.leaves(tree)]
        self.check_captured(outputs, leaves)
        inputs = (*leaves, *self.captured.tensors)
        needed = [*(leaf.requires_grad for leaf in leaves), *(tensor in grads for tensor in self.captured.tensors)]
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, output_grads, strict=True)
            if grad is not None and output.requires_grad
        ]
        if not pairs:
            return [None] * len(needed)
        gradients = torch.autograd.grad(
            [output for output, _ in pairs],
            [leaf for leaf, need in zip(inputs, needed, strict=True) if need],
            [grad for _, grad in pairs],
            retain_graph=self.captured.earlier_graph,
            allow_unused=True,
        )
        remaining = iter(gradients)
        return [next(remaining) if need else None for need in needed]

    def _fused_vjp(self, chunk: Tree, x: Tree, values: Any, grads: dict[Tensor, Tensor]) -> Gradients:
        """Those of the chunk and of x by the term's own backward pass, which adds those of its parameters to their
        sums."""
        *outputs, backward = self.term.vjp(chunk, x, grads)
        logit_Bk, value_BkV = checked(tuple(outputs), pytree.rows(chunk), pytree.rows(x), self.device)
        grad_logit, grad_value = softmax_vjp(logit_Bk, value_BkV, *values)
        grad_value = torch.zeros_like(value_BkV) if grad_value is None else grad_value
        return [
            gradient
            for name, tree, of_tree in zip(("chunk", "x"), (chunk, x), backward(grad_logit, grad_value), strict=True)
            for gradient in _flat(name, tree, of_tree)
        ]

    def check_captured(self, outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
        """Refuses a tensor that one component and one sample did not lead to: its gradient would be lost."""
        known = {id(leaf) for leaf in (*leaves, *self.captured.tensors)}
        ends = {tensor.grad_fn for tensor in (*leaves, *self.captured.tensors) if tensor.grad_fn is not None}
        for leaf in graph_leaves(outputs, ends=ends)[0]:
            if id(leaf) not in known:
                raise InputError(
                    f"the term uses a tensor of shape {tuple(leaf.shape)} that wants a gradient for some chunks, and "
                    "not for the first component and sample alone; give the term a method parameters() that returns it"
                )


def rows_of(tree: Tree, part: slice) -> Tree:
    """Some rows of a tree, outside any graph."""
    return pytree.apply(tree, lambda leaf: leaf.detach()[part])


def with_leaves(tree: Tree, leaves: Sequence[Any]) -> Tree:
    """A tree of the same form with other leaves."""
    remaining = iter(leaves)
    return pytree.apply(tree, lambda _: next(remaining))


def _requiring_grad(tree: Tree, needed: Sequence[bool]) -> Tree:
    """The tree, with `requires_grad` where a gradient is needed."""
    flags = iter(needed)
    return pytree.apply(tree, lambda leaf: leaf.requires_grad_(next(flags)))


def _flat(name: str, tree: Tree, grads: Any) -> Gradients:
    """The gradients that a term's backward function returned, in the order of the tree's leaves."""
    leaves = [leaf for _, leaf in pytree.leaves(tree)]
    flat = [None] * len(leaves) if grads is None else _leaves(tree, grads)
    for leaf, gradient in zip(leaves, flat, strict=True):
        if gradient is None and leaf.requires_grad:
            raise InputError(f"the term's vjp gave no gradient for a tensor of the {name} that needs one")
        if gradient is not None and gradient.shape != leaf.shape:
            raise InputError(
                f"the term's vjp gave a gradient of shape {tuple(gradient.shape)} for a tensor of the {name} of shape "
                f"{tuple(leaf.shape)}; return gradients of the form of what it was given"
            )
    return flat


def _leaves(tree: Tree, grads: Any) -> list[Tensor | None]:
    if isinstance(tree, Tensor):
        return [grads]
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    return [leaf for key in keys for leaf in _leaves(tree[key], None if grads is None else grads[key])]
