"""Finding which items of a batch make a function fail."""

from collections.abc import Callable, Sequence


def find_bad(items: Sequence[int], attempt: Callable[[Sequence[int]], object]) -> dict[int, Exception]:
    """The items that fail, each with its exception, by halving.

    A half that passes holds no bad item and is left alone; a half that fails is halved again. With k bad items among
    n this takes about 2 k log2(n/k) attempts, each on at most half of the last.

    Args:
        items: what to search; it is known to fail as a whole.
        attempt: runs the function on some of the items, and gives what it returned, or the exception that it raised.
    """
    bad: dict[int, Exception] = {}
    middle = len(items) // 2
    for half in (items[:middle], items[middle:]):
        outcome = attempt(half) if half else None
        if isinstance(outcome, Exception):
            bad |= {half[0]: outcome} if len(half) == 1 else find_bad(half, attempt)
    return bad
