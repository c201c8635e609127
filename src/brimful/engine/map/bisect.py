"""Finding which items of a batch make a function fail."""

from collections.abc import Callable, Sequence

Attempt = Callable[[Sequence[int]], object]
"""Runs the function on some of the items, and gives what it returned, or the exception that it raised."""


def find_first(items: Sequence[int], attempt: Attempt, error: BaseException) -> tuple[int, BaseException] | None:
    """The index of the first item that fails alone, and its exception; None where the items only fail together.

    Of each half that is in doubt only the first is run, so that all attempts together run as many items as there are.

    Args:
        items: what to search; together they fail, with that error.
    """
    start, stop = 0, len(items)
    known: BaseException | None = error  # of items[start:stop], where they were run as they are
    while stop - start > 1:
        middle = (start + stop) // 2
        outcome = attempt(items[start:middle])
        if isinstance(outcome, BaseException):
            stop, known = middle, outcome
        else:
            start, known = middle, None
    outcome = attempt([items[start]]) if known is None else known
    return (start, outcome) if isinstance(outcome, BaseException) else None


def find_bad(items: Sequence[int], attempt: Attempt, group: int) -> tuple[dict[int, BaseException], bool]:
    """The items that fail, each with its exception, and whether all others pass in the groups they were run in.

    Groups grow while they pass, and shrink to what the share of bad items suggests: with one bad item in n this takes
    about 2 log2(n) attempts, and where half are bad, about one per item.

    Args:
        items: what to search.
        group: items in the first group.
    """
    bad: dict[int, BaseException] = {}
    position, separable = 0, True
    while position < len(items):
        part = items[position : position + max(1, group)]
        outcome = attempt(part)
        if not isinstance(outcome, BaseException):
            position += len(part)
            group = min(2 * len(part), group_size(len(bad), position))
            continue
        first = find_first(part, attempt, outcome)
        if first is None:  # they fail together, and not alone
            position, separable = position + len(part), False
            continue
        index, bad[part[first[0]]] = first[0], first[1]
        position += index + 1
        group = group_size(len(bad), position)
    return bad, separable


def group_size(bad: int, seen: int) -> int:
    """How many items to run together where so many of those seen were bad: a group then passes every other time."""
    return max(1, int(0.7 * seen / bad)) if bad else 1 << 30


def find_exhausting(items: Sequence[int], attempt: Attempt) -> int | None:
    """The one item that runs out of memory; None where it is the size of the batch, so that both halves pass or both
    fail."""
    while len(items) > 1:
        halves = items[: len(items) // 2], items[len(items) // 2 :]
        first, second = (isinstance(attempt(half), BaseException) for half in halves)
        if first == second:
            return None
        items = halves[second]
    return items[0]
