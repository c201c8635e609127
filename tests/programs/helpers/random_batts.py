"""Batts of random calls in the vocabulary of their generator: mostly of the types that operations ask for."""

import random
from collections import defaultdict

from brimful.programs.language.types import Type
from brimful.programs.vocabulary.batt import BATT

from .words import batt, guarded

_PARTS = {
    Type.PATCH: (Type.PATCH, Type.OBJECT, Type.INDICES),
    Type.PIECE: (Type.PIECE, Type.GRID, Type.OBJECT, Type.INDICES),
    Type.ELEMENT: (Type.ELEMENT, Type.GRID, Type.OBJECT),
    Type.NUMERICAL: (Type.NUMERICAL, Type.INTEGER, Type.IJ),
    Type.OBJECTS: (Type.OBJECTS, Type.FROZENSET, Type.CONTAINER),
    Type.TUPLE: (Type.TUPLE, Type.GRID, Type.TUPLE_TUPLE),
    Type.FROZENSET: (Type.FROZENSET, Type.OBJECTS, Type.OBJECT, Type.INDICES),
    Type.CONTAINER: (Type.CONTAINER, Type.OBJECTS, Type.TUPLE, Type.FROZENSET, Type.INTEGER_SET, Type.GRID),
    Type.CONTAINER_CONTAINER: (Type.OBJECTS, Type.TUPLE, Type.GRID),
}
"""What else fits where a type is asked for."""

_NUMBERS = ("ZERO", "ONE", "TWO", "THREE", "FIVE", "F0", "F1", "L1", "R0", "R5", "R7", "BLACK", "RED")
_CALLED = (
    "size",
    "color",
    "height_f",
    "toindices",
    "normalize",
    "p_g",
    "first_f",
    "mostcolor_t",
    "identity",
    "width_t",
)
_CAUGHT = "(TypeError, AttributeError, ValueError, IndexError, KeyError)"


def random_batt(operations: int, seed: int) -> str:
    """The text of a batt of so many operations."""
    rng, names = random.Random(seed), sorted(BATT)
    by_type: dict[Type, list[str]] = defaultdict(list)
    by_type[Type.GRID] += ["I", "C", "I"]
    by_type[Type.SAMPLES] += ["S"]
    by_type[Type.IJ] += ["UNITY", "DOWN", "ORIGIN"]
    by_type[Type.BOOLEAN] += ["T", "F"]
    every, lines = ["I", "C", "S", "UNITY", *_NUMBERS], list[str]()

    def argument(kind: Type) -> str:
        if rng.random() < 0.06:
            return rng.choice(every)
        if kind is Type.CALLABLE:
            return rng.choice([*_CALLED, *by_type[kind]])
        fitting = [name for part in _PARTS.get(kind, (kind,)) for name in by_type[part]]
        if kind is Type.INTEGER:
            fitting += _NUMBERS
        return rng.choice(fitting or every)

    for number in range(operations):
        target, name = f"t{number + 1}", rng.choice(names)
        arguments = ", ".join(argument(kind) for kind in BATT[name].arguments)
        lines += guarded(target, f"{name}({arguments})", name, _CAUGHT)
        lines.append(f"o.append(({number}, False, 'x', {target}))")
        by_type[BATT[name].result].append(target)
        every.append(target)
    return batt(*lines)
