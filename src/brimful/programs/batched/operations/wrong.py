"""Arguments of forms that an operation is not for: whether it fails, and how, the forms and small sizes decide.

`paint(grid, 3)` raises a TypeError whatever the grid, and `shoot((), pair)` an IndexError. So the operation runs once
for every class of rows: rows whose arguments have the same forms, and the same sizes as far as Python's unpacking and
indexing can tell them apart. Where it fails, it fails for the whole class; where it does not, the rows of the class run
one by one. That holds for the operations listed here, and for all arguments but those listed with them, for which the
content decides too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category, category_of
from ...language.operation import Operation
from ...vocabulary import bound
from ..columns import Cells, Column, Grids, Ints, Lists, Pairs, Patches, PatchKind, Tuples
from ..flags import Step
from ..kernels import meaning
from ..rows import indices_of, select

_LARGE = 1 << 18  # elements, from which on the bound on size may decide
_SIZES = 4  # 0, 1, 2, and all others
_MOST = 64  # classes of one call; more where they are few beside its rows
_BY_CONTENT = {Category.SIZE, Category.OVERFLOW, Category.RECURSION, Category.OTHER}

_ANYTHING = (
    "rot90 rot180 rot270 trim tophalf bottomhalf lefthalf righthalf hconcat vconcat hsplit replace switch hupscale "
    "vupscale upscale hmirror vmirror dmirror cmirror uppermost lowermost leftmost rightmost ulcorner urcorner "
    "llcorner lrcorner corners height width shape portrait square vline hline center centerofmass toindices recolor "
    "shift normalize dneighbors ineighbors neighbors connect shoot vfrontier hfrontier backdrop delta inbox outbox box "
    "hmatching vmatching manhattan adjacent position gravitate rapply add subtract multiply invert double halve "
    "increment decrement crement sign even positive color mostcolor leastcolor palette numcolors colorcount asindices "
    "ofcolor"
)
_NO_LISTS = "downscale vsplit fill underfill paint underpaint cover move toobject"
_NO_CELLS = "canvas index"


def _unfit(names: str, *kinds: type[Column]) -> dict[str, tuple[tuple[type[Column], ...], ...]]:
    return dict.fromkeys(names.split(), (kinds,))


_DECIDED = {
    **_unfit(_ANYTHING),
    **_unfit(_NO_LISTS, Lists),
    **_unfit(_NO_CELLS, Lists, Cells),
    **_unfit("divide", Lists, Cells, Pairs),
    "crop": ((Lists, Pairs, Cells), (Lists,)),
    **dict.fromkeys(["hperiod", "vperiod"], ((Lists, Patches, Grids, Tuples),)),
    "bordering": ((Lists, Patches, Grids, Tuples), (Lists,)),
    **dict.fromkeys(["fill", "underfill", "paint", "underpaint", "cover", "move"], ((Lists,), ())),
}
"""By operation, for its first and for all other arguments, the columns whose content decides."""

_TUPLES_TOO = frozenset(["shift", "fill", "underfill", "paint", "underpaint", "cover", "move"])
"""Operations that do not compare what is in a tuple: also of tuples of several forms only the classes decide."""

_UNPACKED = frozenset(["paint", "underpaint", "fill", "underfill", "cover", "move"])
"""Operations that unpack each element into two parts, and the second again, and compare what comes of it with the size
of the grid: where an element has just two parts, as a cell and an object of two cells do, the content decides."""

_AS_CELLS = frozenset(["backdrop", "delta", "vline", "hline"])
"""Operations that take elements of two such parts for cells, and the second part for a location, with an extent."""


def classes(column: Column, tuples: bool = False) -> Tensor | None:
    """A number for every row that rows of one class share; -1 where a row is of no class; None for a column that is of
    none, as tuples of several forms are unless `tuples` says otherwise."""
    match column:
        case Ints(values=values):
            return values.clamp(-1, 2) + 1
        case Pairs(first=numbers) | Cells(keys=numbers):
            return torch.zeros_like(numbers)
        case Grids():
            sizes = column.height.clamp(max=_SIZES - 1) * _SIZES + column.width.clamp(max=_SIZES - 1)
            return select(torch.maximum(column.offsets.diff(), column.height) > _LARGE, -1, sizes)
        case Patches():
            return select(column.sizes > _LARGE, -1, column.sizes.clamp(max=_SIZES - 1))
        case Lists():
            return _list_classes(column, tuples)
        case Tuples(places=places) if tuples:
            parts = [_inside(place, True) for place in places]
            return None if any(part is None for part in parts) else _combined(parts)  # pyright: ignore
    return None


def _inside(column: Column, tuples: bool) -> Tensor | None:
    """The classes of what is in a tuple or a set."""
    if tuples and isinstance(column, Ints):
        return torch.zeros_like(column.values)
    return classes(column, tuples)


def _pairs_inside(column: Column) -> Tensor | bool:
    """In which rows of a list or a tuple an element has just two parts that are not both numbers."""
    match column:
        case Lists(elements=elements):
            two = _two_parts(elements)
            if isinstance(two, bool):
                return two
            return torch.zeros_like(column.sizes).index_add(0, column.owner(), two.to(torch.int64)) > 0
        case Tuples(places=places):
            found: Tensor | bool = False
            for place in places:
                found = _two_parts(place) | found
            return found
    return False


def _two_parts(column: Column) -> Tensor | bool:
    match column:
        case Cells():
            return True
        case Patches(kind=PatchKind.OBJECT):
            return column.sizes == 2
        case Lists():
            return column.sizes == 2
        case Tuples(places=places):
            return len(places) == 2
    return False


def _combined(parts: list[Tensor]) -> Tensor:
    """The class of several values together: -1 where one of them is of none."""
    codes, *others = parts
    for part in others:
        _, own = torch.cat([part, part.new_full((1,), -1)]).unique(return_inverse=True)  # 0 is that of no class
        codes = select((codes < 0) | (own[:-1] == 0), -1, codes * (int(own.max()) + 1) + own[:-1])
    return codes


def _list_classes(lists: Lists, tuples: bool) -> Tensor | None:
    """Lists are of one class where all of their elements are."""
    elements = _inside(lists.elements, tuples)
    if elements is None:
        return None
    first = lists.sizes.new_zeros(lists.rows)
    filled = lists.sizes > 0
    first[filled] = elements[lists.offsets[:-1][filled]]
    owner = lists.owner()
    differs = torch.zeros_like(first).index_add(0, owner, (elements != first[owner]).to(torch.int64)) > 0
    codes = (first + 1) * _SIZES + lists.sizes.clamp(max=_SIZES - 1)
    return select(differs | (first < 0) | (lists.sizes > _LARGE), -1, codes)


def decided(operation: Operation, args: Sequence[Any], alive: Tensor) -> Tensor | None:
    """How an operation fails, by row, as far as the number and the classes of its arguments decide that: 0 for the
    other rows."""
    if len(args) != len(operation.arguments):
        wrong = not _takes(operation.function, len(args))
        return select(alive, int(Category.TYPE), 0).to(torch.int8) if wrong else None
    content = _DECIDED.get(meaning(operation) or "")
    if content is None or not args or not _all_steps(args):
        return None
    tuples, parts = meaning(operation) in _TUPLES_TOO, list[Tensor]()
    for number, arg in enumerate(args):
        own = None if isinstance(arg.column, content[min(number, len(content) - 1)]) else classes(arg.column, tuples)
        if own is None:
            return None
        if meaning(operation) in (_UNPACKED if number else _AS_CELLS):
            unclear = _pairs_inside(arg.column)
            own = select(unclear, -1, own) if isinstance(unclear, Tensor) else own.clamp(max=-1) if unclear else own
        if not isinstance(arg.column, Pairs | Cells) or (number == len(args) - 1 and not parts):  # of one class
            parts.append(own)
    # Few numbers, looked at in many small steps: the host is quicker than a GPU.
    *parts, alive_there = torch.stack([*parts, alive.to(torch.int64)]).cpu()
    codes, device, alive = _combined(parts), alive.device, alive_there != 0
    rows = indices_of(alive & (codes >= 0))
    distinct, inverse = codes[rows].unique(return_inverse=True)
    if not 0 < len(distinct) <= max(_MOST, len(rows) // 4):
        return None
    examples = torch.full_like(distinct, len(alive)).scatter_reduce(0, inverse, rows, "amin").tolist()
    outcomes = _outcomes(operation.function, [arg.decode(examples) for arg in args])
    if not any(outcomes):
        return None
    failed = torch.zeros(len(alive), dtype=torch.int8)
    failed[rows] = torch.tensor(outcomes, dtype=torch.int8)[inverse]
    return failed.to(device, non_blocking=True)


@cache
def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # one that is not written in Python
        return True
    return True


def _all_steps(args: Sequence[Any]) -> bool:
    return all(isinstance(arg, Step) for arg in args)


def _outcomes(function: Callable[..., Any], columns: list[list[Any]]) -> list[int]:
    """How a function fails for every row; 0 where it does not, or where the content decides."""
    outcomes = []
    for given in zip(*columns, strict=True):
        bound.begin()
        try:
            function(*given)
            outcomes.append(0)
        except MemoryError:
            raise
        except Exception as error:
            category = category_of(error)
            outcomes.append(0 if category in _BY_CONTENT else int(category))
    bound.end()
    return outcomes
