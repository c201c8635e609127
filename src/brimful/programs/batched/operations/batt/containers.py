"""Elements of containers as a batt chooses them: first, last, at a rank, by a function, those that satisfy one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...columns import NAN, Cells, Column, Ints, Lists, Patches, Tuples
from ...convert import blank_like, joined, truth
from ...kernels import KERNELS, Computed, batched
from ...others import Others, Part
from ...rows import indices_of, offsets_of, select
from ...segments import canonical, sort_keys, sorted_rows, totals
from ..elements import as_container, as_list, comparable
from ..mapping import Mapped, mapped, merged
from .views import is_tuple, plain


def _as(*names: str, arc: str) -> None:
    """Registers arc-dsl's kernel as that of operations which differ from it in what failures give."""
    known = KERNELS[arc]

    def kernel(machine: Any, *columns: Any) -> Computed | None:
        return plain(known(machine, *columns))

    batched(*(f"batt.{name}" for name in names))(kernel)


_as("first", "first_f", arc="first")
_as("last", "last_f", arc="last")
_as("difference_tuple", arc="difference")
_as("extract", arc="extract")
_as("mfilter", arc="mfilter")
_as("mpapply", arc="mpapply")
_as("remove_f", arc="remove")
_as("other", "other_t", "other_f", arc="other")


def _only_tuples(name: str, arc: str) -> None:
    """Registers arc-dsl's kernel as that of an operation of tuples."""
    known = KERNELS[arc]

    @batched(f"batt.{name}")
    def kernel(machine: Any, container: Column) -> Computed | None:
        return plain(known(machine, container)) if isinstance(container, Column) and is_list(container) else None


def is_list(column: Column) -> bool:
    """Whether values are tuples, whatever is in them."""
    return is_tuple(column) or isinstance(column, Cells | Tuples)


_only_tuples("first_t", "first")
_only_tuples("last_t", "last")


def _element(column: Column, rank: Ints) -> Computed | None:
    """The element of every row at a rank, from the front or, where that is negative, from the back."""
    if isinstance(column, Cells | Tuples):
        present = rank.values.unique().tolist()
        if len(present) != 1 or not (
            isinstance(column, Tuples) and -len(column.places) <= present[0] < len(column.places)
        ):
            return None
        return Computed(column.places[present[0]])
    lists = as_list(column)
    if lists is None:
        return None
    at = torch.where(rank.values < 0, rank.values + lists.sizes, rank.values)
    none = (at < 0) | (at >= lists.sizes)
    if not bool(none.any()):
        return Computed(lists.elements.take(lists.offsets[:-1] + at))
    index = torch.where(none, lists.elements.rows, lists.offsets[:-1] + at)
    return Computed(joined(lists.elements, blank_like(lists.elements)).take(index), None, none)


@batched("batt.get_nth_t")
def get_nth_t(machine: Any, container: Column, rank: Column) -> Computed | None:
    if isinstance(container, Ints | Patches) or (isinstance(container, Lists) and container.unordered):
        machine.nan = True
        return Computed(Ints(torch.full((container.rows,), NAN, device=machine.device)))  # of what is no tuple
    if not isinstance(rank, Ints) or not isinstance(container, Column) or not is_list(container):
        return None
    chosen = _element(container, rank)
    if chosen is None or (none := chosen.sequential) is None or not bool(none.any()):
        return plain(chosen)
    # where there is no such element, it gives NaN
    machine.nan = True
    if isinstance(chosen.column, Ints) and not chosen.column.boolean:
        return Computed(Ints(select(none, NAN, chosen.column.values)))
    rows = indices_of(none)
    return Computed(chosen.column, boxed=Others([Part(rows, Ints(torch.full_like(rows, NAN)))]))


@batched("batt.get_nth_f")
def get_nth_f(machine: Any, container: Column, rank: Column) -> Computed | None:
    if not isinstance(rank, Ints) or not isinstance(container, Column):
        return None
    chosen = _element(container, rank)
    if chosen is None or not isinstance(chosen.column, Patches | Lists) or is_tuple(chosen.column):
        return plain(chosen)
    return Computed(chosen.column)  # where there is none, the empty set is what it gives


def _mapped(machine: Any, function: Any, lists: Lists, compared: bool = False) -> Mapped | None:
    return mapped(machine, function, lists.offsets, lists.elements, counted=False, compared=compared)


def _kept(machine: Any, container: Column, condition: Any) -> tuple[Lists, Tensor, Mapped] | None:
    """The elements of containers, and which of them satisfy a condition."""
    lists = as_list(container)
    result = None if lists is None else _mapped(machine, condition, lists)
    keep = None if result is None else truth(result.step.column)
    return None if lists is None or result is None or keep is None else (lists, keep, result)


def _filtered(machine: Any, container: Any, condition: Any, unordered: bool) -> Computed | None:
    if isinstance(container, Ints) or not isinstance(container, Column):
        return None
    found = _kept(machine, container, condition)
    if found is None:
        return None
    lists, keep, result = found
    offsets = offsets_of(totals(keep.to(torch.int64), lists.offsets))
    kept = Lists(lists.elements.take(indices_of(keep)), offsets, unordered)
    return plain(result.computed(as_container(kept)))


@batched("batt.sfilter_f", "batt.mfilter_t")
def sfilter_f(machine: Any, container: Any, condition: Any) -> Computed | None:
    return _filtered(machine, container, condition, True)


@batched("batt.sfilter_t")
def sfilter_t(machine: Any, container: Any, condition: Any) -> Computed | None:
    return _filtered(machine, container, condition, False)


def _applied(machine: Any, function: Any, container: Any, compared: bool = False) -> tuple[Lists, Mapped] | None:
    """A function of all elements of containers."""
    if isinstance(container, Ints) or not isinstance(container, Column):
        return None
    lists = as_list(container)
    result = None if lists is None else _mapped(machine, function, lists, compared)
    return None if lists is None or result is None else (lists, result)


@batched("batt.apply_t")
def apply_t(machine: Any, function: Any, container: Any) -> Computed | None:
    found = _applied(machine, function, container)
    if found is None:
        return None
    lists, result = found
    return plain(result.computed(as_container(Lists(result.step.column, lists.offsets, False))))


@batched("batt.apply_f")
def apply_f(machine: Any, function: Any, container: Any) -> Computed | None:
    found = _applied(machine, function, container)
    if found is None:
        return None
    lists, result = found
    return plain(result.computed(as_container(Lists(result.step.column, lists.offsets, lists.unordered))))


def _united(
    machine: Any, function: Any, container: Any, unordered: bool | None, distinct: bool = True
) -> Computed | None:
    """A function of all elements of containers, merged.

    Args:
        unordered: whether the result is a set; by default what the container is.
        distinct: whether values of a set that are equal are merged, and reserved, once.
    """
    found = _applied(machine, function, container)
    if found is None:
        return None
    lists, result = found
    inner = Lists(result.step.column, lists.offsets, lists.unordered if unordered is None else unordered)
    if inner.unordered and distinct:
        values = canonical(inner)
        if values is None or (inner := as_list(values)) is None:
            return None
    union = merged(machine, inner)
    if union is None:
        return None
    known = result.reserved if union.reserved is None else result.reserved + union.reserved
    return plain(Computed(union.column, union.failed, result.sequential, known), _flags(result.failed))


def _flags(failed: Tensor | None) -> Tensor | None:
    return None if failed is None else failed != 0


@batched("batt.mapply_t")
def mapply_t(machine: Any, function: Any, container: Any) -> Computed | None:
    return _united(machine, function, container, False)


@batched("batt.mapply_f")
def mapply_f(machine: Any, function: Any, container: Any) -> Computed | None:
    return _united(machine, function, container, None)


@batched("batt.mapply")
def mapply(machine: Any, function: Any, container: Any) -> Computed | None:
    if isinstance(container, Column) and is_list(container):
        return plain(KERNELS["mapply"](machine, function, container))
    return _united(machine, function, container, True, distinct=False)


@batched("batt.remove_t")
def remove_t(machine: Any, value: Any, container: Column) -> Computed | None:
    kept = KERNELS["remove"](machine, value, container)
    if kept is None or not isinstance(container, Column):
        return None
    return plain(kept, column=None if is_list(container) else _as_tuple(kept.column))


def _as_tuple(column: Column) -> Column | None:
    """Sets as tuples, in canonical order."""
    lists = as_list(column)
    return None if lists is None else as_container(Lists(lists.elements, lists.offsets, False))


@batched("batt.combine_t")
def combine_t(machine: Any, a: Any, b: Any) -> Computed | None:
    if isinstance(a, Ints) and isinstance(b, Ints) and not a.boolean and not b.boolean:
        return plain(KERNELS["add"](machine, a, b))
    if not (isinstance(a, Column) and isinstance(b, Column) and is_list(a) and is_list(b)):
        return None
    return plain(KERNELS["combine"](machine, a, b))


def _is_set(column: Any) -> bool:
    return isinstance(column, Patches) or (isinstance(column, Lists) and column.unordered)


@batched("batt.combine_f")
def combine_f(machine: Any, a: Any, b: Any) -> Computed | None:
    if not (_is_set(a) and _is_set(b)):
        return None
    union = KERNELS["combine"](machine, a, b)
    return None if union is None else plain(Computed(union.column, union.failed, union.sequential))


@batched("batt.get_arg_rank", "batt.get_arg_rank_t", "batt.get_arg_rank_f")
def get_arg_rank(machine: Any, container: Any, function: Any, rank: Any) -> Computed | None:
    return _by_key(machine, container, function, rank)


def _by_key(machine: Any, container: Any, function: Any, rank: Any) -> Computed | None:
    """The element at a rank by a function of it, the largest first, ties in canonical order."""
    found = _applied(machine, function, container, compared=True)
    if found is None or not isinstance(rank, Ints) or not comparable(found[1].step.column):
        return None
    lists, result = found
    keys = sort_keys(result.step.column, lists.offsets)
    if keys is None:
        return None
    order = sorted_rows(-keys, lists.owner())
    chosen = _element(Lists(lists.elements.take(order), lists.offsets, False), rank)
    return None if chosen is None else plain(chosen, result.sequential, _flags(result.failed))


@batched("batt.get_rank")
def get_rank(machine: Any, container: Any, rank: Any) -> Computed | None:
    lists = as_list(container) if isinstance(container, Column) else None
    if lists is None or not isinstance(rank, Ints) or not isinstance(lists.elements, Ints):
        return None
    order = sorted_rows(-lists.elements.values, lists.owner())
    return plain(_element(Lists(lists.elements.take(order), lists.offsets, False), rank))
