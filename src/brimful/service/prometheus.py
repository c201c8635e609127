"""Numbers in Prometheus' text format, version 0.0.4."""

import math
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric, with a value for every set of labels.

    Attributes:
        kind: counter, gauge or histogram.
        samples: ending of the name ("" but in a histogram), labels, value.
    """

    name: str
    kind: str
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    @classmethod
    def single(cls, name: str, kind: str, help: str, value: float) -> "Family":
        return cls(name, kind, help, [("", {}, value)])


def render(families: Iterable[Family]) -> str:
    """The text.

    Example:
        >>> print(render([Family("jobs", "gauge", "Jobs by state.", [("", {"state": "queued"}, 3)])]), end="")
        # HELP jobs Jobs by state.
        # TYPE jobs gauge
        jobs{state="queued"} 3
    """
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for ending, labels, value in family.samples:
            inside = ",".join(f'{name}="{_escape(text, quotes=True)}"' for name, text in labels.items())
            lines.append(f"{family.name}{ending}{f'{{{inside}}}' if inside else ''} {_number(value)}")
    return "".join(line + "\n" for line in lines)


def _escape(text: str, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**63 else repr(float(value))


class Histogram:
    """Counts of values by ranges and labels, from any thread."""

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], labels: tuple[str, ...]) -> None:
        self._name, self._help, self._bounds, self._labels = name, help, bounds, labels
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def observe(self, value: float, *labels: str) -> None:
        """Counts a value under labels, one for each name."""
        with self._lock:
            counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
            counts[bisect_left(self._bounds, value)] += 1
            self._sums[labels] = self._sums.get(labels, 0.0) + value

    def family(self) -> Family:
        """What has been counted so far."""
        family = Family(self._name, "histogram", self._help)
        with self._lock:
            for values, counts in self._counts.items():
                labels, total = dict(zip(self._labels, values, strict=True)), 0
                for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                    total += count
                    family.samples.append(("_bucket", {**labels, "le": _number(bound)}, total))
                family.samples.extend([("_sum", labels, self._sums[values]), ("_count", labels, total)])
        return family
