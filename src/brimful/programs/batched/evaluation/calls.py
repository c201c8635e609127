"""Calls of values that a batch knows only as values, and the unpacking of tuples, as operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...execution.sequential import unpacked
from ...language.operation import Operation, declared
from ...language.program import Kind, Node
from ..columns import Tuples
from ..kernels import Computed


def operation_of(node: Node) -> Operation:
    """A call of a value, without a batched form, or the unpacking of one, as an operation."""
    if node.kind is Kind.ITEM:
        index, count = node.value
        operation = declared(lambda whole: unpacked(whole, index, count), "unpacking")
        return replace(operation, batched=lambda machine, whole: _place(whole, index, count))
    names = {0: _call0, 1: _call1, 2: _call2, 3: _call3, 4: _call4}
    return declared(names[len(node.args) - 1], "a function value")


def _place(whole: Any, index: int, count: int) -> Computed | None:
    """One part of tuples of so many."""
    return Computed(whole.places[index]) if isinstance(whole, Tuples) and len(whole.places) == count else None


def _call0(function: Any) -> Any:
    return function()


def _call1(function: Any, a: Any) -> Any:
    return function(a)


def _call2(function: Any, a: Any, b: Any) -> Any:
    return function(a, b)


def _call3(function: Any, a: Any, b: Any, c: Any) -> Any:
    return function(a, b, c)


def _call4(function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return function(a, b, c, d)
