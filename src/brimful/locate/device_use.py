"""How well a training run used its device: utilisation and power as the driver samples them, and time without data.

The first epoch is left out where there are others: in it the device gets its data, and graphs are captured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.runs.events import EpochDone, Event, Sampled, Started


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Means over the steady epochs.

    Attributes:
        steps_per_second: of optimizer steps, in the time of steps alone.
        stall_share: the share of that time without a batch, by the device's clock on CUDA, by the loop's on a CPU.
        utilisation: the share of time that the device had work, by NVML; None where it is not known.
        watts: its power, likewise.
        samples: one row per look at the device: seconds, used bytes, utilisation, watts.
    """

    steps_per_second: float
    stall_share: float
    utilisation: float | None
    watts: float | None
    samples: tuple[tuple[float, int, float | None, float | None], ...] = ()


class DeviceUseRecorder:
    """A sink of events that remembers what `DeviceUse` needs.

    Args:
        then: what else gets the events.
    """

    def __init__(self, then: Callable[[Event], None] | None = None) -> None:
        self._then = then
        self._sampled: list[Sampled] = []
        self._epochs: list[EpochDone] = []
        self._started = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self._started = event.time
        elif isinstance(event, Sampled):
            self._sampled.append(event)
        elif isinstance(event, EpochDone):
            self._epochs.append(event)
        if self._then is not None:
            self._then(event)

    def result(self, history: Sequence[dict[str, Any]]) -> DeviceUse:
        """What was seen, of a run with that history."""
        rows = history[1:] or history
        first = history[0]["step"] if len(history) > 1 else 0
        seconds = sum(row["seconds"] for row in rows)
        begin = self._epochs[0].time if len(self._epochs) > 1 else 0.0
        end = self._epochs[-1].time if self._epochs else 0.0
        steady = [sample for sample in self._sampled if begin <= sample.time <= end]
        return DeviceUse(
            (rows[-1]["step"] - first) / max(seconds, 1e-9),
            sum(row["data_seconds"] for row in rows) / max(seconds, 1e-9),
            _mean([sample.utilisation for sample in steady]),
            _mean([sample.watts for sample in steady]),
            tuple((one.time - self._started, one.used, one.utilisation, one.watts) for one in self._sampled),
        )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
