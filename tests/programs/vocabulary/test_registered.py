"""Operations of the user's own."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brimful import ConfigError, programs
from brimful.programs.vocabulary.registered import registered

from ..helpers.own_operations import own_operations
from ..helpers.words import solver

SAMPLES: list[Any] = [("a", (), ((1, number % 10),), ((1, number % 10),) * 2) for number in range(6)]
TEXT = solver("x = tall(I, TWO)", "y = cells_of(I)", "z = fill(x, ONE, y)", "z")


@pytest.fixture
def own() -> Iterator[None]:
    with own_operations():
        yield


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_programs_call_them_here_and_in_worker_processes(device: str):
    text = TEXT + solver("f = cells_of", "x = f(I)", "x", name="called")
    result = programs.run(programs.loads(text), SAMPLES, device=device, progress=False)
    assert [row[0] for row in result.outputs] == [sample[3] for sample in SAMPLES]
    assert {(failure.operation, failure.category) for failure in result.failures} == {
        ("cells_of", "ValueError"),
        ("a function value", "ValueError"),
    }
    assert [row[1] for row in result.outputs] == [frozenset()] * len(SAMPLES)


def test_the_emitted_module_calls_them_and_says_which_are_missing(tmp_path: Path):
    with own_operations():
        path = programs.compile(programs.loads(TEXT)).save(tmp_path)
        module = runpy.run_path(str(path))
        assert module["batt"]("a", (), ((1, 2),), ())[0][0][-1] == ((1, 2), (1, 2))
    with pytest.raises(ConfigError, match="this module calls cells_of, tall, which arc-dsl does not have"):
        runpy.run_path(str(path))


def test_without_them_the_name_is_unknown():
    with pytest.raises(programs.ProgramError, match="tall: unknown name"):
        programs.loads(TEXT)


@pytest.mark.usefixtures("own")
def test_types_are_checked_by_their_annotations():
    with pytest.raises(programs.ProgramError, match="tall: takes 2 arguments, and gets 1"):
        programs.loads(solver("x = tall(I)", "x"))
    with pytest.raises(programs.ProgramError, match="tall: argument 1 is Integer; it takes Grid"):
        programs.loads(solver("x = tall(TWO, TWO)", "x"))
    assert registered()["tall"].default == () and registered()["cells_of"].default == frozenset()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fill", "'fill', as one of arc-dsl"),
        ("TWO", "'TWO', as one of arc-dsl"),
        ("o_g", "'o_g', as one of batt"),
        ("my op", "give name= a Python identifier"),
        ("for", "no keyword"),
        ("I", "no input"),
        ("t12", "no name of a step"),
        ("_own", "leading underscore"),
        ("failures", "an operation named 'failures'"),
    ],
)
def test_names_that_are_taken(name: str, message: str):
    before = registered()
    with pytest.raises(ConfigError, match=message):
        programs.operation(name=name)(lambda grid: grid)
    assert registered() == before


def test_functions_that_cannot_be_operations():
    def keywords(*, grid: Any) -> Any:
        return grid

    def annotated(grid: "Matrix") -> Any:  # pyright: ignore
        return grid

    with pytest.raises(ConfigError, match="takes \\*args or keywords"):
        programs.operation(keywords)
    with pytest.raises(ConfigError, match="annotated 'Matrix'; the types of programs are Any, Boolean"):
        programs.operation(annotated)


@pytest.mark.usefixtures("own")
def test_a_batched_form_is_kept_beside_the_plain_one():
    def one(grid: Any) -> Any:
        return grid

    def many(grids: Any) -> Any:
        return grids

    assert programs.operation(name="own_one", batched=many)(one) is one
    assert registered()["own_one"].batched is many and registered()["own_one"].function is one


@pytest.mark.usefixtures("own")
def test_a_value_that_is_none_of_a_program_flags_its_sample_and_no_other():
    @programs.operation(name="listed")
    def listed(grid: Any) -> Any:
        return [1] if grid[0][1] == 3 else grid

    result = programs.run(programs.loads(solver("x = listed(I)", "x")), SAMPLES, device="cpu", progress=False)
    assert list(result.messages) == [3]
    assert "a program gave a list; operations must give numbers, tuples and sets" in result.messages[3]
    assert [row[0] for row in result.outputs] == [None if n == 3 else sample[2] for n, sample in enumerate(SAMPLES)]
