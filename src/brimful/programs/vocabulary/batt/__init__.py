"""The vocabulary of the generator of batts: cells are (i, j, color), and every operation is safe.

Overloads end in the type that they are for: _t tuples and grids, _f frozensets, _o objects, _i indices. What has the
same meaning in arc-dsl is its function, in a safe version (`shared`).
"""

from __future__ import annotations

from types import ModuleType

from ...language.operation import Operation, Vocabulary, declared
from . import (
    colors,
    containers,
    extents,
    grids,
    objects,
    painting,
    ranks,
    regions,
    relations,
    samples,
    scalars,
    shared,
    sizes,
    transforms,
)
from .constants import CONSTANTS
from .safety import steady

__all__ = ["BATT"]


def _operations(*modules: ModuleType) -> dict[str, Operation]:
    """The safe operations that modules define, by all of their names."""
    found: dict[str, Operation] = {}
    for module in modules:
        for name, value in vars(module).items():
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__:
                raw = getattr(value, "__wrapped__", None)
                if raw is not None:
                    form = declared(raw, name)
                    found[name] = Operation(name, steady(raw), form.arguments, form.result, value)
    return found


BATT = Vocabulary(
    name="batt",
    operations=_operations(
        shared,
        scalars,
        containers,
        ranks,
        extents,
        sizes,
        regions,
        transforms,
        relations,
        grids,
        colors,
        painting,
        objects,
        samples,
    ),
    constants=CONSTANTS,
    safe=True,
)
