"""Finding which items of a batch make a function fail."""

from collections.abc import Callable, Sequence


def find_bad(items: Sequence[int], attempt: Callable[[Sequence[int]], Exception | None]) -> dict[int, Exception]:
    """The items that fail, each with its exception, by halving.

    A part that passes holds no bad item and is left alone; a part that fails is halved. With k bad items among
    n this takes about 2 k log2(n/k) attempts, each on at most half of the last.

    Args:
        items: what to search; it is known to fail as a whole.
        attempt: runs the function on some of the items; what it raised, or None.
    """
    if not items:
        return {}
    bad: dict[int, Exception] = {}
    waiting = _halves(items) if len(items) > 1 else [items]
    while waiting:
        part = waiting.pop()
        error = attempt(part)
        if error is None:
            continue
        if len(part) == 1:
            bad[part[0]] = error
        else:
            waiting += _halves(part)
    return bad


def _halves(items: Sequence[int]) -> list[Sequence[int]]:
    middle = len(items) // 2
    return [items[middle:], items[:middle]]
