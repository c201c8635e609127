"""What went wrong: which operation failed, for which sample, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..vocabulary.bound import SizeError


class Category(IntEnum):
    """The kind of a failure, by the exception that the operation raised."""

    NONE = 0
    OTHER = 1
    TYPE = 2
    VALUE = 3
    INDEX = 4
    KEY = 5
    ATTRIBUTE = 6
    STOP_ITERATION = 7
    ZERO_DIVISION = 8
    RECURSION = 9
    OVERFLOW = 10
    SIZE = 11
    """A value, or the work for it, beyond the bound on size."""

    @property
    def label(self) -> str:
        """How tables and summaries call it: the exception's name."""
        return _LABELS[self]


_BY_KIND: tuple[tuple[type[Exception], Category], ...] = (
    (SizeError, Category.SIZE),
    (TypeError, Category.TYPE),
    (IndexError, Category.INDEX),
    (KeyError, Category.KEY),
    (AttributeError, Category.ATTRIBUTE),
    (StopIteration, Category.STOP_ITERATION),
    (ZeroDivisionError, Category.ZERO_DIVISION),
    (RecursionError, Category.RECURSION),
    (OverflowError, Category.OVERFLOW),
    (ValueError, Category.VALUE),
)
_LABELS = {category: kind.__name__ for kind, category in _BY_KIND} | {Category.NONE: "", Category.OTHER: "other"}


def category_of(error: BaseException) -> Category:
    """The category of an exception."""
    return next((category for kind, category in _BY_KIND if isinstance(error, kind)), Category.OTHER)


class ProgramStatus(IntEnum):
    """What became of a program on a sample."""

    OK = 0
    DEFAULTED = 1
    """An operation failed, and its default was used."""
    FAILED = 2
    """The program ended at an operation that failed."""
    NOT_RUN = 3
    """The program was not meant for this sample."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An operation that failed on a sample.

    Attributes:
        node: of the graph.
        error: what it raised.
        escaped: whether it ended the program, and gave no default.
    """

    node: int
    error: Exception
    escaped: bool

    @property
    def category(self) -> Category:
        return category_of(self.error)
