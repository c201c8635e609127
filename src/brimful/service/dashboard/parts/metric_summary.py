"""The last and the best value of each metric of some runs, also while they run."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from ...service import Series

_LOWER = re.compile(r"loss|error|entropy|perplexity|distance|(^|_)(nll|nlml|rmse|mse|mae|ece|crps|p\d+)(_|$)")
_HIGHER = re.compile(
    r"accuracy|likelihood|precision|recall|coverage|(^|_)(acc|auc|lml|qwk|kappa|tau|spearman|r2|f1|iou)(_|$)"
)


@dataclass(frozen=True, slots=True)
class Extent:
    """What is known of a curve: its last step and value, and its extremes."""

    step: int
    last: float
    least: float
    greatest: float


def extents(known: dict[str, Extent], series: Series) -> dict[str, Extent]:
    """What is known of curves, with what more points say; the least and the greatest of all are always among them."""
    merged = dict(known)
    for name, points in series.items():
        finite = [(step, value) for step, _, value in points if math.isfinite(value)]
        if not finite:
            continue
        values = [value for _, value in finite]
        new = Extent(*finite[-1], min(values), max(values))
        old = merged.get(name, new)
        newest = max(old, new, key=lambda one: one.step) if old.step != new.step else new
        merged[name] = Extent(newest.step, newest.last, min(old.least, new.least), max(old.greatest, new.greatest))
    return merged


def metric_rows(runs: list[dict[str, Extent]]) -> list[tuple[str, list[float | None]]]:
    """Rows of their metrics, losses first: the last value of each run, and the best where the name says which that is.
    None stands for a run without that metric."""
    rows: list[tuple[str, list[float | None]]] = []

    def add(name: str, what: str, value: Callable[[Extent], float]) -> None:
        rows.append((f"{name}, {what}", [value(run[name]) if name in run else None for run in runs]))

    for name in sorted({name for run in runs for name in run}, key=lambda name: ("loss" not in name, name)):
        add(name, "last", lambda one: one.last)
        if _LOWER.search(name):
            add(name, "lowest", lambda one: one.least)
        elif _HIGHER.search(name):
            add(name, "highest", lambda one: one.greatest)
    return rows
