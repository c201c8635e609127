"""What a caller gave, checked before it is used: a wrong type is answered with what belongs there."""

import os
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from .errors import ConfigError, InputError

if TYPE_CHECKING:
    from torch import Tensor

_SHOWN = 60  # characters of a value in a message


def as_path(value: Any, wanted: str) -> Path:
    """A path.

    Args:
        wanted: what to give instead, such as "give the folder of a fit".

    Example:
        >>> as_path(3, "give the folder of a fit")
        Traceback (most recent call last):
        brimful.core.base.errors.InputError: 3 is of type int, and no path; give the folder of a fit
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise InputError(f"{shown(value)} is of type {type(value).__name__}, and no path; {wanted}")
    if "\0" in os.fspath(value):
        raise InputError(f"{shown(value)} holds a null character, which no path may; {wanted}")
    return Path(value)


def as_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number that is large enough, as Python and numpy have them."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or getattr(value, "ndim", 0):
        raise ConfigError(f"{name} is {shown(value)}; give a whole number from {least} on")
    try:
        count = value.__index__()
    except TypeError as error:  # a tensor or array of another type
        raise ConfigError(f"{name} is {shown(value)}; give a whole number from {least} on") from error
    if count < least:
        raise ConfigError(f"{name} is {count}; give a whole number from {least} on")
    return count


def check_type(value: Any, kind: type | tuple[type, ...], wanted: str) -> None:
    """Raises where a value is of none of these types.

    Args:
        wanted: what to give instead, such as "give what gp.fit or gp.load returned".
    """
    if not isinstance(value, kind):
        raise InputError(f"{shown(value)} is of type {type(value).__name__}; {wanted}")


def shown(value: Any) -> str:
    """A value as it is written in a message, on one line and not too long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a repr of the caller's own may fail
        text = object.__repr__(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def as_numbers(value: Any, name: str, axes: str) -> "Tensor":
    """A tensor of real numbers, of a tensor, an array or lists.

    Args:
        axes: its shape, as a message writes it: "(rows, d)" for two axes.
    """
    import torch  # not needed for paths

    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name} cannot be read as numbers: {error}; give an array of shape {axes}") from error
    if tensor.ndim != axes.count(",") + 1 - axes.count(",)") or tensor.is_complex():
        raise InputError(f"{name} have shape {tuple(tensor.shape)} and type {tensor.dtype}; give numbers, {axes}")
    return tensor


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuses an option that is not a whole number in its range."""
    good = issubclass(type(value), Integral) and type(value) is not bool
    if not good or value < least or (most is not None and value > most):
        span = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} is {value!r}; give a whole number, {span}")
