"""`map(..., stream=True)`: finished batches as they complete, with all that a map guarantees."""

import contextlib
import functools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import brimful
from brimful import BudgetError, ConfigError, MapPart, MapStream, Status
from brimful.core.runs.events import BatchDone, Finished
from brimful.engine.map.store.part_queue import PartQueue

from ...helpers.forking import completed, run_text
from .mapping import EventLog, Recorded, double, rows, run, same, shards_of, stamped, stream
from .test_workers import TWO, picky


def streamed(fn: Callable[[Any], Any], items: Any, **options: Any) -> MapStream:
    silent: Any = {"progress": False, **options}
    return brimful.map(fn, items, stream=True, **silent)


def joined(parts: list[MapPart]) -> torch.Tensor:
    return torch.cat([torch.as_tensor(part.values) for part in parts])


def waiting(x: torch.Tensor, *, sign: str, early: float, late: float) -> torch.Tensor:
    """The batch of an early item waits until one of the later ones was run."""
    first = float(x[0, 0])
    if first >= late:
        Path(sign).touch()
    while first == early and not Path(sign).exists():
        time.sleep(0.005)
    return stamped(x)


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(len(x), 1) + random.random() + np.random.rand()


def wide(x: torch.Tensor) -> torch.Tensor:
    return x.expand(len(x), 250_000).contiguous()


@pytest.mark.parametrize("device", ["cpu", TWO])
@pytest.mark.parametrize("items", [rows, stream])
def test_parts_in_order_have_what_the_whole_has(device: Any, items: Callable[[int], Any]):
    parts = list(reading := streamed(picky, items(100), batch_size=8, device=device))
    whole = run(picky, rows(100), batch_size=8)
    assert [part.start for part in parts] == list(range(0, 100, 8))
    assert [part.stop for part in parts] == [*range(8, 100, 8), 100]
    assert same(joined(parts), whole.values)
    assert np.concatenate([part.status for part in parts]).tolist() == whole.status.tolist()
    assert np.concatenate([part.ok for part in parts]).tolist() == whole.ok.tolist()
    assert {item: text for part in parts for item, text in part.messages.items()} == whole.messages
    assert repr(parts[6]) == "MapPart(48:56, 1 flagged)"
    assert reading.result is not None
    assert reading.result.status.tolist() == whole.status.tolist()
    assert reading.result.values is None


@pytest.mark.parametrize("device", ["cpu", TWO])
def test_a_batch_size_that_is_searched_for(device: Any):
    parts = list(streamed(double, rows(5000), device=device))
    assert len(parts) > 1
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert same(joined(parts), rows(5000) * 2)


def test_weighed_items_say_which_they_are():
    weight = np.random.default_rng(0).integers(1, 9, 60)
    parts = list(streamed(double, rows(60), weight=weight))
    index = np.concatenate([part.index for part in parts])
    assert (np.diff(weight[index]) <= 0).all()
    assert same(joined(parts), rows(60)[index] * 2)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_batch_that_takes_long_is_waited_for_only_in_order(tmp_path: Path, ordered: bool):
    function = functools.partial(waiting, sign=str(tmp_path / "sign"), early=40, late=60)
    parts = list(streamed(function, rows(80), batch_size=4, device=TWO, ordered=ordered))
    starts = [part.start for part in parts]
    assert (starts == sorted(starts)) == ordered
    assert sorted(starts) == list(range(0, 80, 4))
    assert same(joined(sorted(parts, key=lambda part: part.start)), run(stamped, rows(80), batch_size=4).values)


def test_a_batch_runs_when_its_part_is_asked_for():
    function = Recorded(double)
    reading = streamed(function, stream(100), batch_size=5)
    assert function.sizes == []
    for count in range(1, 21):
        next(reading)
        assert function.sizes == [5] * count
    assert next(reading, None) is None


def test_the_reader_has_the_random_generators_to_itself():
    torch.manual_seed(3)
    expected = [float(torch.rand(1)) for _ in range(5)]
    torch.manual_seed(3)
    drawn, parts = [], []
    for part in streamed(noisy, rows(50), batch_size=10):
        drawn.append(float(torch.rand(1)))
        parts.append(part)
    assert drawn == expected
    assert same(joined(parts), run(noisy, rows(50), batch_size=10).values)


@pytest.mark.parametrize("device", ["cpu", TWO])
def test_a_reader_that_stops_early_ends_the_run_and_another_goes_on(tmp_path: Path, device: Any):
    log, out = EventLog(), tmp_path / "run"
    with contextlib.closing(streamed(stamped, rows(200), batch_size=10, out=out, device=device, progress=log)) as parts:
        first = [next(parts) for _ in range(3)]
    assert [event.state for event in log.of(Finished)] == ["interrupted"]
    done = log.of(BatchDone)[-1].done
    assert 30 <= done < 200
    assert sum(len(np.asarray(range(*map(int, path.stem.split("-")[1:])))) for path in shards_of(out)) == done

    log = EventLog()
    again = list(rest := streamed(stamped, rows(200), batch_size=10, out=out, device=device, progress=log))
    whole = run(stamped, rows(200), batch_size=10)
    assert same(joined(again), whole.values)
    assert [part.start for part in again] == list(range(0, 200, 10))
    assert same(joined(again[:3]), joined(first))
    assert rest.result is not None
    assert rest.result.done == 200 - done
    assert same(rest.result.values, whole.values)  # pyright: ignore[reportArgumentType]
    assert same(brimful.open(out).values, whole.values)  # pyright: ignore[reportAttributeAccessIssue]


def test_leaving_the_loop_ends_the_run():
    log = EventLog()
    for _ in streamed(double, rows(100), batch_size=5, progress=log):
        break
    assert [event.state for event in log.of(Finished)] == ["interrupted"]


@pytest.mark.parametrize("ordered", [True, False])
def test_what_lies_on_disk_comes_first_or_in_its_place(tmp_path: Path, ordered: bool):
    out = tmp_path / "run"
    run(picky, rows(100), batch_size=10, out=out)
    shards_of(out)[0].unlink()
    shards_of(out)[3].unlink()  # positions 40 to 50
    function = picky
    parts = list(streamed(function, rows(100), batch_size=10, out=out, ordered=ordered))
    starts = [part.start for part in parts]
    assert starts == (list(range(0, 100, 10)) if ordered else [10, 20, 30, 50, 60, 70, 80, 90, 0, 40])
    flagged = {item: text for part in parts for item, text in part.messages.items()}
    assert flagged == {50: "ValueError: fifty", 60: "the result is not finite"}
    parts.sort(key=lambda part: part.start)
    assert same(joined(parts), run(picky, rows(100), batch_size=10).values)
    assert [part.start for part in streamed(function, rows(100), batch_size=10, out=out)] == list(range(0, 100, 10))


def test_small_shards_that_were_collected_meanwhile_are_still_given(tmp_path: Path):
    out = tmp_path / "run"
    with contextlib.closing(streamed(stamped, rows(120), batch_size=2, out=out)) as parts:
        for _ in range(30):
            next(parts)
    shards_of(out)[0].unlink()
    parts = streamed(stamped, rows(120), batch_size=2, out=out)
    read = [next(parts), next(parts)]
    assert len(shards_of(out)) < 30  # the first run's lie in one shard now
    assert same(joined([*read, *parts]), run(stamped, rows(120), batch_size=2).values)


def test_an_error_of_the_reader_keeps_what_was_finished(tmp_path: Path):
    def failing() -> None:
        for part in streamed(stamped, rows(100), batch_size=10, out=tmp_path / "run"):
            if part.start == 30:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert run(stamped, rows(100), batch_size=10, out=tmp_path / "run").done < 70


INTERRUPTED = """
import signal, sys, torch, brimful

def fn(x):
    if x[0, 0] == 40:
        signal.raise_signal(signal.SIGINT)
    return x * 2

try:
    for part in brimful.map(fn, torch.arange(100.0).reshape(100, 1), batch_size=10, stream=True, out=sys.argv[1],
                            progress=False, device="cpu"):
        print(part.start)
except KeyboardInterrupt as error:
    print(error)
"""


def test_ctrl_c_keeps_what_was_finished(tmp_path: Path):
    ended = completed(run_text, INTERRUPTED, str(tmp_path / "run"))
    assert ended.returncode == 0, ended.stderr
    *starts, message = ended.stdout.splitlines()
    assert message.startswith("interrupted after 40 items; run the same command again to go on")
    assert starts == ["0", "10", "20", "30"][: len(starts)]
    assert len(shards_of(tmp_path / "run")) == 4


def test_results_larger_than_the_budget_pass_through_it():
    budget, bytes_read = 64_000_000, 0
    for part in streamed(wide, rows(160, 1), budget=budget, batch_size=4):
        bytes_read += torch.as_tensor(part.values).nbytes
    assert bytes_read == 160_000_000
    with pytest.raises(BudgetError, match="Pass out="):
        run(wide, rows(160, 1), budget=budget, batch_size=4)


def test_parts_that_wait_for_an_earlier_one_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sign, width, most = tmp_path / "sign", 40_000, list[int]()

    class Watched(PartQueue):
        def write(self, done: Any, index: np.ndarray) -> None:
            super().write(done, index)
            most.append(self._bytes)

        @property
        def full(self) -> bool:
            if (full := super().full) and not sign.exists():
                sign.touch()  # now the batch that all wait for may go on
            return full

    monkeypatch.setattr("brimful.engine.map.run.PartQueue", Watched)
    items = torch.arange(200.0)[:, None].expand(200, width)
    function = functools.partial(waiting, sign=str(sign), early=50, late=1000)
    parts = list(streamed(function, items, batch_size=5, device=TWO, budget="128MB"))
    assert same(joined(parts)[:, 0], run(stamped, items[:, :1], batch_size=5).values[:, 0])
    under_way = 1 + 2 * len(TWO)  # the part that fills it, and the batches that workers have and are given next
    assert 16_000_000 < max(most) <= 16_000_000 + under_way * 5 * 4 * width


def test_a_cancelled_stream():
    cancel = threading.Event()
    parts = streamed(double, rows(100), batch_size=10, cancel=cancel)
    assert next(parts).status.tolist() == [Status.OK] * 10
    cancel.set()
    with pytest.raises(brimful.CancelledError, match="interrupted after"):
        list(parts)


def test_ordered_is_for_a_stream():
    with pytest.raises(ConfigError, match="ordered is False"):
        run(double, rows(4), ordered=False)
