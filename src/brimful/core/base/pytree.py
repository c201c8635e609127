"""A batch as a user writes it: a tensor or a `Ragged`, or a tuple or dict of them, all with the items as leading
axis."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .errors import InputError
from .formatting import a_kind
from .ragged import Where
from .rows import LEAVES, Leaf, not_a_leaf, rows_of
from .supported import refusal

_KINDS = {
    **dict.fromkeys("US", "it holds texts: turn them into numbers, such as token ids"),
    **dict.fromkeys("Mm", "it holds dates or durations: use .astype('int64')"),
    "V": "it holds records: give a dict with one array per field",
}

Tree = Any
"""A tensor or a `Ragged`, or a tuple, list or dict of trees."""


def _parts(tree: Tree) -> dict[Any, Tree] | None:
    """The parts of a tuple, list or dict by key; None for anything else."""
    if isinstance(tree, LEAVES):  # the most frequent; to see that it is no mapping takes longer
        return None
    if isinstance(tree, Mapping):
        return dict(tree)
    return dict(enumerate(tree)) if isinstance(tree, tuple | list) else None


def rebuild(like: Tree, parts: Mapping[Any, Tree]) -> Tree:
    """A tuple, list, named tuple or dict of such parts."""
    if isinstance(like, Mapping):
        return dict(parts)
    return type(like)(*parts.values()) if hasattr(like, "_fields") else type(like)(parts.values())


def row_leaves(tree: Tree, name: str = "") -> list[tuple[str, Leaf]]:
    """The parts of a tree that hold its items, with their names: `("", t)`, `("0", t)`, `("weights.bias", t)`."""
    if isinstance(tree, LEAVES):
        return [(name, tree)]
    if (parts := _parts(tree)) is None:
        raise not_a_leaf(tree, name or "a batch")
    prefix = f"{name}." if name else ""
    return [leaf for key, part in parts.items() for leaf in row_leaves(part, f"{prefix}{key}")]


def leaves(tree: Tree, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """The same of a tree that holds tensors only."""
    named = []
    for path, leaf in row_leaves(tree, name):
        if not isinstance(leaf, torch.Tensor):
            raise not_a_leaf(leaf, path or "a batch")
        named.append((path, leaf))
    return named


def map_leaves(tree: Tree, function: Callable[[Leaf], Leaf]) -> Tree:
    """The same tree with every leaf changed."""
    if (parts := _parts(tree)) is None:
        return function(tree)
    return rebuild(tree, {key: map_leaves(part, function) for key, part in parts.items()})


def zip_leaves(tree: Tree, other: Tree, function: Callable[[Leaf, Any], Leaf]) -> Tree:
    """The same tree with every leaf changed together with that of another tree of its form."""
    others = iter(row_leaves(other))
    return map_leaves(tree, lambda leaf: function(leaf, next(others)[1]))


def apply(tree: Tree, change: Callable[[torch.Tensor], torch.Tensor]) -> Tree:
    """The same tree with every tensor changed, those that a `Ragged` consists of among them."""
    return map_leaves(tree, lambda leaf: rows_of(leaf).change(change))


def join(trees: Sequence[Tree]) -> Tree:
    """Trees of one form, one after the other along the leading axis."""
    if len(trees) == 1:
        return trees[0]
    if (parts := _parts(trees[0])) is None:
        return rows_of(trees[0]).join_rows(trees)
    return rebuild(trees[0], {key: join([tree[key] for tree in trees]) for key in parts})


def tensors(data: Any, name: str = "items") -> Tree:
    """The same form with every array, list of numbers or number as a tensor."""
    parts = None if isinstance(data, list) else _parts(data)
    if parts is None:
        return as_tensor(data, name)
    return rebuild(data, {key: tensors(part, f"{name}[{key!r}]") for key, part in parts.items()})


def as_tensor(data: Any, name: str) -> torch.Tensor:
    """A number, an array or a list of numbers as a tensor, without a copy where possible."""
    if isinstance(data, torch.Tensor):
        if reason := refusal(data):
            raise InputError(f"{name} {reason}")
        return data.detach().resolve_conj().resolve_neg()
    try:
        array = np.asarray(_without_mask(data) if isinstance(data, np.ma.MaskedArray) else data)
        if array.dtype.hasobject:
            dense = hasattr(data, "toarray")
            raise TypeError("it is sparse: use .toarray()" if dense else "it holds Python objects")
        if array.dtype.kind not in "biufc":
            raise TypeError(_KINDS.get(array.dtype.kind, f"it holds {array.dtype}"))
        if not array.dtype.isnative and isinstance(data, np.memmap):  # to copy it would load all of it
            raise TypeError(f"its byte order is not this machine's: use .astype({array.dtype.newbyteorder('=').str!r})")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of read-only memory, such as a mapped file's; nothing writes
            return torch.from_numpy(array if min(array.strides, default=0) >= 0 else np.ascontiguousarray(array))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} is {a_kind(data)} that cannot become a tensor ({error}); give numbers, for samples of "
            "unequal length a data.Ragged, for anything else a data.Decoded"
        ) from error


def _without_mask(data: np.ma.MaskedArray) -> np.ndarray:
    """A masked array as numbers: NaN where it is masked."""
    if not np.ma.is_masked(data):
        return data.data
    if data.dtype.kind not in "fc":
        raise TypeError(
            f"it is masked, and {data.dtype} has no NaN: use .filled(...), or .astype(float) for NaN in those places"
        )
    return data.filled(np.nan)


def rows(tree: Tree, what: str = "items") -> int:
    """The length of the leading axis, which all tensors must share."""
    lengths = {name: rows_of(leaf).count for name, leaf in row_leaves(tree)}
    if not lengths:
        raise InputError(f"{what} holds no tensors; give at least one")
    if None in lengths.values() or len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name or 'it'}: {length}" for name, length in lengths.items())
        raise InputError(f"{what} must share one leading axis; found {shown}")
    return next(iter(lengths.values())) or 0


def spec(tree: Tree) -> list[tuple[str, str, tuple[int | None, ...]]]:
    """Name, dtype and shape of one item, for each part; None in the place of a length that differs."""
    return [(name, *rows_of(leaf).form) for name, leaf in row_leaves(tree)]


def checked(tree: Tree, what: str) -> Tree:
    """The tree with offsets of unequal samples as int64 beside their values; refuses what cannot be such samples."""
    if not varies(tree):
        return tree
    parts = iter([rows_of(leaf).checked(_called(what, name)) for name, leaf in row_leaves(tree)])
    return map_leaves(tree, lambda _: next(parts))


def check_offsets(tree: Tree, what: str) -> None:
    """Raises `InputError` where the offsets of samples of unequal length do not fit their values."""
    for name, leaf in row_leaves(tree):
        rows_of(leaf).check_offsets(_called(what, name))


def _called(what: str, name: str) -> str:
    return f"{what} {name!r}" if name else what


def varies(tree: Tree) -> bool:
    """Whether items differ in length."""
    return any(rows_of(leaf).varies for _, leaf in row_leaves(tree))


def nbytes(tree: Tree) -> int:
    """Bytes of all tensors together."""
    tensors = (tensor for _, leaf in row_leaves(tree) for tensor in rows_of(leaf).tensors)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def slice_rows(tree: Tree, start: int, stop: int) -> Tree:
    """Rows `start` to `stop`, without a copy."""
    return map_leaves(tree, lambda leaf: rows_of(leaf).slice_rows(start, stop))


def take_rows(tree: Tree, index: torch.Tensor) -> Tree:
    """The rows of an index, copied."""
    return map_leaves(tree, lambda leaf: rows_of(leaf).take_rows(index))


def to(tree: Tree, device: torch.device) -> Tree:
    """The tree on a device."""
    return apply(tree, lambda tensor: tensor.to(device))


def finite_rows(tree: Tree) -> torch.Tensor | None:
    """Which rows are finite in every floating tensor; None where there is no floating tensor."""
    flags = None
    for _, leaf in row_leaves(tree):
        part = rows_of(leaf)
        if part.elements.is_floating_point() or part.elements.is_complex():
            good = part.all_rows(torch.isfinite(part.elements))
            flags = good if flags is None else flags & good
    return flags


def blank_rows(form: Tree, count: int) -> Tree:
    """Rows of a tree's form that say nothing: NaN, or 0 where there is no NaN; samples of unequal length are empty."""
    return map_leaves(form, lambda leaf: rows_of(leaf).blank_rows(count))


def put_rows(whole: Tree, index: np.ndarray, part: Tree) -> Tree:
    """A tree with a batch's rows in their place, tensors in their own memory; refuses a batch of another form."""
    check_same_form(whole, part)
    where = row_index(index)
    return zip_leaves(whole, part, lambda mine, theirs: rows_of(mine).put_rows(where, theirs))


def row_index(index: np.ndarray) -> Where:
    """An index of rows; a slice where they are in order and have no gaps."""
    first, count = int(index[0]) if len(index) else 0, len(index)
    in_order = count > 0 and int(index[-1]) == first + count - 1 and bool((np.diff(index) == 1).all())
    if in_order:
        return slice(first, first + count)
    return torch.from_numpy(index if index.flags.writeable else index.copy())  # a table's is not


def check_same_form(first: Tree, other: Tree) -> None:
    """Raises `InputError` where the items of two batches differ in more than their length."""
    if spec(first) != spec(other):
        raise InputError(
            f"the function returned {spec(other)} for one batch and {spec(first)} for another; the names, dtypes and "
            "shapes of an item's result must be the same in all"
        )
