"""Mean and deviation of each feature, from the training samples only, and the transform that uses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.base.errors import ConfigError, InputError
from .dataset import called, some, unpack
from .ragged import Padded, Ragged
from .sources import source as rows_of
from .subset import sample_numbers

_READ = 16 * 2**20  # bytes at a time


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Of one field, feature by feature: the shape is a sample's, or for a ragged field a value's.

    Attributes:
        mean: float64; 0 where every value is missing.
        std: float64, of the population; 0 where the feature never changes.
        count: how many values are there, NaN not counted.
    """

    mean: Tensor
    std: Tensor
    count: Tensor


def statistics(source: Any, index: Any = None) -> dict[str, Moments]:
    """The moments of every floating-point field, by name, from the samples of an index; a NaN is a missing value.

    Give the training split's index: moments of the other samples would tell the model about them. Names are a dict's
    keys, `"0"`, `"1"` for a tuple, `""` for a single tensor.

    Example:
        >>> statistics(torch.tensor([[1.0], [3.0], [100.0]]), [0, 1])[""].mean
        tensor([2.], dtype=torch.float64)
    """
    rows = rows_of(source)
    numbers = np.arange(len(rows)) if index is None else sample_numbers(index, len(rows))
    some(len(numbers), "the index")
    floating = [name for name, field in rows.fields.items() if field.dtype.is_floating_point]
    if not floating:
        raise InputError(
            "no field holds floating-point numbers, so there is nothing to standardize; convert with .float()"
        )
    step = max(1, _READ * len(rows) // max(1, rows.nbytes))
    moments: dict[str, Moments] = {}
    with rows.reading(0) as gather:
        for start in range(0, len(numbers), step):
            part = gather(numbers[start : start + step])
            for name in floating:
                here = _moments(part[name].values if isinstance(part[name], Ragged) else part[name])
                moments[name] = _merged(moments[name], here) if name in moments else here
    for name, field in moments.items():
        if not torch.isfinite(field.std).all():
            raise InputError(f"{called(name)} holds an infinity; replace it, by NaN if the value is missing")
    return moments


def _moments(values: Tensor) -> Moments:
    values = values.to(torch.float64)
    there = ~values.isnan()
    count = there.sum(0)
    mean = torch.where(there, values, 0.0).sum(0) / count.clamp(min=1)
    square = torch.where(there, values - mean, 0.0).square().sum(0)
    return Moments(mean, (square / count.clamp(min=1)).sqrt(), count)


def _merged(one: Moments, two: Moments) -> Moments:
    count = one.count + two.count
    share = two.count.double() / count.clamp(min=1)
    apart = two.mean - one.mean
    square = (1 - share) * one.std.square() + share * two.std.square() + share * (1 - share) * apart.square()
    return Moments(one.mean + share * apart, torch.where(count > 0, square, 0.0).sqrt(), count)


class Standardize:
    """`(x - mean) / std`, feature by feature, as a transform of a loader; made by `standardize`."""

    def __init__(self, moments: dict[str, Moments]) -> None:
        self._moments = moments
        self._ready: dict[tuple[str, torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    def __call__(self, batch: Any, generator: torch.Generator | None = None) -> Any:
        parts, pack = unpack(batch, "the batch")
        for name in self._moments:
            if name not in parts:
                raise InputError(f"the batch has no {called(name)}; it has {', '.join(map(repr, parts))}")
            parts[name] = self._one(name, parts[name])
        return pack(parts)

    def _one(self, name: str, part: Any) -> Any:
        if isinstance(part, Ragged):
            return Ragged(self._scaled(name, part.values), part.offsets)
        if isinstance(part, Padded):  # what is filled up stays as it was filled
            mask = part.mask.reshape(*part.values.shape[:2], *(1,) * (part.values.ndim - 2))
            return Padded(torch.where(mask, self._scaled(name, part.values), part.values), part.lengths)
        return self._scaled(name, part)

    def _scaled(self, name: str, values: Tensor) -> Tensor:
        key = (name, values.device, values.dtype)
        if key not in self._ready:
            moments = self._moments[name]
            scale = torch.where(moments.std > 0, moments.std, 1.0)
            self._ready[key] = (moments.mean.to(values.device, values.dtype), scale.to(values.device, values.dtype))
        mean, scale = self._ready[key]
        return (values - mean) / scale


def standardize(moments: dict[str, Moments], fields: Sequence[str] | None = None) -> Standardize:
    """A transform that brings the fields to mean 0 and deviation 1. A feature that never changes is only centred.

    Args:
        moments: what `statistics` returned.
        fields: only these; by default all that have moments.
    """
    if missing := [name for name in fields or () if name not in moments]:
        raise ConfigError(f"no statistics for {', '.join(missing)}; there are some for {', '.join(moments)}")
    return Standardize(moments if fields is None else {name: moments[name] for name in fields})
