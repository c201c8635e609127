"""Operations on integers, booleans and pairs of integers.

A number is an integer or a pair. Two numbers of different kind are combined place by place: the integer with both
places of the pair. Places may hold anything that Python can add or multiply, since programs may pass anything.
"""

from __future__ import annotations

from ..language.types import IJ, Any, Boolean, Integer, Numerical
from .bound import bounded as _fits
from .bound import plus as _plus
from .bound import times as _times


def identity(x: Any) -> Any:
    """The value itself."""
    return x


def add(a: Numerical, b: Numerical) -> Numerical:
    """The sum of two numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return _fits(a + b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return (_plus(a[0], b[0]), _plus(a[1], b[1]))
    if isinstance(a, int) and isinstance(b, tuple):
        return (_plus(a, b[0]), _plus(a, b[1]))
    return (_plus(a[0], b), _plus(a[1], b))  # pyright: ignore[reportIndexIssue]


def subtract(a: Numerical, b: Numerical) -> Numerical:
    """The difference of two numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return _fits(a - b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return (_fits(a[0] - b[0]), _fits(a[1] - b[1]))
    if isinstance(a, int) and isinstance(b, tuple):
        return (_fits(a - b[0]), _fits(a - b[1]))
    return (_fits(a[0] - b), _fits(a[1] - b))  # pyright: ignore[reportIndexIssue]


def multiply(a: Numerical, b: Numerical) -> Numerical:
    """The product of two numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return _fits(a * b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return (_times(a[0], b[0]), _times(a[1], b[1]))
    if isinstance(a, int) and isinstance(b, tuple):
        return (_times(a, b[0]), _times(a, b[1]))
    return (_times(a[0], b), _times(a[1], b))  # pyright: ignore[reportIndexIssue]


def divide(a: Numerical, b: Numerical) -> Numerical:
    """The quotient of two numbers, rounded down."""
    if isinstance(a, int) and isinstance(b, int):
        return _fits(a // b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return (_fits(a[0] // b[0]), _fits(a[1] // b[1]))
    if isinstance(a, int) and isinstance(b, tuple):
        return (_fits(a // b[0]), _fits(a // b[1]))
    return (_fits(a[0] // b), _fits(a[1] // b))  # pyright: ignore[reportIndexIssue]


def invert(n: Numerical) -> Numerical:
    """The number with the other sign."""
    return _fits(-n) if isinstance(n, int) else (_fits(-n[0]), _fits(-n[1]))


def even(n: Integer) -> Boolean:
    """Whether an integer is even."""
    return n % 2 == 0


def double(n: Numerical) -> Numerical:
    """Twice the number."""
    return _fits(n * 2) if isinstance(n, int) else (_times(n[0], 2), _times(n[1], 2))


def halve(n: Numerical) -> Numerical:
    """Half the number, rounded down."""
    return n // 2 if isinstance(n, int) else (n[0] // 2, n[1] // 2)


def flip(b: Boolean) -> Boolean:
    """Logical not."""
    return not b


def equality(a: Any, b: Any) -> Boolean:
    """Whether two values are equal."""
    return a == b


def greater(a: Integer, b: Integer) -> Boolean:
    """Whether the first value is greater than the second."""
    return a > b


def both(a: Boolean, b: Boolean) -> Boolean:
    """Logical and."""
    return a and b


def either(a: Boolean, b: Boolean) -> Boolean:
    """Logical or."""
    return a or b


def increment(x: Numerical) -> Numerical:
    """The number plus one."""
    return _fits(x + 1) if isinstance(x, int) else (_fits(x[0] + 1), _fits(x[1] + 1))


def decrement(x: Numerical) -> Numerical:
    """The number minus one."""
    return _fits(x - 1) if isinstance(x, int) else (_fits(x[0] - 1), _fits(x[1] - 1))


def crement(x: Numerical) -> Numerical:
    """The number one farther from zero; zero stays."""
    return _away(x) if isinstance(x, int) else (_away(x[0]), _away(x[1]))


def sign(x: Numerical) -> Numerical:
    """-1, 0 or 1, by the sign of the number."""
    return _sign(x) if isinstance(x, int) else (_sign(x[0]), _sign(x[1]))


def positive(x: Integer) -> Boolean:
    """Whether an integer is greater than zero."""
    return x > 0


def toivec(i: Integer) -> IJ:
    """A vertical vector."""
    return (i, 0)


def tojvec(j: Integer) -> IJ:
    """A horizontal vector."""
    return (0, j)


def astuple(a: Integer, b: Integer) -> IJ:
    """The pair of two values."""
    return (a, b)


def branch(condition: Boolean, a: Any, b: Any) -> Any:
    """The first value where the condition holds, the second elsewhere."""
    return a if condition else b


def _away(x: Integer) -> Integer:
    return 0 if x == 0 else _fits(x + 1) if x > 0 else _fits(x - 1)


def _sign(x: Integer) -> Integer:
    return 0 if x == 0 else 1 if x > 0 else -1
