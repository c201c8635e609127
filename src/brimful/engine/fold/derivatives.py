"""Second and higher derivatives of a fold, tile by tile.

Given the log-sum-exp and the mean, the gradient of a fold is a sum over tiles of a function of the tile's components,
samples, results and incoming gradients. So is the derivative of such a sum, and so on: each is computed as the gradient
is, with the graph of one tile at a time, and autograd leads from the log-sum-exp and the mean back to the fold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import torch

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.pytree import Tree
from .online_softmax import at_least_single, softmax_vjp
from .passes import Gradients, Passes, Saved, with_leaves
from .term import checked, differentiable_term, without_hooks


class Axis(Enum):
    """What the leading axis of a tensor counts: a tile has those rows of it."""

    COMPONENTS = "components"
    SAMPLES = "samples"
    NONE = "none"
    CAPTURED = "captured"  # by the term, which uses the tensor itself


class TileFunction(Protocol):
    """A differentiable function of a tile."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Of its inputs."""
        ...

    @property
    def output_axes(self) -> tuple[Axis, ...]: ...

    def __call__(self, inputs: Gradients, create_graph: bool) -> Gradients: ...


@dataclass(frozen=True, slots=True, eq=False)
class TileGradient:
    """The gradients of a tile's components, samples and captured tensors, of its log-sum-exp, its mean, the gradients
    of these, and the same tensors; through the graph of the term."""

    passes: Passes
    components: Tree
    x: Tree
    needed: tuple[bool, ...]
    axes: tuple[Axis, ...]

    @property
    def output_axes(self) -> tuple[Axis, ...]:
        return self.axes[4:]

    def __call__(self, inputs: Gradients, create_graph: bool) -> Gradients:
        values, leaves = inputs[:4], inputs[4:]
        chunk = with_leaves(self.components, leaves)
        some = with_leaves(self.x, leaves[len(pytree.leaves(self.components)) :])
        own = leaves[: len(leaves) - len(self.passes.captured.tensors)]
        rows = pytree.rows(chunk), pytree.rows(some)
        outputs = checked(differentiable_term(self.passes.term)(chunk, some), *rows, self.passes.device)
        self.passes.check_captured(outputs, [leaf for leaf in own if leaf is not None])
        output_grads = softmax_vjp(*outputs, *values)  # pyright: ignore[reportArgumentType]
        return vjp(self.passes, outputs, leaves, output_grads, self.needed, create_graph)


@dataclass(frozen=True, slots=True, eq=False)
class TileDerivative:
    """The vector-Jacobian product of another function of a tile: the gradients of its inputs, of these and of the
    gradients of its outputs."""

    passes: Passes
    function: TileFunction
    needed: tuple[bool, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        outputs = (Axis.NONE if axis is Axis.CAPTURED else axis for axis in self.function.output_axes)
        return (*self.function.axes, *outputs)

    @property
    def output_axes(self) -> tuple[Axis, ...]:
        return self.function.axes

    def __call__(self, inputs: Gradients, create_graph: bool) -> Gradients:
        own, output_grads = inputs[: len(self.needed)], inputs[len(self.needed) :]
        return vjp(self.passes, self.function(own, True), own, output_grads, self.needed, create_graph)


def vjp(
    passes: Passes, outputs: Gradients, inputs: Gradients, grads: Gradients, needed: Sequence[bool], create_graph: bool
) -> Gradients:
    """The gradients of the inputs that are needed; None for those that no output depends on."""
    pairs = [
        (output, grad.to(output.dtype))
        for output, grad in zip(outputs, grads, strict=True)
        if output is not None and grad is not None and output.requires_grad
    ]
    if not pairs or not any(needed):
        return [None] * len(needed)
    gradients = torch.autograd.grad(
        [output for output, _ in pairs],
        [leaf for leaf, need in zip(inputs, needed, strict=True) if need and leaf is not None],
        [grad for _, grad in pairs],
        create_graph=create_graph,
        retain_graph=create_graph or passes.captured.earlier_graph,
        allow_unused=True,
    )
    remaining = iter(gradients)
    return [next(remaining) if need else None for need in needed]


class Sum(Protocol):
    """A sum over all tiles that `autograd.TileSum` makes a node of."""

    def compute(self, inputs: Gradients) -> Gradients: ...

    def derivative(self, needed: Sequence[bool]) -> "Sum": ...


@dataclass(frozen=True, slots=True, eq=False)
class GradientSum:
    """The gradient of a fold, as `Passes.backward` computes it. Its inputs are the log-sum-exp, the mean, the gradients
    of both, and what was folded."""

    passes: Passes
    components: Tree
    x: Tree
    saved: Saved
    needed: tuple[bool, ...]

    def compute(self, inputs: Gradients) -> Gradients:
        components, x = with_leaves(self.components, inputs[4:]), with_leaves(self.x, inputs[4 + self._count :])
        with torch.no_grad():
            return self.passes.backward(components, x, inputs[:2], self.saved, inputs[2:4], self.needed)

    def derivative(self, needed: Sequence[bool]) -> Sum:
        if not self.passes.twice_differentiable:
            raise InputError(
                "a fold over ranks can be differentiated once, and this asks for its second derivative; fold on one "
                "rank (group=None), in chunks, which can be differentiated any number of times"
            )
        axes = (
            *(Axis.SAMPLES for _ in range(4)),
            *(Axis.COMPONENTS for _ in range(self._count)),
            *(Axis.SAMPLES for _ in pytree.leaves(self.x)),
            *(Axis.CAPTURED for _ in self.passes.captured.tensors),
        )
        sizes = pytree.rows(self.components), pytree.rows(self.x)
        function = TileGradient(self.passes, self.components, self.x, self.needed, axes)
        tracked = (*(False for _ in range(4)), *self.needed)
        return DerivativeSum(self.passes, function, sizes, tracked).derivative(needed)

    @property
    def _count(self) -> int:
        return len(pytree.leaves(self.components))


@dataclass(frozen=True, slots=True, eq=False)
class DerivativeSum:
    """A sum over all tiles of a function of each.

    Attributes:
        sizes: the numbers of components and of samples.
        tracked: for each input, whether the function differentiates with respect to it.
    """

    passes: Passes
    function: TileFunction
    sizes: tuple[int, int]
    tracked: tuple[bool, ...]

    def derivative(self, needed: Sequence[bool]) -> "DerivativeSum":
        function = TileDerivative(self.passes, self.function, tuple(needed))
        tracked = [one or other for one, other in zip(self.tracked, needed, strict=True)]
        more = (False for _ in self.function.output_axes)
        return DerivativeSum(self.passes, function, self.sizes, (*tracked, *more))

    def compute(self, inputs: Gradients) -> Gradients:
        function = self.function
        assert isinstance(function, TileDerivative)
        outputs = list(zip(inputs, function.needed, strict=False))
        sums = [
            torch.zeros_like(leaf, dtype=at_least_single(leaf.dtype)) if need and leaf is not None else None
            for leaf, need in outputs
        ]
        captured = iter(self.passes.captured.tensors)
        inputs = [
            next(captured) if axis is Axis.CAPTURED else leaf for leaf, axis in zip(inputs, function.axes, strict=True)
        ]

        def compute(part: slice, rows: slice) -> None:
            slices: dict[Axis, Any] = {Axis.COMPONENTS: part, Axis.SAMPLES: rows, Axis.NONE: ...}
            tile = [
                leaf if leaf is None or axis is Axis.CAPTURED else leaf.detach()[slices[axis]].requires_grad_(track)
                for leaf, axis, track in zip(inputs, function.axes, self.tracked, strict=True)
            ]
            with torch.enable_grad():
                gradients = function(tile, False)
            for into, gradient, axis in zip(sums, gradients, function.output_axes, strict=True):
                if into is not None and gradient is not None:
                    into[slices.get(axis, ...)].add_(gradient)

        with torch.no_grad(), self.passes.autocast(), self.passes.limited():
            if all(self.sizes):
                with without_hooks(self.passes.captured.tensors):
                    self.passes.tiling.for_each_tile(*self.sizes, compute)
            return [
                None if total is None or leaf is None else total.to(leaf.dtype)
                for total, (leaf, _) in zip(sums, outputs, strict=True)
            ]
