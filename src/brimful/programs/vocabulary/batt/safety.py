"""Safe operations: an exception inside of one yields the default of its type right there, and nothing else stops.

The operations of a batt call each other as safe operations too, so that a failure deep inside of `mapply` or `corner`
is a default there, and the operation around it goes on with that value. Only `SizeError` passes through: it ends the
whole operation that a program called, since what had been computed by then depends on the order of a set.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ...language.types import Type, safe_default
from ..bound import SizeError
from ..order import ordered

_MISSING: Any = object()


_Function = Callable[..., Any]


def safe(function: _Function, module: str | None = None) -> _Function:
    """The version of an operation that never raises; its number of arguments is still that of its code.

    Args:
        function: an operation with declared types and one to four arguments.
        module: the module in which the safe version has the operation's name, where it is another one.
    """
    default = safe_default(Type(function.__annotations__["return"]))
    call = _FORMS[function.__code__.co_argcount](function, lambda _error, _arguments: default)
    functools.update_wrapper(call, function)
    call.__module__ = module or function.__module__
    return call


def steady(function: _Function) -> _Function:
    """An operation whose exception does not depend on the order of a set: after a failure, that of the canonical order.

    Where sets hold values of several kinds, which of them fails first decides which exception it is.
    """

    def again(error: Exception, arguments: tuple[Any, ...]) -> Any:
        if not any(isinstance(argument, frozenset) for argument in arguments):
            raise error
        return function(*(_Ordered(a) if isinstance(a, frozenset) else a for a in arguments))

    return functools.update_wrapper(_FORMS[function.__code__.co_argcount](function, again), function)


class _Ordered(frozenset):
    """A set that is iterated in the canonical order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(ordered(frozenset(super().__iter__())))


_Failed = Callable[[Exception, tuple[Any, ...]], Any]


def _call(function: _Function, failed: _Failed, arguments: tuple[Any, ...]) -> Any:
    """A call with another number of arguments than the operation has: it fails, unless some are optional."""
    given = tuple(argument for argument in arguments if argument is not _MISSING)
    try:
        return function(*given)
    except SizeError:
        raise
    except Exception as error:
        return failed(error, given)


# The forms of a guarded function by its number of arguments: `rbind` and `lbind` read it from the code, and a call with
# another number fails like any other failure.


def _form1(function: _Function, failed: _Failed) -> _Function:
    def call(a: Any = _MISSING, *rest: Any) -> Any:
        if a is _MISSING or rest:
            return _call(function, failed, (a, *rest))
        try:
            return function(a)
        except SizeError:
            raise
        except Exception as error:
            return failed(error, (a,))

    return call


def _form2(function: _Function, failed: _Failed) -> _Function:
    def call(a: Any = _MISSING, b: Any = _MISSING, *rest: Any) -> Any:
        if b is _MISSING or rest:
            return _call(function, failed, (a, b, *rest))
        try:
            return function(a, b)
        except SizeError:
            raise
        except Exception as error:
            return failed(error, (a, b))

    return call


def _form3(function: _Function, failed: _Failed) -> _Function:
    def call(a: Any = _MISSING, b: Any = _MISSING, c: Any = _MISSING, *rest: Any) -> Any:
        if c is _MISSING or rest:
            return _call(function, failed, (a, b, c, *rest))
        try:
            return function(a, b, c)
        except SizeError:
            raise
        except Exception as error:
            return failed(error, (a, b, c))

    return call


def _form4(function: _Function, failed: _Failed) -> _Function:
    def call(a: Any = _MISSING, b: Any = _MISSING, c: Any = _MISSING, d: Any = _MISSING, *rest: Any) -> Any:
        if d is _MISSING or rest:
            return _call(function, failed, (a, b, c, d, *rest))
        try:
            return function(a, b, c, d)
        except SizeError:
            raise
        except Exception as error:
            return failed(error, (a, b, c, d))

    return call


_FORMS = {1: _form1, 2: _form2, 3: _form3, 4: _form4}
