"""What all demonstration pairs of a task say together: colors gained or lost, the mirror or turn between them."""

from __future__ import annotations

from ...language.types import Any, Callable, Integer, Samples, Tuple
from .cells import ordered_cells
from .colors import p_g
from .containers import difference_tuple, first, mapply, mapply_t, second
from .grids import mir_rot_t
from .safety import safe
from .shared import apply, dedupe


@safe
def dedupe_pair_tuple(S: Samples) -> Samples:
    """The pairs whose input is not their output."""
    return tuple((a, b) for a, b in ordered_cells(S) if a != b)


def _values(S: Samples, function: Callable) -> tuple[Any, Any]:
    """The distinct elements of a function's values on all inputs, and on all outputs."""
    return dedupe(mapply_t(function, apply(first, S))), dedupe(mapply_t(function, apply(second, S)))


@safe
def c_iz(S: Samples, function: Callable) -> Any:
    """What a function finds in inputs and not in outputs, such as colors."""
    inputs, outputs = _values(S, function)
    return difference_tuple(inputs, outputs)


@safe
def c_iz_n(S: Samples, function: Callable, pick: Callable) -> Integer:
    """One of what a function finds in inputs and not in outputs."""
    return pick(c_iz(S, function))


@safe
def c_zo(S: Samples, function: Callable) -> Any:
    """What a function finds in outputs and not in inputs, such as colors."""
    inputs, outputs = _values(S, function)
    return difference_tuple(outputs, inputs)


@safe
def c_zo_n(S: Samples, function: Callable, pick: Callable) -> Integer:
    """One of what a function finds in outputs and not in inputs."""
    return pick(c_zo(S, function))


@safe
def a_mr(S: Samples) -> Any:
    """The number of the mirror or turn that makes every output of its input, as `mir_rot_t` counts; None if none."""
    pairs = ordered_cells(S)
    return next((a for a in range(8) if all(after == mir_rot_t(before, a) for before, after in pairs)), None)


@safe
def batch_process_samples_gpu(S: Samples) -> Tuple:
    """The inputs, the outputs, the colors of the inputs and the colors of the outputs of all pairs."""
    inputs, outputs = apply(first, S), apply(second, S)
    return inputs, outputs, mapply(p_g, inputs), mapply(p_g, outputs)
