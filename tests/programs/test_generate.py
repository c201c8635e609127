"""A batt of any length: exact, the same for the same seed, and a program like others."""

import pytest

from brimful import ConfigError, programs
from brimful.programs.data.tasks import samples_of
from brimful.programs.language.graph import Graph
from brimful.programs.language.program import Form

from .helpers.small import arc_tasks, own_solvers
from .helpers.words import solver


@pytest.mark.parametrize("operations", [1, 10, 400, 2_000])
def test_the_length_is_exact_and_it_loads(operations: int):
    text = programs.generate(operations, seed=3, programs=own_solvers())
    (batt,) = programs.loads(text)
    assert batt.form is Form.BATT and batt.operations == operations
    assert len(batt.outputs) >= 1
    assert Graph.of([batt]).merged + Graph.of([batt]).dead == operations  # nothing is written twice
    assert text == programs.generate(operations, seed=3, programs=own_solvers())


def test_another_seed_gives_another_batt():
    texts = {programs.generate(60, seed=seed, programs=own_solvers()) for seed in range(4)}
    assert len(texts) == 4


def test_what_is_merged_still_solves_its_tasks():
    batts = programs.loads(programs.generate(300, seed=1))
    (batt,) = batts
    names = [batt.nodes[record[2]].value for record in batt.outputs[:-1]]
    tasks = {task.id: task for task in arc_tasks("training")}
    samples = [sample for name in names[:6] for sample in samples_of([tasks[name]])]
    result = programs.run(batts, samples, device="cpu", progress=False)
    scores = {(row["program"], row["task"]): row["solved"] for row in result.scores.to_pylist()}
    for number, name in enumerate(names[:6]):
        assert scores[f"batt_{number}_{name}", name]


def test_copies_beyond_the_first_are_mutated():
    sources = own_solvers()[:5]
    written = sum(program.operations for program in sources)
    text = programs.generate(3 * written, seed=0, mutation_rate=0.3, programs=sources)
    (batt,) = programs.loads(text)
    assert batt.operations == 3 * written
    outputs = [record[-1] for record in batt.outputs]
    assert len(outputs) > len(sources) and len(set(outputs)) > len(sources)


def test_a_rate_of_zero_still_grows_to_the_length():
    sources = list(programs.loads(solver("x = vmirror(I)", "y = first(x)", "y")))
    (batt,) = programs.loads(programs.generate(12, mutation_rate=0.0, programs=sources))
    assert batt.operations == 12


def test_what_cannot_be_generated():
    with pytest.raises(ConfigError, match="operations is 0; give a whole number from 1 on"):
        programs.generate(0)
    with pytest.raises(ConfigError, match=r"mutation_rate is 1\.5; give a share from 0 to 1"):
        programs.generate(10, mutation_rate=1.5)
    with pytest.raises(ConfigError, match="no solvers to merge"):
        programs.generate(10, programs=list(programs.loads(programs.generate(3))))
    with pytest.raises(ConfigError, match=r"cannot grow to 50 operations"):
        programs.generate(50, programs=list(programs.loads(solver("I"))))
