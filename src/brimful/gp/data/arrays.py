"""What users give as numbers or dates, as tensors; what is masked is NaN."""

import contextlib
import decimal
import numbers
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import InputError
from ...data.dates import days, is_moment, parsed
from .long_table import date_kind, plain


def as_tensor(value: Any, name: str) -> Tensor:
    """Real numbers of any form as a tensor, NaN where they are masked."""
    try:
        array = value.detach() if isinstance(value, Tensor) else np.asarray(_unmasked(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is a {type(value).__name__} that is not an array of numbers: {error}") from error
    if isinstance(array, np.ndarray) and array.dtype.kind == "O":
        array = _numbers(array)
    wrong = array.dtype.kind not in "fiu" if isinstance(array, np.ndarray) else array.is_complex()
    if wrong or array.dtype == torch.bool:
        raise InputError(f"{name} holds {array.dtype}; give real numbers")
    tensor = pytree.as_tensor(array, name)
    return tensor if tensor.is_floating_point() else tensor.double()


def as_inputs(value: Any, name: str) -> Tensor:
    """Numbers, or dates and the starts of periods as days since 1970-01-01, as a tensor; NaN where they are masked."""
    array = plain(value, pa.field(name, value.type)) if isinstance(value, pa.Array | pa.ChunkedArray) else value
    if not isinstance(value, Tensor):
        with contextlib.suppress(TypeError, ValueError):  # `as_tensor` says what is wrong with it
            array = np.asarray(_unmasked(array))
    if isinstance(array, np.ndarray) and array.dtype.kind == "O" and array.size:
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            moments = pa.array([getattr(item, "start_time", item) for item in array.flat], from_pandas=True)
            if is_moment(moments.type):
                array = days(moments).reshape(array.shape)
    elif isinstance(array, np.ndarray) and array.dtype.kind == "U" and array.size:
        with contextlib.suppress(pa.ArrowException):
            array = days(parsed(pa.array(array.reshape(-1).tolist()))).reshape(array.shape)
    elif isinstance(array, np.ndarray) and array.dtype.kind == "M":
        flat = array.reshape(-1)
        array = days(pa.array(flat.astype("datetime64[us]"))).reshape(array.shape)
    return as_tensor(array, name)


def date_type(value: Any) -> str | None:
    """Arrow's name of the type of the dates among inputs; None where they are numbers."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return date_kind(value) if isinstance(value, pa.ChunkedArray) else date_kind(pa.chunked_array([value]))
    if isinstance(value, Tensor):
        return None
    with contextlib.suppress(TypeError, ValueError, OverflowError, pa.ArrowException):
        first = np.asarray(_unmasked(value)).reshape(-1)[:1]
        kind = pa.array([getattr(item, "start_time", item) for item in first], from_pandas=True).type
        return "date32[day]" if first.dtype.kind in "MUO" and (is_moment(kind) or pa.types.is_string(kind)) else None
    return None


def _numbers(array: np.ndarray) -> np.ndarray:
    """Python's numbers of any kind as float64, NaN where there is none; anything else as it is."""
    items = [None if item is None or str(item) == "<NA>" else item for item in array.flat]
    if not all(isinstance(item, numbers.Number | decimal.Decimal | None) for item in items):
        return array
    if any(isinstance(item, bool | np.bool_ | complex) for item in items):
        return array
    return np.array([np.nan if item is None else _float(item) for item in items]).reshape(array.shape)


def _float(number: Any) -> float:
    """A number of any kind; one that is too large is infinite, and its task is then flagged."""
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def _unmasked(value: Any) -> Any:
    """Numbers or dates, those that are masked as NaN or no date."""
    array = _masked(value)
    if array is None:
        return value
    hidden = np.ma.getmaskarray(array)
    if not hidden.any() or array.dtype.kind not in "fiuMO":  # of other kinds, `as_tensor` says that they are wrong
        return array.data
    filled = array.data.astype(np.float64 if array.dtype.kind in "iu" else array.dtype)
    filled[hidden] = {"M": np.datetime64("NaT"), "O": None}.get(filled.dtype.kind, np.nan)
    return filled


def _masked(value: Any) -> np.ma.MaskedArray | None:
    """A masked array, or a list that has such in it as one; None where nothing can be masked."""
    if isinstance(value, np.ma.MaskedArray):
        return value
    if not isinstance(value, list | tuple) or not any(isinstance(item, list | tuple | np.ndarray) for item in value):
        return None
    parts = [_masked(item) for item in value]
    if all(part is None for part in parts):
        return None
    return np.ma.stack([item if part is None else part for item, part in zip(value, parts, strict=True)])


def where_known(y: Tensor, noise: Any) -> Tensor:
    """The targets, NaN where the known noise is masked."""
    array = _masked(noise)
    return y if array is None else torch.where(torch.from_numpy(np.ma.getmaskarray(array)).to(y.device), torch.nan, y)


def as_points(at: Any, dimensions: int) -> Tensor:
    """New inputs for all tasks as (m, d)."""
    points = as_inputs(at, "x_new").double()
    points = points.reshape(-1, 1) if points.ndim < 2 and dimensions == 1 else points
    if points.ndim != 2 or points.shape[1] != dimensions:
        raise InputError(f"new points have shape {tuple(points.shape)}; give (m, {dimensions})")
    return points
