"""A batch as a user writes it: a tensor, or a tuple or dict of them, all with the items as leading axis."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .errors import InputError

Tree = Any
"""A tensor, or a tuple, list or dict of trees."""


def _parts(tree: Tree) -> dict[Any, Tree] | None:
    """The parts of a tuple, list or dict by key; None for anything else."""
    if isinstance(tree, Mapping):
        return dict(tree)
    return dict(enumerate(tree)) if isinstance(tree, tuple | list) else None


def rebuild(like: Tree, parts: Mapping[Any, Tree]) -> Tree:
    """A tuple, list, named tuple or dict of such parts."""
    if isinstance(like, Mapping):
        return dict(parts)
    return type(like)(*parts.values()) if hasattr(like, "_fields") else type(like)(parts.values())


def leaves(tree: Tree, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors of a tree with their names: `("", t)`, `("0", t)`, `("weights.bias", t)`."""
    if isinstance(tree, torch.Tensor):
        return [(name, tree)]
    if (parts := _parts(tree)) is None:
        raise InputError(
            f"{name or 'a batch'} is a {type(tree).__name__}; it must be a tensor, or a tuple or dict of tensors"
        )
    prefix = f"{name}." if name else ""
    return [leaf for key, part in parts.items() for leaf in leaves(part, f"{prefix}{key}")]


def apply(tree: Tree, change: Callable[[torch.Tensor], torch.Tensor]) -> Tree:
    """The same tree with every tensor changed."""
    if isinstance(tree, torch.Tensor):
        return change(tree)
    if (parts := _parts(tree)) is None:
        raise InputError(f"a batch holds a {type(tree).__name__}; it must be a tensor, or a tuple or dict of tensors")
    return rebuild(tree, {key: apply(part, change) for key, part in parts.items()})


def join(trees: Sequence[Tree]) -> Tree:
    """Trees of one form, one after the other along the leading axis."""
    if len(trees) == 1:
        return trees[0]
    if isinstance(trees[0], torch.Tensor):
        return torch.cat(list(trees))
    return rebuild(trees[0], {key: join([tree[key] for tree in trees]) for key in _parts(trees[0]) or ()})


def tensors(data: Any, name: str = "items") -> Tree:
    """The same form with every array, list of numbers or number as a tensor."""
    parts = None if isinstance(data, list) else _parts(data)
    if parts is None:
        return as_tensor(data, name)
    return rebuild(data, {key: tensors(part, f"{name}[{key!r}]") for key, part in parts.items()})


def as_tensor(data: Any, name: str) -> torch.Tensor:
    """A number, an array or a list of numbers as a tensor, without a copy where possible."""
    if isinstance(data, torch.Tensor):
        if data.layout != torch.strided:
            raise InputError(f"{name} is a {data.layout} tensor; use .to_dense(), or a Ragged")
        return data.detach().resolve_conj().resolve_neg()
    try:
        array = np.asarray(data)
        if array.dtype.hasobject:
            raise TypeError("it holds Python objects")
        if not array.dtype.isnative:
            raise TypeError(f"its byte order is not this machine's: use .astype({array.dtype.newbyteorder('=').str!r})")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of read-only memory, such as a mapped file's; nothing writes
            return torch.from_numpy(array if min(array.strides, default=0) >= 0 else np.ascontiguousarray(array))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} is a {type(data).__name__} that cannot become a tensor ({error}); give numbers, for samples of "
            "unequal length a data.Ragged, for anything else a data.Decoded"
        ) from error


def rows(tree: Tree, what: str = "items") -> int:
    """The length of the leading axis, which all tensors must share."""
    lengths = {name: (tensor.shape[0] if tensor.ndim else None) for name, tensor in leaves(tree)}
    if not lengths:
        raise InputError(f"{what} holds no tensors; give at least one")
    if None in lengths.values() or len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name or 'it'}: {length}" for name, length in lengths.items())
        raise InputError(f"{what} must share one leading axis; found {shown}")
    return next(iter(lengths.values())) or 0


def spec(tree: Tree) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name, dtype and shape of one item, for each tensor."""
    return [(name, str(tensor.dtype), tuple(tensor.shape[1:])) for name, tensor in leaves(tree)]


def nbytes(tree: Tree) -> int:
    """Bytes of all tensors together."""
    return sum(tensor.numel() * tensor.element_size() for _, tensor in leaves(tree))


def slice_rows(tree: Tree, start: int, stop: int) -> Tree:
    """Rows `start` to `stop`, without a copy."""
    return apply(tree, lambda tensor: tensor[start:stop])


def take_rows(tree: Tree, index: torch.Tensor) -> Tree:
    """The rows of an index, copied."""
    return apply(tree, lambda tensor: tensor.index_select(0, index.to(tensor.device)))


def to(tree: Tree, device: torch.device) -> Tree:
    """The tree on a device."""
    return apply(tree, lambda tensor: tensor.to(device))


def finite_rows(tree: Tree, count: int) -> torch.Tensor | None:
    """Which rows are finite in every floating tensor; None where there is no floating tensor."""
    flags = None
    for _, tensor in leaves(tree):
        if tensor.is_floating_point() or tensor.is_complex():
            good = torch.isfinite(tensor.reshape(count, -1)).all(dim=1)
            flags = good if flags is None else flags & good
    return flags


def assemble(parts: Sequence[Tree], index: Sequence[np.ndarray], missing: Sequence[np.ndarray] = ()) -> Tree | None:
    """Batches in order of work as one tree in order of items.

    Args:
        parts: batches of results.
        index: each batch's item indices.
        missing: indices of items that have no values at all; their rows are blank.
    """
    if not parts:
        return None
    blanks = np.concatenate(list(missing)) if missing else np.array([], np.int64)
    parts = list(parts)
    for part in parts:
        _same_form(parts[0], part)
    if len(blanks):
        parts.append(blank_rows(parts[0], len(blanks)))
    order = np.concatenate([*index, blanks])
    whole = join(parts)
    if np.array_equal(order, np.arange(len(order))):
        return whole
    return take_rows(whole, torch.from_numpy(np.argsort(order, kind="stable")))


def blank_rows(form: Tree, count: int) -> Tree:
    """Rows of a tree's form that say nothing: NaN, or 0 where there is no NaN."""

    def blank(tensor: torch.Tensor) -> torch.Tensor:
        fill = float("nan") if tensor.is_floating_point() or tensor.is_complex() else 0
        return torch.full((count, *tensor.shape[1:]), fill, dtype=tensor.dtype)

    return apply(form, blank)


def put_rows(whole: Tree, index: np.ndarray, part: Tree) -> None:
    """Writes a batch's rows into a tree of all of them; refuses a batch of another form."""
    _same_form(whole, part)
    first, count = int(index[0]) if len(index) else 0, len(index)
    in_order = count > 0 and int(index[-1]) == first + count - 1 and bool((np.diff(index) == 1).all())
    where = slice(first, first + count) if in_order else torch.from_numpy(index)
    for (_, target), (_, source) in zip(leaves(whole), leaves(part), strict=True):
        target[where] = source


def _same_form(first: Tree, other: Tree) -> None:
    if spec(first) != spec(other):
        raise InputError(
            f"the function returned {spec(other)} for one batch and {spec(first)} for another; the names, dtypes and "
            "shapes of an item's result must be the same in all"
        )
