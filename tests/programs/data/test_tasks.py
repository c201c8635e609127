"""Tasks as samples: what is no grid of ARC is flagged, and its neighbors are as they were."""

from typing import Any

import numpy as np
import pytest
import torch

from brimful import InputError
from brimful.programs import Pair, Sample, Task
from brimful.programs.data.tasks import as_grid, as_samples, samples_of

GOOD = {"input": [[1]], "output": [[2]]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2], [3]], "rows of 1 to 2 cells"),
        ([[0] * 31], "1 x 31; at most 30 x 30"),
        ([[0]] * 31, "31 x 1; at most 30 x 30"),
        ([[10]], "the color 10; colors are whole numbers from 0 to 9"),
        ([[-1]], "the color -1"),
        ([[1.0]], "the color 1.0"),
        ([[True]], "the color True"),
        ([["1"]], "the color '1'"),
        ([[None]], "the color None"),
        ([], "is empty"),
        ([[]], "is empty"),
        (None, "this is a NoneType"),
        (3, "this is a int"),
        ([1, 2], "this is a list"),
        ("text", "the color 't'"),
        ({"a": 1}, "the color 'a'"),
    ],
)
def test_what_is_no_grid(rows: Any, message: str):
    with pytest.raises(InputError, match=message):
        as_grid(rows)
    for pair in ({"input": rows, "output": [[1]]}, {"input": [[1]], "output": rows}):
        if rows is None and pair["output"] is None:
            continue  # an output that is not known
        task = Task.of("a", {"train": [GOOD, pair], "test": [GOOD]})
        assert task.train[0].problem is None
        assert message in str(task.train[1].problem)


def test_grids_of_any_kind_of_rows():
    expected = ((1, 2), (3, 4))
    for rows in ([[1, 2], [3, 4]], expected, np.array(expected, np.int8), torch.tensor(expected)):
        assert as_grid(rows) == expected
    assert len(as_grid([[0] * 30] * 30)) == 30


def test_a_task_is_a_sample_per_pair():
    task = Task.of("a", {"train": [GOOD, {"input": [[3]], "output": [[4]]}], "test": [{"input": [[5]]}]})
    samples = samples_of([task])
    shown = ((((1,),), ((2,),)), (((3,),), ((4,),)))
    assert samples == [
        Sample("a", "train", 0, shown, ((1,),), ((2,),)),
        Sample("a", "train", 1, shown, ((3,),), ((4,),)),
        Sample("a", "test", 0, shown, ((5,),), ()),
    ]


def test_a_demonstration_without_an_output_is_not_shown():
    samples = samples_of([Task.of("a", {"train": [GOOD, {"input": [[3]]}], "test": []})])
    assert [len(sample.S) for sample in samples] == [1, 1]
    assert samples[1].C == () and samples[1].problem is None


def test_a_damaged_demonstration_flags_its_task_and_a_damaged_test_itself():
    bad = {"input": [[11]], "output": [[1]]}
    samples = samples_of([Task.of("a", {"train": [GOOD, bad], "test": [GOOD]})])
    assert [bool(sample.problem) for sample in samples] == [True] * 3
    assert str(samples[0].problem).startswith("a demonstration: a grid has the color 11")
    samples = samples_of([Task.of("a", {"train": [GOOD], "test": [bad, GOOD, "no pair"]})])
    assert [bool(sample.problem) for sample in samples] == [False, True, False, True]
    assert 'must be {"input": grid, "output": grid}' in str(samples[3].problem)


def test_the_ids_of_tasks_differ():
    task = Task("a", (Pair(((1,),), ((2,),)),), ())
    with pytest.raises(InputError, match="the task a is there twice"):
        samples_of([task, task])


def test_samples_given_as_tuples():
    samples = as_samples([("a", [([[1]], [[2]])], [[3]], [[4]]), ("b", (), [[5]], None), ("c", (), [[99]], ())])
    assert samples[0] == Sample("a", "test", 0, ((((1,),), ((2,),)),), ((3,),), ((4,),))
    assert samples[1].C == () and samples[1].problem is None
    assert "the color 99" in str(samples[2].problem) and samples[2].index == 2
    (flagged,) = as_samples([("a", 3, [[1]], ())])
    assert flagged.problem is not None
    arrays = as_samples([("a", (), np.array([[1]]), np.array([[2]]))])
    assert arrays[0].C == ((2,),)
    arrays = as_samples([("a", (), np.array([[1, 1]]), np.array([[2, 2]]))])
    assert arrays[0].C == ((2, 2),)


def test_samples_given_as_they_are_and_what_is_none():
    task = Task("a", (Pair(((1,),), ((2,),)),), ())
    assert as_samples(samples_of([task])) == as_samples([task])
    for given in ([3], [("a", (), ((1,),))], [task, ("a", (), ((1,),), ())]):
        with pytest.raises(InputError, match=r"sample 0 is a .*; give tasks, or \(task_id, S, I, C\)"):
            as_samples(given)
