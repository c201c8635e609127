"""Which executor `auto` takes: by what was measured, now or before."""

from pathlib import Path

import pytest
import torch

from brimful import programs
from brimful.programs.data.tasks import samples_of
from brimful.programs.executors import choice
from brimful.programs.executors.choice import CPU, Contender, Measurement, fixed_choice, processes_for
from brimful.programs.executors.rows import Rows
from brimful.programs.executors.sample_function import SampleFunction
from brimful.programs.executors.timing import Timing, recall, remember

from ..helpers.small import TEXT, small, task
from ..test_run import same

CUDA = torch.device("cuda", 0)


class Timed(SampleFunction):
    """Samples that take made-up seconds, by executor and device."""

    def __init__(self, count: int, **seconds: Timing | Exception) -> None:
        made = [task(f"t{number}", number, pairs=1) for number in range(count // 3)]
        super().__init__(programs.loads(TEXT), samples_of(made))
        self.seconds, self.ran = seconds, list[tuple[str, int]]()

    def timed(self, numbers: list[int], executor: str, device: torch.device) -> tuple[Rows, float]:
        name = executor if executor == "sequential" else f"{executor}_{device.type}"
        timing = self.seconds[name]
        if isinstance(timing, Exception):
            raise timing
        self.ran.append((name, len(numbers)))
        return super().timed(numbers, "sequential", CPU)[0], timing.at(len(numbers))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choice, "cores", lambda: 2)
    monkeypatch.setattr(choice, "_STARTED", {CPU, CUDA})


SLOW, QUICK, STEEP = Timing(0.0, 0.05), Timing(1.0, 0.001), Timing(2.0, 0.0001)


@pytest.mark.parametrize(
    ("count", "expected", "other"),
    [(12, "sequential", "batched on cpu"), (90, "batched", "sequential executor")],
)
def test_the_quicker_one_for_so_many_samples(count: int, expected: str, other: str):
    function = Timed(count, sequential=SLOW, batched_cpu=QUICK)
    chosen = Measurement(function, 1_000, [CPU], 1).choose()
    assert chosen.executor == expected and chosen.devices == [CPU]
    assert [name for name, _ in chosen.rejected] == [other]
    assert chosen.seconds > 0 and "samples" in chosen.why


def test_what_was_measured_is_remembered_and_not_measured_again():
    function = Timed(90, sequential=SLOW, batched_cpu=QUICK)
    Measurement(function, 1_000, [CPU], 1).choose()
    assert function.ran == [("sequential", 4), ("batched_cpu", 1), ("batched_cpu", 8)]
    again = Timed(90)
    chosen = Measurement(again, 1_000, [CPU], 1).choose()
    assert chosen.executor == "batched" and not again.ran and chosen.seconds == 0
    remembered = recall(again.digest, "batched", CPU, 90)
    assert remembered is not None and remembered.fixed == pytest.approx(1.0)


def test_the_first_batch_of_a_process_does_not_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choice, "_STARTED", set())
    function = Timed(90, sequential=SLOW, batched_cpu=QUICK)
    Measurement(function, 1_000, [CPU], 1).choose()
    assert function.ran == [("sequential", 4), ("batched_cpu", 1), ("batched_cpu", 1), ("batched_cpu", 8)]


def test_what_few_samples_took_says_nothing_of_many():
    Measurement(Timed(12, sequential=SLOW, batched_cpu=STEEP), 1, [CPU], 1).choose()
    many = Timed(900, batched_cpu=QUICK)
    Measurement(many, 1, [CPU], 1).choose()
    assert many.ran == [("batched_cpu", 1), ("batched_cpu", 56)]


def test_what_is_slower_by_fewer_samples_is_not_measured_on_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("brimful.programs.executors.timing.devices.model_name", lambda device: device.type)
    function = Timed(900, sequential=SLOW, batched_cuda=QUICK)
    remember(function.digest, "batched", CPU, Timing(1.0, 0.1), 90)
    remember(function.digest, "batched", CUDA, QUICK, 900)
    chosen = Measurement(function, 1_000, [CPU, CUDA], 1).choose()
    assert chosen.devices == [CUDA] and function.ran == [("sequential", 4)]


def test_a_run_of_one_batch_is_remembered():
    plain = small(executor="batched", workers=1)
    digest = SampleFunction(plain.programs, plain.samples).digest
    remembered = recall(digest, "batched", CPU, 15)
    assert remembered is not None and remembered.at(15) == pytest.approx(plain.usage.batches[0].seconds)


def test_samples_that_were_measured_are_not_run_again():
    function = Timed(60, sequential=SLOW, batched_cpu=QUICK)
    Measurement(function, 1_000, [CPU], 1).choose()
    calls = list[list[int]]()
    plain = function.run
    function.run = lambda numbers, *rest: (calls.append(list(numbers)), plain(numbers, *rest))[1]  # pyright: ignore
    everything = function(torch.arange(60)).values
    assert sum(map(len, calls)) == 60 - sum(count for _, count in function.ran)
    fresh = SampleFunction(programs.loads(TEXT), [])
    fresh.__dict__ |= {name: getattr(function, name) for name in ("tasks", "_shown", "samples")}
    other = fresh(torch.arange(60)).values
    assert all(torch.equal(everything[name], other[name]) for name in ("outcome", "step", "category", "equal"))
    assert torch.equal(everything["values"].values, other["values"].values)


def test_little_work_is_not_measured():
    function = Timed(12, sequential=Timing(0.0, 0.001))
    chosen = Measurement(function, 1_000, [CPU], None).choose()
    assert chosen.executor == "sequential" and function.ran == [("sequential", 4)]
    assert "not measured: sequentially they take" in chosen.rejected[0][1]


def test_a_contender_that_fails_is_none():
    function = Timed(90, sequential=SLOW, batched_cpu=RuntimeError("no kernel"))
    chosen = Measurement(function, 1_000, [CPU], 1).choose()
    assert chosen.executor == "sequential" and "it fails: RuntimeError: no kernel" in chosen.rejected[0][1]


def test_worker_processes_where_they_pay():
    assert processes_for(Contender("sequential", CPU, SLOW), 100, 2) == 1
    assert processes_for(Contender("sequential", CPU, SLOW), 1_000, 2) == 2
    assert processes_for(Contender("batched", CPU, QUICK), 1_000, 2) == 1
    assert processes_for(Contender("batched", CPU, QUICK), 100_000, 2) == 2
    function = Timed(12)
    assert fixed_choice(function, "sequential", [CPU], 100, None).devices == [CPU]
    assert fixed_choice(function, "sequential", [CPU], 10_000_000, None).devices == [CPU, CPU]
    assert fixed_choice(function, "batched", [CPU], 100, 3).devices == [CPU] * 3


def test_auto_gives_the_same_bits_and_says_why(tmp_path: Path):
    plain = small(executor="sequential")
    digest = SampleFunction(plain.programs, plain.samples).digest
    remember(digest, "sequential", CPU, Timing(0.0, 1.0))
    remember(digest, "batched", CPU, Timing(3.0, 0.1), 15)
    result = small(out=tmp_path / "run")
    assert same(result, plain) and result.executor == "batched"
    assert result.usage.samples("batched") == 15
    text = result.plan.explain()
    assert "batched executor, samples whole: about 4" in text and "sequential executor" in text and "about 13" in text
    assert same(small(batch_size=2), plain)


def test_small_batches_of_auto_run_sequentially():
    plain = small(executor="sequential")
    digest = SampleFunction(plain.programs, plain.samples).digest
    remember(digest, "sequential", CPU, Timing(0.0, 1.0))
    remember(digest, "batched", CPU, Timing(5.0, 0.1), 15)
    result = small(batch_size=4)  # 15 samples are quicker batched; 4 of them are not
    assert result.executor == "batched" and result.usage.samples("sequential") == 15
    assert same(result, plain)


def test_how_long_workers_take_to_begin_is_measured_by_a_run_and_counts_in_the_next():
    assert choice.workers_start(2) == 5.0  # a guess
    small(executor="sequential", workers=2)
    measured = choice.workers_start(2)
    assert measured != 5.0 and measured > 0
    assert choice.workers_start(16) == 19.0
    remember("start of 2 workers", "sequential", CPU, Timing(40.0, 0.0))
    assert processes_for(Contender("sequential", CPU, SLOW), 1_000, 2) == 1
