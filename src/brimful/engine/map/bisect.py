"""Finding which items of a batch make a function fail."""

from collections.abc import Callable, Sequence


def find_bad(items: Sequence[int], attempt: Callable[[Sequence[int]], object]) -> dict[int, Exception]:
    """The items that fail, each with its exception, by halving.

    A part that passes holds no bad item and is left alone; a part that fails is halved. With k bad items among
    n this takes about 2 k log2(n/k) attempts, each on at most half of the last.

    Args:
        items: what to search; it is known to fail as a whole.
        attempt: runs the function on some of the items, and gives what it returned, or the exception that it raised.
    """
    bad: dict[int, Exception] = {}
    waiting = [items] if len(items) == 1 else _halves(items)
    while waiting:
        part = waiting.pop()
        outcome = attempt(part) if part else None
        if isinstance(outcome, Exception) and len(part) == 1:
            bad[part[0]] = outcome
        elif isinstance(outcome, Exception):
            waiting += _halves(part)
    return bad


def _halves(items: Sequence[int]) -> list[Sequence[int]]:
    middle = len(items) // 2
    return [items[middle:], items[:middle]]
