"""How well a run used its device, from its events."""

from typing import Any

import pytest

from brimful.core.runs.events import EpochDone, Event, Sampled, Started
from brimful.locate.device_use import DeviceUseRecorder


def sampled(time: float, utilisation: float | None, watts: float | None = None) -> Sampled:
    return Sampled(time=time, used=100, process=200, utilisation=utilisation, watts=watts)


def epoch(time: float, number: int) -> EpochDone:
    return EpochDone(time=time, epoch=number, epochs=3, step=10 * number, seconds=2.0, values={})


HISTORY: list[dict[str, Any]] = [
    {"step": 10, "seconds": 9.0, "data_seconds": 8.0},
    {"step": 20, "seconds": 2.0, "data_seconds": 0.5},
    {"step": 30, "seconds": 3.0, "data_seconds": 0.0},
]


def test_the_first_epoch_does_not_count():
    passed: list[Event] = []
    recorder = DeviceUseRecorder(passed.append)
    events = [
        *(Started(time=100, work="w", items=1, done=0, budget=1), sampled(105, 0.1, 90.0), epoch(109, 1)),
        *(sampled(110, 0.9, 200.0), sampled(112, 0.7, None), epoch(114, 3), sampled(115, 0.0, 10.0)),
    ]
    for event in events:
        recorder(event)
    use = recorder.result(HISTORY)
    assert use.utilisation == pytest.approx(0.8) and use.watts == 200.0
    assert (use.steps_per_second, use.stall_share) == (4.0, 0.1)
    assert [row[0] for row in use.samples] == [5, 10, 12, 15]
    assert passed == events


def test_a_single_epoch_counts_and_what_is_not_known_is_none():
    use = DeviceUseRecorder().result(HISTORY[:1])
    assert use.steps_per_second == pytest.approx(10 / 9) and use.stall_share == pytest.approx(8 / 9)
    assert use.utilisation is None and use.watts is None and use.samples == ()
