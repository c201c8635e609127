"""Checks of what is given as rows of numbers."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...core.base.errors import InputError


def check_rows(rows: Any, name: str, columns: int | None = None) -> Float[Tensor, "N d"]:
    """Rows of finite numbers as float32 or float64, with as many columns as the centers where these are given.

    Raises:
        InputError: they are anything else; the first row that is not finite is named.
    """
    try:
        tensor = torch.as_tensor(rows)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as numbers: {error}; give an array of shape (rows, d)") from error
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise InputError(f"{name} have the shape {tuple(tensor.shape)}; give (rows, d), at least one row and column")
    if columns is not None and tensor.shape[1] != columns:
        raise InputError(f"{name} have {tensor.shape[1]} columns and the centers {columns}; give as many")
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise InputError(f"{name} are {tensor.dtype}; give real numbers")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    bad = torch.nonzero(~tensor.isfinite().all(1)).flatten()
    if len(bad):
        raise InputError(
            f"{name} have {len(bad)} row(s) with NaN or infinity, the first is row {int(bad[0])}; leave these out"
        )
    return tensor.detach()
