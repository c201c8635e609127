"""A run: outputs, status, failures, and one bad sample beside good ones."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brimful import CancelledError, ConfigError, InputError, programs
from brimful.core.runs.events import BatchDone, Event
from brimful.programs.execution.failures import ProgramStatus
from brimful.programs.executors.runner import programs_for

from .helpers.small import TEXT, mirrored, small, task, tasks, written, written_tasks
from .helpers.words import batt, guarded, solver


def same(one: programs.ProgramResult, other: programs.ProgramResult) -> bool:
    """Whether two runs gave the same bytes."""
    arrays = ("status", "step", "category", "equal")
    return (
        all(np.array_equal(getattr(one.outcomes, name), getattr(other.outcomes, name)) for name in arrays)
        and one.outcomes.values().values.numpy().tobytes() == other.outcomes.values().values.numpy().tobytes()
        and one.table().equals(other.table())
        and one.submission() == other.submission()
        and one.messages == other.messages
    )


def test_outputs_status_and_failures():
    result = small()
    assert len(result.samples) == len(result.outputs) == 15 and result.status.shape == (15, 3)
    for sample, outputs in zip(result.samples, result.outputs, strict=True):
        assert outputs[0] == mirrored(sample.I) and outputs[1] == mirrored(sample.I)[::-1]
    blank = [index for index, sample in enumerate(result.samples) if sample.task == "blank"]
    assert (result.status[blank, 2] == ProgramStatus.DEFAULTED).all()
    assert (np.delete(result.status, blank, axis=0) == ProgramStatus.OK).all()
    assert [failure.pair for failure in result.failures] == [0, 1, 2, 0, 1]
    first = result.failures[0]
    assert (first.program, first.task, first.kind) == ("solve_fails", "blank", "train")
    assert (first.operation, first.line, first.category, first.ended) == ("argmax", 14, "ValueError", False)
    assert result.outputs[blank[0]][2] == result.samples[blank[0]].I


def test_a_program_ends_where_failures_propagate():
    result = small(on_error="propagate")
    ended = result.status == ProgramStatus.FAILED
    assert ended.sum() == 5 and ended[:, 2].sum() == 5
    for index in np.flatnonzero(ended[:, 2]):
        assert result.outputs[index][2] is None and result.outputs[index][0] is not None
    assert all(failure.ended for failure in result.failures)
    assert result.outcomes.equal[ended].max() <= 0


def test_outputs_can_be_sliced_and_counted_from_the_end():
    outputs = small().outputs
    assert outputs[-1] == outputs[14] and outputs[1:3] == [outputs[1], outputs[2]]
    with pytest.raises(IndexError, match="sample 15 of 15"):
        outputs[15]


def test_a_batt_gives_its_records():
    text = batt("t1 = vmirror(I)", "t2 = size(S)", "o.append((1, False, 'a', t1))", "s.append((2, 'x', t2))")
    result = programs.run(programs.loads(text), tasks(), device="cpu", progress=False)
    assert result.outputs[0][0] == ([(1, False, "a", mirrored(result.samples[0].I))], [(2, "x", 3)])
    assert result.outcomes.candidates[0].name == "batt_0_a"


def test_a_batt_that_ends_gives_nothing_and_its_neighbors_all():
    text = batt(
        *guarded("t1", "first(F)", "first", "KeyError"), "t2 = vmirror(I)", "o.append((1, t2))", "s.append((t1,))"
    )
    result = programs.run(programs.loads(text + TEXT), tasks(), device="cpu", progress=False)
    assert all(outputs[0] is None and outputs[1] is not None for outputs in result.outputs)
    assert (result.status[:, 0] == ProgramStatus.FAILED).all() and result.failures[0].operation == "first"


def test_a_batt_without_outputs_has_scores():
    text = batt("t2 = size(S)", "s.append((2, t2))")
    result = programs.run(programs.loads(text), tasks(), device="cpu", progress=False)
    assert result.outputs[0] == [([], [(2, 3)])] and result.status.shape == (15, 0)
    assert result.table().num_rows == result.scores.num_rows == result.summary()["solved"] == 0
    text = batt(*guarded("t1", "first(F)", "first", "KeyError"), "s.append((t1,))")
    assert programs.run(programs.loads(text), tasks(), device="cpu", progress=False).outputs[0] == [None]


def test_samples_of_one_task_may_have_other_demonstrations():
    grid = ((1,),)
    samples: list[Any] = [("a", ((grid, grid),) * count, grid, grid) for count in (1, 3, 2)]
    loaded = programs.loads("def count(S, I):\n    x = size(S)\n    return x\n")
    result = programs.run(loaded, samples, device="cpu", progress=False)
    assert [outputs[0] for outputs in result.outputs] == [1, 3, 2]


def test_a_flagged_sample_beside_good_ones():
    bad = {"train": [{"input": [[1, 2]], "output": [[2, 1]]}], "test": [{"input": [[77]]}, {"input": [[3, 4]]}]}
    damaged = programs.Task.of("damaged", bad)
    result = small()
    with_bad = programs.run(programs.loads(TEXT), [damaged, *tasks()], device="cpu", progress=False)
    assert list(with_bad.messages) == [1] and "the color 77" in with_bad.messages[1]
    assert with_bad.outputs[1] == [None] * 3 and (with_bad.status[1] == ProgramStatus.NOT_RUN).all()
    assert with_bad.outputs[2][0] == ((4, 3),)
    assert [with_bad.outputs[index + 3] for index in range(15)] == list(result.outputs)
    assert with_bad.summary()["flagged"] == 1
    assert with_bad.submission()["damaged"][0] == {"attempt_1": [[0]], "attempt_2": [[0]]}


def test_where_every_sample_is_flagged_there_is_still_a_result():
    result = programs.run(programs.loads(TEXT), [("a", (), [[99]], ())], device="cpu", progress=False)
    assert list(result.messages) == [0] and result.outputs[0] == [None] * 3


def test_pair_by_name_runs_a_program_on_its_task_alone():
    result = small(pair_by_name=True)
    ran = result.status != ProgramStatus.NOT_RUN
    assert ran.sum() == 5 and ran[:5, 0].all()
    assert result.table().num_rows == 5 and result.scores.to_pylist()[0]["task"] == "mirror"
    loaded = programs.loads(TEXT)
    assert programs_for("mirror", loaded) == (0,) and programs_for("mir", loaded) == ()


def test_two_worker_processes_give_the_same_bytes():
    result = small(executor="batched", workers=2)
    assert same(result, small(executor="sequential")) and result.usage.samples("batched") == 15
    assert result.plan.devices == ("cpu", "cpu")


def test_a_file_of_programs_and_a_folder_of_tasks(tmp_path: Path):
    folder = written_tasks(tmp_path / "tasks")
    result = programs.run(written(tmp_path), str(folder), pair_by_name=True, device="cpu", progress=False)
    assert result.summary()["solved"] == 1 and result.summary()["tasks"] == 3


def test_a_run_can_be_cancelled_and_goes_on(tmp_path: Path):
    many = [task(f"t{number}", number) for number in range(40)]
    loaded = programs.loads(TEXT)
    whole = programs.run(loaded, many, device="cpu", progress=False)
    cancel, seen = threading.Event(), list[Event]()

    def stop(event: Event) -> None:
        seen.append(event)
        if sum(isinstance(one, BatchDone) for one in seen) == 2:
            cancel.set()

    with pytest.raises(CancelledError):
        programs.run(
            loaded, many, executor="sequential", device="cpu", progress=stop, cancel=cancel, out=tmp_path / "run"
        )
    with pytest.raises(InputError, match="brimful programs run"):
        programs.load_result(tmp_path / "run")
    assert same(programs.run(loaded, many, device="cpu", progress=False, out=tmp_path / "run"), whole)


def test_what_cannot_be_run():
    loaded = programs.loads(TEXT)
    with pytest.raises(InputError, match="no samples; give at least one"):
        programs.run(loaded, [], progress=False)
    with pytest.raises(ConfigError, match="executor is 'fast'; choose one of auto, batched, sequential"):
        programs.run(loaded, tasks(), executor="fast", progress=False)
    with pytest.raises(ConfigError, match="on_error is 'raise'"):
        programs.run(loaded, tasks(), on_error="raise", progress=False)
    with pytest.raises(ConfigError, match="workers is 0; give a whole number from 1 on"):
        programs.run(loaded, tasks(), workers=0, progress=False)
    with pytest.raises(ConfigError, match="workers is 2 and device 'cpu,cpu'; name one CPU"):
        programs.run(loaded, tasks(), workers=2, device="cpu,cpu", progress=False)


def test_the_plan_says_what_it_will_do():
    plan = programs.plan(programs.loads(TEXT), tasks(), executor="sequential", device="cpu")
    assert (plan.work, plan.batch, plan.items) == ("programs run", 1, 15)
    assert "cpu" in plan.explain()


def test_an_operation_that_explodes_is_cut_by_its_size():
    lines = ["x0 = asobject(I)", *(f"x{number} = product(x{number - 1}, x{number - 1})" for number in range(1, 5))]
    text = solver(*lines, "x4", name="explodes")
    samples = [("a", (), ((1, 2, 3),) * 3, ())]
    result = programs.run(programs.loads(text + TEXT), samples, device="cpu", progress=False)
    (failure,) = result.failures
    assert (failure.program, failure.operation, failure.line, failure.category) == (
        "explodes",
        "product",
        5,
        "SizeError",
    )
    assert result.outputs[0][0] == frozenset() and result.outputs[0][1] == ((3, 2, 1),) * 3
