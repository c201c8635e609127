"""Values of programs as bytes: equal values give equal bytes in every process, and bytes give the value back.

    N  None          T F  True, False        i  an integer         s  a text
    (  a tuple       {    a set, in canonical order                G  a grid: height, width, one byte per color
    d  a float, eight bytes         f  a function, by its name: it cannot be called after decoding

Numbers are variable-length: seven bits per byte, the lowest first, the highest bit says that more follow.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ...core.base.errors import CorruptError
from ..vocabulary.order import ordered


@dataclass(frozen=True)
class FunctionName:
    """A function that was encoded. It has its place in the canonical order by its name, as a function does."""

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "__qualname__", self.name)

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.name} is only the name of a function; run the program to get the function itself")


def encode(value: Any) -> bytes:
    """A value as bytes."""
    out = bytearray()
    _encode(value, out)
    return bytes(out)


def encode_returned(returned: Sequence[tuple[Sequence[Any], Sequence[Any]] | None]) -> bytes:
    """What programs return, outputs and scores as records, or None. The tuples that hold the values are written as
    tuples whatever they hold, so that the bytes around a value do not depend on it."""
    out = bytearray(tuple_header(len(returned)))
    for both in returned:
        if both is None:
            out += b"N"
            continue
        out += tuple_header(2)
        for records in both:
            out += tuple_header(len(records))
            for record in records:
                out += tuple_header(len(record))
                for value in record:
                    _encode(value, out)
    return bytes(out)


def tuple_header(count: int) -> bytes:
    """How a tuple of so many parts begins."""
    out = bytearray(b"(")
    _number(count, out)
    return bytes(out)


def decode(data: bytes | memoryview) -> Any:
    """The value of bytes.

    Raises:
        CorruptError: these are not the bytes of a value.
    """
    data = bytes(data)
    try:
        value, end = _decode(data, 0)
    except (IndexError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptError(f"an encoded value of {len(data)} bytes is damaged: {error!r}; run it again") from error
    if end != len(data):
        raise CorruptError(f"an encoded value of {len(data)} bytes ends at {end}; it is damaged: run it again")
    return value


def _encode(value: Any, out: bytearray) -> None:
    match value:
        case None:
            out += b"N"
        case bool():
            out += b"T" if value else b"F"
        case int():
            out += b"i"
            _number(value << 1 if value >= 0 else (-value << 1) - 1, out)
        case float():
            out += b"d" + struct.pack("<d", value)
        case str():
            _text(b"s", value, out)
        case tuple():
            if (cells := _cells(value)) is not None:
                out += b"G"
                _number(len(value), out)
                _number(len(value[0]), out)
                out += cells
                return
            out += b"("
            _number(len(value), out)
            for part in value:
                _encode(part, out)
        case frozenset():
            out += b"{"
            _number(len(value), out)
            for part in ordered(value):
                _encode(part, out)
        case FunctionName(name=name):
            _text(b"f", name, out)
        case _ if callable(value):
            _text(b"f", getattr(value, "__qualname__", type(value).__name__), out)
        case _:
            raise TypeError(f"a program gave a {type(value).__name__}; operations must give numbers, tuples and sets")


_TUPLES, _WHOLE_NUMBERS = {tuple}, {int}  # True and False are no whole numbers


def _cells(value: tuple[Any, ...]) -> bytes | None:
    """The cells of a rectangle of small whole numbers, which most outputs are; None for anything else."""
    first = value[0] if value else None
    if type(first) is not tuple or not first:
        return None
    if set(map(type, value)) != _TUPLES or len(set(map(len, value))) > 1:
        return None
    cells = tuple(chain.from_iterable(value))
    if set(map(type, cells)) != _WHOLE_NUMBERS:
        return None
    try:
        return bytes(cells)
    except (ValueError, OverflowError):  # a number that is no byte
        return None


def _number(number: int, out: bytearray) -> None:
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _text(tag: bytes, text: str, out: bytearray) -> None:
    data = text.encode()
    out += tag
    _number(len(data), out)
    out += data


def _decode(data: bytes, at: int) -> tuple[Any, int]:
    tag = data[at : at + 1]
    at += 1
    match tag:
        case b"N":
            return None, at
        case b"T" | b"F":
            return tag == b"T", at
        case b"d":
            return struct.unpack("<d", _take(data, at, 8))[0], at + 8
    number, at = _read_number(data, at)
    match tag:
        case b"i":
            return (-(number + 1 >> 1) if number & 1 else number >> 1), at
        case b"s" | b"f":
            text = _take(data, at, number).decode()
            return (text if tag == b"s" else FunctionName(text)), at + number
        case b"G":
            width, at = _read_number(data, at)
            cells = _take(data, at, number * width)
            return tuple(tuple(cells[row * width : (row + 1) * width]) for row in range(number)), at + number * width
        case b"(" | b"{":
            parts = []
            for _ in range(number):
                part, at = _decode(data, at)
                parts.append(part)
            return (tuple(parts) if tag == b"(" else frozenset(parts)), at
    raise IndexError(f"unknown tag {tag!r}")


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def _take(data: bytes, at: int, count: int) -> bytes:
    if at + count > len(data):
        raise IndexError("it ends too early")
    return data[at : at + count]
