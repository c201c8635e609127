"""Many single items as one batch, at once: one by one it would take longer than most functions do."""

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import torch

from ..core.base import pytree
from ..core.base.errors import InputError

_NUMBERS = (bool, int, float, complex)


def stack(items: Sequence[Any]) -> pytree.Tree | None:
    """The items along a new leading axis, as if each had become a tensor first. None where they are not all alike, or
    of a kind that has to be looked at one by one."""
    kinds = set(map(type, items))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is torch.Tensor:
        return _stack_tensors(items)
    if kind is np.ndarray:
        return _stack_arrays(items)
    if kind in _NUMBERS or issubclass(kind, np.number | np.bool_):
        return _as_tensor(items)
    if kind is list:  # of numbers, all of one type: an integer among floats would be another dtype by itself
        types, lengths = set(map(type, chain.from_iterable(items))), set(map(len, items))
        return _as_tensor(items) if len(types) == len(lengths) == 1 and types <= {*_NUMBERS} else None
    return _stack_parts(items, kind)


def _stack_tensors(items: Sequence[torch.Tensor]) -> torch.Tensor | None:
    if len(set(map(attrgetter("dtype"), items))) > 1 or items[0].layout != torch.strided:
        return None
    try:
        with torch.no_grad():
            return torch.stack(tuple(items)).resolve_conj().resolve_neg()
    except RuntimeError:  # of unlike shapes, devices or layouts
        return None


def _stack_arrays(items: Sequence[np.ndarray]) -> torch.Tensor | None:
    first = items[0]
    if len(set(map(attrgetter("dtype"), items))) > 1 or not first.dtype.isnative:
        return None
    if not first.ndim:
        return _as_tensor(items)
    if len(set(map(len, items))) > 1:
        return None
    try:  # joined along the axis that they have: half the time of a new one
        return pytree.as_tensor(np.concatenate(items).reshape(len(items), *first.shape), "the items")
    except (InputError, ValueError):  # of unlike shapes, or of objects
        return None


def _as_tensor(items: Any) -> torch.Tensor | None:
    try:
        return pytree.as_tensor(np.array(items), "the items")
    except (InputError, OverflowError, ValueError):
        return None


def _stack_parts(items: Sequence[Any], kind: type) -> pytree.Tree | None:
    """The same for tuples and dicts, part by part."""
    if kind is dict:
        if len({tuple(item) for item in items}) != 1:
            return None
        parts = {key: stack([item[key] for item in items]) for key in items[0]}
    elif issubclass(kind, tuple) and len(set(map(len, items))) == 1:
        parts = {index: stack([item[index] for item in items]) for index in range(len(items[0]))}
    else:
        return None
    return None if not parts or any(part is None for part in parts.values()) else pytree.rebuild(items[0], parts)
