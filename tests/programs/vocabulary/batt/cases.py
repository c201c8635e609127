"""What operations of a batt give, as text and value, and how a text is evaluated."""

import math
from typing import Any

from brimful.programs.vocabulary.batt import BATT

NAMESPACE = {
    **BATT.constants,
    **{name: operation.value for name, operation in BATT.operations.items()},
    "frozenset": frozenset,
    "fs": lambda *elements: frozenset(elements),
    "nan": math.nan,
    "inf": math.inf,
    "G": ((1, 0, 0), (0, 2, 2)),
    "OBJ": frozenset({(1, 1, 3), (1, 2, 3), (2, 1, 3)}),
    "IND": frozenset({(1, 1), (1, 2), (2, 1)}),
    "S": ((((1, 2), (3, 4)), ((3, 4), (1, 2))), (((0, 5),), ((0, 5),))),
}
"""What a batt can name, and grids, an object, indices and demonstration pairs to try it with."""


def value(text: str) -> Any:
    """The value of an expression in the vocabulary."""
    return eval(text, {"__builtins__": {}}, NAMESPACE)
