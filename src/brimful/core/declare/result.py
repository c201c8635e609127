"""What a run gives back: the part that is the same for every workload."""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import torch

from ..base.errors import CorruptError
from ..base.field_types import fits
from ..memory import devices
from ..memory.monitor import Peak
from ..memory.plan import Plan
from .summary_text import html_table, summary_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Result:
    """Base of results: frozen dataclasses that add their own keys to `summary`. They say `repr=False`, so that
    notebooks and terminals show the summary.

    Attributes:
        plan: what was decided before it ran, and last.
        observed: peak bytes, counted as the budget counts them.
        seconds: how long it took, without compiling.
        compiling: seconds in which loops and kernels were compiled, by this call; 0 where all were on disk.
    """

    plan: Plan
    observed: int
    seconds: float
    compiling: float = 0.0

    @property
    def predicted(self) -> int:
        """The peak bytes that the plan expected."""
        return self.plan.predicted

    def summary(self) -> dict[str, Any]:
        """The result in JSON values."""
        return {
            "seconds": self.seconds,
            "compiling_seconds": self.compiling or None,
            "predicted_peak_bytes": self.predicted,
            "observed_peak_bytes": self.observed,
            "budget_bytes": self.plan.budget,
        }

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={text}" for name, text in summary_rows(self.summary()))
        return f"{type(self).__name__}({parts})"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, summary_rows(self.summary()))


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """What the manifest of a finished run records of its result, beside what is in its files.

    Attributes:
        done, bad: items, and those among them that were flagged.
        seconds: of all parts of the run.
        observed: peak bytes.
        plan: what the run settled on.
        own: what the verb adds, in JSON values.
        compiling: seconds of compiling, which `seconds` do not count.
    """

    done: int
    bad: int
    seconds: float
    observed: int
    plan: Plan
    own: dict[str, Any] = field(default_factory=dict)
    compiling: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            **{declared.name: getattr(self, declared.name) for declared in fields(self)},
            "plan": self.plan.to_dict(),
        }

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Self | None:
        """What was recorded; None where the run has not finished.

        Raises:
            CorruptError: what is there is not what a run records.
        """
        if (stored := manifest.get("result")) is None:
            return None
        try:
            values = {**stored, "plan": Plan.from_dict(stored["plan"])}
            values.setdefault("compiling", 0.0)  # of a run before it was recorded
            numbers = [values[name] for name in ("done", "bad", "seconds", "observed", "compiling")]
            if not fits(cls, values) or not all(0 <= number < math.inf for number in numbers):
                raise ValueError("a value has another type or range")
            return cls(**values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptError(f"the manifest's record of the result is damaged: {error!r}") from error


@contextlib.contextmanager
def measured(device: torch.device) -> Iterator[dict[str, Any]]:
    """The keys that every summary has, filled in at the end of the block, for work that is not planned."""
    summary: dict[str, Any] = {}
    started = time.monotonic()
    with Peak(device, devices.resident_bytes()) as peak:
        yield summary
    summary |= {
        "seconds": time.monotonic() - started,
        "predicted_peak_bytes": None,
        "observed_peak_bytes": peak.bytes,
    }
