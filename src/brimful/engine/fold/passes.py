"""The two passes of a fold: forward over all tiles without a graph, and backward over them, each computed again."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import BudgetError, InputError
from ...core.base.pytree import Tree
from ...core.memory.limit import MemoryLimit
from ...core.memory.oom import error_line, is_out_of_memory
from .online_softmax import State, at_least_single, pulled
from .term import Held, checked, evaluate, is_fused, reached, unhooked
from .tiling import Cuts

Gradients = Sequence[Tensor | None]


@dataclass(frozen=True, slots=True, eq=False)
class Autocast:
    """The automatic precision that was in force at the fold, for the backward pass to compute in as well."""

    device: str
    enabled: bool
    dtype: torch.dtype

    @classmethod
    def now(cls, device: torch.device) -> "Autocast":
        return cls(device.type, torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type))

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Without its cache of weights, which would keep those of a pass without a graph for one with it."""
        if not (self.enabled or torch.is_autocast_enabled(self.device)):
            yield
            return
        with torch.autocast(self.device, dtype=self.dtype, enabled=self.enabled, cache_enabled=False):
            yield


Kept = tuple[Tensor, ...]
"""What a backward pass needs of the forward pass, beside what was folded: the log-sum-exp and the mean come first."""


@dataclass(slots=True, eq=False)
class Passes:
    """One fold: what is folded and how it is cut.

    Attributes:
        term: the term.
        held: what the term holds.
        cuts: the tiles.
        device: where x is, and all results.
        budget: what the device is held to meanwhile, where one was named.
    """

    term: Any
    held: Held
    cuts: Cuts
    device: torch.device
    budget: Any = None
    autocast: Autocast = field(init=False)

    def __post_init__(self) -> None:
        self.autocast = Autocast.now(self.device)

    def within(self) -> contextlib.AbstractContextManager[Any]:
        """Inside the budget: on CUDA the allocator then refuses more."""
        enforced = self.budget is not None and self.device.type == "cuda"
        return MemoryLimit(self.budget, self.device) if enforced else contextlib.nullcontext()

    def forward(self, components: Tree, x: Tree) -> tuple[Tensor, Tensor, Kept]:
        """The log-sum-exp and the mean of x, and what the backward pass needs."""
        state = self.state(components, x)
        kept = state.result()
        return kept[0].to(state.dtype), kept[1].to(state.dtype), kept

    def backward(self, components: Tree, x: Tree, kept: Kept, bars: Gradients, needed: Sequence[bool]) -> Gradients:
        """The gradients of the tensors of components, of x, and of those held, in this order; None where not needed."""
        return self.gradients(components, x, (*kept, *bars), needed)

    def state(self, components: Tree, x: Tree) -> State:
        """The state of all samples after all components."""
        samples = pytree.rows(x)
        found: list[State] = []

        def work(part: slice, rows: slice) -> None:
            chunk, some = cut(components, part), cut(x, rows)
            k, count = part.stop - part.start, rows.stop - rows.start
            logit_Bk, value_BkV = evaluate(self.term, chunk, some, k, count, self.device)
            if not found:
                found.append(State.empty(samples, value_BkV.shape[2], logit_Bk))
            found[0].merge(rows, logit_Bk, value_BkV)

        with torch.no_grad(), self.autocast(), self.within():
            self.cuts.each(pytree.rows(components), samples, work)
        return found[0]

    def gradients(self, components: Tree, x: Tree, share: Gradients, needed: Sequence[bool]) -> Gradients:
        """The gradients, from (lse, mean, lbar, mbar) of all samples."""
        leaves = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)]
        inputs = [*leaves, *self.held.tensors]
        count, samples, fused = len(pytree.leaves(components)), pytree.rows(x), is_fused(self.term)
        sums: list[Tensor | None] = []
        touched: set[int] = set()

        def work(part: slice, rows: slice) -> None:
            chunk, some = _wanting(cut(components, part), needed[:count]), _wanting(cut(x, rows), needed[count:])
            mine = [None if each is None else each[rows] for each in share]
            pairs = zip(self.held.tensors, sums[len(leaves) :], strict=True)
            grads = {leaf: into for leaf, into in pairs if into is not None}
            gradients = (self._fused if fused else self._plain)(chunk, some, mine, grads)
            for place, gradient in enumerate(gradients):
                into = sums[place]
                if into is not None and gradient is not None:
                    where = part if place < count else rows if place < len(leaves) else ...
                    into[where].add_(gradient)
                    touched.add(place)

        with torch.no_grad(), self.autocast(), self.within():
            with _as_a_whole():
                for leaf, dtype, need in zip(inputs, self.sum_dtypes(inputs), needed, strict=True):
                    sums.append(torch.zeros_like(leaf, dtype=dtype) if need else None)
            if pytree.rows(components) and samples and any(needed):
                with unhooked(self.held.tensors):
                    self.cuts.each(pytree.rows(components), samples, work)
                for place in range(len(leaves), len(inputs)):  # as autograd has it: what was not used has none
                    sums[place] = sums[place] if fused or place in touched else None
            with _as_a_whole():
                return [None if each is None else each.to(leaf.dtype) for each, leaf in zip(sums, inputs, strict=True)]

    def sum_dtypes(self, inputs: Sequence[Tensor]) -> list[torch.dtype]:
        """What gradients are added up in: single precision at least, but for the buffers that a term adds to itself."""
        own = len(inputs) - (len(self.held.tensors) if is_fused(self.term) else 0)
        return [leaf.dtype if place >= own else at_least_single(leaf.dtype) for place, leaf in enumerate(inputs)]

    def weigh(self, inputs: Sequence[Tensor], needed: Sequence[bool]) -> "GradientBytes":
        """The bytes of gradients on the device."""
        sums = given = cast = 0
        for place, (leaf, dtype, need) in enumerate(zip(inputs, self.sum_dtypes(inputs), needed, strict=True)):
            if need and leaf.device == self.device:
                sums += leaf.numel() * dtype.itemsize
                given += leaf.nbytes
                cast += leaf.nbytes if dtype != leaf.dtype and place < len(inputs) - len(self.held.tensors) else 0
        return GradientBytes(sums, given, sums + cast)

    def _plain(self, chunk: Tree, x: Tree, share: Any, grads: dict[Tensor, Tensor]) -> Gradients:
        """The gradients of a tile's chunk, of x, and of the held tensors, by autograd."""
        with torch.enable_grad():
            outputs = evaluate(self.term, chunk, x, pytree.rows(chunk), pytree.rows(x), self.device)
        logit_bar, value_bar = pulled(*(each.detach() for each in outputs), *share)
        leaves = [leaf for tree in (chunk, x) for _, leaf in pytree.leaves(tree)]
        self._all_known(outputs, leaves)
        wants = [*(leaf.requires_grad for leaf in leaves), *(each in grads for each in self.held.tensors)]
        pairs = [
            (output, bar)
            for output, bar in zip(outputs, (logit_bar, value_bar), strict=True)
            if bar is not None and output.requires_grad
        ]
        if not pairs:
            return [None] * len(wants)
        found = torch.autograd.grad(
            [output for output, _ in pairs],
            [leaf for leaf, want in zip((*leaves, *self.held.tensors), wants, strict=True) if want],
            [bar for _, bar in pairs],
            retain_graph=self.held.through,
            allow_unused=True,
        )
        given = iter(found)
        return [next(given) if want else None for want in wants]

    def _fused(self, chunk: Tree, x: Tree, share: Any, grads: dict[Tensor, Tensor]) -> Gradients:
        """Those of the chunk and of x by the term's own way, which adds those of the held tensors to their sums."""
        *outputs, pull = self.term.vjp(chunk, x, grads)
        logit_Bk, value_BkV = checked(tuple(outputs), pytree.rows(chunk), pytree.rows(x), self.device)
        logit_bar, value_bar = pulled(logit_Bk, value_BkV, *share)
        value_bar = torch.zeros_like(value_BkV) if value_bar is None else value_bar
        return [
            gradient
            for name, tree, bars in zip(("chunk", "x"), (chunk, x), pull(logit_bar, value_bar), strict=True)
            for gradient in _flat(name, tree, bars)
        ]

    def _all_known(self, outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
        """Refuses a tensor that the trial did not meet: its gradient would be lost."""
        known = {id(each) for each in (*leaves, *self.held.tensors)}
        for leaf in reached(outputs)[0]:
            if id(leaf) not in known:
                raise InputError(
                    f"the term uses a tensor of shape {tuple(leaf.shape)} that wants a gradient for some chunks, and "
                    "not for the first component and sample alone; give the term a method parameters() that returns it"
                )


def cut(tree: Tree, part: slice) -> Tree:
    """Some rows of a tree, outside any graph."""
    return pytree.apply(tree, lambda leaf: leaf.detach()[part])


def refill(tree: Tree, leaves: Sequence[Any]) -> Tree:
    """A tree of the same form with other leaves."""
    given = iter(leaves)
    return pytree.apply(tree, lambda _: next(given))


def _wanting(tree: Tree, needed: Sequence[bool]) -> Tree:
    """The tree, with the tensors marked whose gradient is needed."""
    flags = iter(needed)
    return pytree.apply(tree, lambda leaf: leaf.requires_grad_(next(flags)))


@dataclass(frozen=True, slots=True)
class GradientBytes:
    """Bytes of the gradients of a fold.

    Attributes:
        sums: as they are added up.
        given: as they are given to autograd.
        end: as they are added up, with those of components and x that are then cast to a lower precision. What the
            term holds is left out of these: a chunk's own gradient of it is as large, and gone by then.
    """

    sums: int
    given: int
    end: int


@contextlib.contextmanager
def _as_a_whole() -> Iterator[None]:
    """Says what to do where the gradients themselves do not fit, since smaller chunks are of no help."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise BudgetError(
                f"the gradients of a fold do not fit, however it is cut: {error_line(error)}. Use a larger budget, or "
                "want the gradients of less: they are as large as what they are of, in single precision at least"
            ) from error
        raise


def _flat(name: str, tree: Tree, bars: Any) -> Gradients:
    """The gradients that a term's pull returned, in the order of the tree's leaves."""
    leaves = [leaf for _, leaf in pytree.leaves(tree)]
    found = [None] * len(leaves) if bars is None else _parts(tree, bars)
    for leaf, gradient in zip(leaves, found, strict=True):
        if gradient is None and leaf.requires_grad:
            raise InputError(f"the term's vjp gave no gradient for a tensor of the {name} that needs one")
        if gradient is not None and gradient.shape != leaf.shape:
            raise InputError(
                f"the term's vjp gave a gradient of shape {tuple(gradient.shape)} for a tensor of the {name} of shape "
                f"{tuple(leaf.shape)}; return gradients of the form of what it was given"
            )
    return found


def _parts(tree: Tree, bars: Any) -> Gradients:
    if isinstance(tree, Tensor):
        return [bars]
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    found: list[Tensor | None] = []
    for key in keys:
        part = None if bars is None else bars[key]
        found += _parts(tree[key], part)
    return found
