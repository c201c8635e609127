"""Arguments of a wrong type or content, to every public function that takes data, a path or a result: each is answered
with a sentence that says what to give, and never with an error from inside."""

from collections.abc import Callable
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import brimful
from brimful import BrimfulError, gp, gpcm, locate, programs, wpo

IDENTITY = programs.loads("def solve_a(I):\n    return I")
SAMPLE = [("m", (), ((1,),), ((1,),))]
ROWS = np.zeros((20, 2), np.float32)
QUIET: dict[str, Any] = {"device": "cpu", "progress": False}

PATHS: dict[str, Callable[[Any], Any]] = {
    "open": brimful.open,
    "gp.load": gp.load,
    "gpcm.load": gpcm.load,
    "gpcm.read": gpcm.read,
    "gpcm.read_folder": gpcm.read_folder,
    "gpcm.train": lambda value: gpcm.train(value, epochs=1, **QUIET),
    "locate.load": locate.load,
    "locate.read": locate.read,
    "locate.train": lambda value: locate.train(value, epochs=1, **QUIET),
    "programs.compile": programs.compile,
    "programs.load": programs.load,
    "programs.load_result": programs.load_result,
    "programs.plan": lambda value: programs.plan(value, SAMPLE),
    "programs.read_tasks": programs.read_tasks,
    "programs.run": lambda value: programs.run(value, SAMPLE, **QUIET),
    "wpo.dataset": wpo.dataset,
    "wpo.load": wpo.load,
}
FILES = ("missing", "missing.csv", "folder", "empty.csv", "empty.npy", "empty.parquet", "text.csv", "text.npy")
FILES += ("text.parquet", "text.py", "binary.csv", "binary.npy", "binary.parquet", "binary.py")

# Without the checks of annotations, which only the tests make.
SCORES: dict[str, Callable[[Any], Any]] = {
    "gpcm.score": lambda value: unwrap(gpcm.score)(value, value),
    "locate.score": unwrap(locate.score),
    "wpo.memorization": lambda value: unwrap(wpo.memorization)(value, value),
    "wpo.nearest_neighbors": lambda value: unwrap(wpo.nearest_neighbors)(ROWS, value),
    "wpo.sliced_wasserstein": lambda value: unwrap(wpo.sliced_wasserstein)(value, ROWS),
}
COUNTS: dict[str, Callable[[Any], Any]] = {
    "gpcm.synthetic": lambda value: gpcm.synthetic(value, 5, 3),
    "locate.generate": locate.generate,
    "programs.generate": programs.generate,
    "wpo.toy": lambda value: wpo.toy("moons", value),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "gpcm.DeepGPCM": gpcm.DeepGPCM,
    "gpcm.synthetic_by_name": gpcm.synthetic_by_name,
    "locate.LocationNetwork": locate.LocationNetwork,
    "locate.write": lambda value: locate.write(value, "recordings.parquet"),
    "programs.loads": programs.loads,
    "programs.operation": lambda value: programs.operation(name="op")(value),
    "programs.run, samples": lambda value: programs.run(IDENTITY, value, **QUIET),
    "wpo.toy, name": lambda value: wpo.toy(value, 3),
}
OF_RESULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "gp.report": (gp.report, "give what gp.fit or gp.load returned"),
    "gpcm.report": (gpcm.report, "give what gpcm.train or gpcm.load returned"),
    "gpcm.save": (lambda value: gpcm.save(value, "model"), "give what gpcm.train or gpcm.load returned"),
    "locate.evaluate": (locate.evaluate, "give what locate.train or locate.load returned"),
    "locate.report": (locate.report, "give what locate.train or locate.load returned"),
    "locate.save": (lambda value: locate.save(value, "model"), "give what locate.train or locate.load returned"),
    "programs.report": (programs.report, "give what programs.run or programs.load_result returned"),
    "wpo.report": (wpo.report, "give what wpo.train or wpo.load returned"),
    "wpo.save": (lambda value: wpo.save(value, "model"), "give what wpo.train or wpo.load returned"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a folder and files that hold nothing of use."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in FILES:
        kind = name.partition(".")[0]
        if kind in ("empty", "text", "binary"):
            content = {"empty": b"", "text": b"hello world, no data\n", "binary": bytes(range(255, 128, -1))}
            (tmp_path / name).write_bytes(content[kind])
    return tmp_path


def refused(call: Callable[[Any], Any], value: Any) -> str:
    with pytest.raises(BrimfulError) as caught:
        call(value)
    return str(caught.value)


@pytest.mark.parametrize("name", PATHS)
def test_what_is_no_path_is_refused_with_what_to_give(name: str) -> None:
    for value in (3, 2.5, None, b"x", object(), {"a": 1}, "a\0b", torch.tensor(3)):
        assert "give " in refused(PATHS[name], value), value


@pytest.mark.parametrize("name", PATHS)
def test_a_path_without_what_is_wanted_is_refused_with_its_name(name: str) -> None:
    for file in FILES:
        message = refused(PATHS[name], file)
        assert file in message or "damaged" not in message, (file, message)


@pytest.mark.parametrize("name", [*COUNTS, *SCORES, *OTHERS])
def test_other_arguments_are_refused_by_their_type(name: str) -> None:
    call = (COUNTS | SCORES | OTHERS)[name]
    values = (None, b"x", object(), {"a": 1}, np.array("x"), np.array(["a", "b"]), [[1, 2], [3]])
    for value in (*values, *((float("nan"), 2.5, "3", True) if name in COUNTS else ())):
        refused(call, value)


@pytest.mark.parametrize("name", OF_RESULTS)
def test_what_is_no_result_is_refused_with_where_one_comes_from(name: str) -> None:
    call, wanted = OF_RESULTS[name]
    for value in (3, None, "folder", Path("folder"), {"a": 1}, ROWS):
        assert wanted in refused(call, value)


def test_a_fit_is_loaded_from_a_folder_and_nothing_else() -> None:
    assert refused(gp.load, 3) == "3 is of type int, and no path; give the folder of a fit"


def test_programs_are_loaded_from_a_file_and_nothing_else() -> None:
    sentence = "3 is of type int, and no path; give a file of programs, such as solvers.py, or a folder of them"
    assert refused(programs.load, 3) == refused(PATHS["programs.run"], 3) == sentence


def test_csv_whose_header_is_no_text_is_refused_by_every_reader() -> None:
    readers: list[Callable[[str], Any]] = [
        lambda file: brimful.map(torch.square, file, **QUIET),
        lambda file: brimful.data.loader(file, batch_size=2),
        lambda file: gp.fit(file, **QUIET),
        locate.read,
    ]
    for call in readers:
        assert "binary.csv" in refused(call, "binary.csv")


def test_numbers_that_no_float_or_integer_holds() -> None:
    """In the place of inputs they are refused; a large one among them is a float, one beyond that infinite."""
    for number in (10**30, -(10**400)):
        assert "give x as" in refused(lambda value: gp.fit(value, [1.0, 2.0], **QUIET), number)
    assert "holds NaN or infinities" in refused(lambda value: gp.fit([value, 1, 2], [1.0, 2, 3], **QUIET), 10**400)
    fit = gp.fit([0.0, 1.0, 2.0], [-(10**400), 2, 3], **QUIET)  # its task is flagged
    assert fit.status.tolist() == [gp.TaskStatus.INVALID]
