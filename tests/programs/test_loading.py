"""Programs, and some of them: what is chosen is run, merged, stored and read again as a whole file is."""

import pickle
from pathlib import Path

import pytest

from brimful import ChangedError, InputError, programs
from brimful.programs.data.tasks import as_samples
from brimful.programs.executors.sample_function import SampleFunction
from brimful.programs.loading import Programs, reload

FIRST = """
def solve_a(I):
    x1 = vmirror(I)
    O = hmirror(x1)
    return O

def solve_b(I):
    x1 = vmirror(I)
    O = rot90(x1)
    return O

def solve_c(I):
    O = rot180(I)
    return O
"""
ALWAYS_FAILS = """
def batt(task_id, S, I, C, log_path):
    s = []
    o = []
    t1 = add(I)
    o.append((1, 'N', 'a', t1))
    return o, s
"""
SECOND = "def solve_d(I):\n    O = dmirror(I)\n    return O\n"
SAMPLES = [("t", (), ((1, 2), (3, 4)), ((4, 3), (2, 1))), ("t", (), ((5, 6, 7),), ((7, 6, 5),))]


@pytest.fixture(scope="module")
def whole() -> Programs:
    return programs.loads(FIRST) + programs.loads(SECOND)


def names(of: Programs) -> list[str]:
    return [program.name for program in of]


def test_by_name_by_names_and_by_slice(whole: Programs):
    assert names(whole["solve_d"]) == ["solve_d"]
    assert names(whole["solve_d", "solve_a"]) == ["solve_d", "solve_a"]
    assert names(whole[["solve_c", "solve_b"]]) == ["solve_c", "solve_b"]
    assert names(whole[1:]) == ["solve_b", "solve_c", "solve_d"]
    assert names(whole[::-2]) == ["solve_d", "solve_b"]
    assert whole[-1].name == "solve_d"
    assert names(whole[1:][1:]["solve_c"] + whole["solve_a"]) == ["solve_c", "solve_a"]


@pytest.mark.parametrize("executor", ["sequential", "batched"])
def test_they_are_run_and_merged(whole: Programs, executor: str):
    some = whole["solve_d", "solve_b"]
    assert some.merge().merged == 3
    result = programs.run(some, SAMPLES, executor=executor, device="cpu", workers=1, progress=False)
    every = programs.run(whole, SAMPLES, executor=executor, device="cpu", workers=1, progress=False)
    assert names(result.programs) == ["solve_d", "solve_b"]
    for mine, of in zip(result.outputs, every.outputs, strict=True):
        assert list(mine) == [of[3], of[1]]


def test_they_are_read_again_elsewhere(whole: Programs):
    for some in (whole["solve_d", "solve_b"], whole[1:3], whole[::-1], whole[2:]["solve_d", "solve_c"]):
        assert names(reload(some.sources)) == names(some)
        sent = pickle.loads(pickle.dumps(SampleFunction(some, as_samples(SAMPLES))))
        assert names(reload(sent.sources)) == names(some)


def test_a_run_of_some_is_another_run(whole: Programs, tmp_path: Path):
    out = tmp_path / "run"
    options = {"executor": "sequential", "device": "cpu", "workers": 1, "progress": False}
    result = programs.run(whole["solve_c", "solve_a"], SAMPLES, out=out, **options)
    opened = programs.load_result(out)
    assert names(opened.programs) == ["solve_c", "solve_a"]
    assert list(opened.outputs) == list(result.outputs)
    with pytest.raises(ChangedError):
        programs.run(whole["solve_c", "solve_b"], SAMPLES, out=out, **options)


def test_notes_are_those_of_the_programs_chosen():
    loaded = programs.loads(ALWAYS_FAILS, file="batt.py") + programs.loads(SECOND, file="second.py")
    assert loaded.notes
    assert loaded["solve_d"].notes == ()
    assert loaded["batt"].notes == loaded.notes


def test_a_name_that_is_not_there(whole: Programs):
    with pytest.raises(InputError, match="no program 'solve_aa' among 4; did you mean 'solve_a'"):
        whole["solve_aa"]
    with pytest.raises(InputError, match="no programs; give at least one"):
        programs.run(whole[:0], SAMPLES, progress=False)
