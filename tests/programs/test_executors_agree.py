"""Both executors on whole programs: every value, failure, category and status the same, on real grids."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from brimful import programs
from brimful.programs.batched.evaluation.executor import Batched
from brimful.programs.batched.results import sample_batch
from brimful.programs.batched.results.sample_batch import run_batch
from brimful.programs.execution.arguments import Arguments
from brimful.programs.executors.choice import CPU
from brimful.programs.executors.comparison import first_difference
from brimful.programs.executors.runner import Runner

from .helpers.random_batts import random_batt
from .helpers.small import arc_samples, own_solvers
from .helpers.words import batt, guarded

STORED = batt(
    *guarded("t1", "o_g(I, R5)", "o_g", "(TypeError, AttributeError, ValueError)"),
    *guarded("t2", "get_nth_f(t1, F0)", "get_nth_f", "(TypeError, AttributeError, ValueError)"),
    *guarded("t3", "subgrid(t2, I)", "subgrid", "(TypeError, AttributeError, ValueError, IndexError)"),
    *guarded("t4", "get_color_rank_t(I, L1)", "get_color_rank_t", "(TypeError, ValueError)"),
    *guarded("t5", "f_ofcolor(I, t4)", "f_ofcolor", "(TypeError, ValueError)"),
    *guarded("t6", "fill(I, RED, t5)", "fill", "(TypeError, AttributeError, ValueError)"),
    *guarded("t7", "rbind(get_nth_t, F0)", "rbind", "(TypeError, ValueError)"),
    *guarded("t8", "t7(S)", "t7", "(TypeError, ValueError, KeyError)"),
    *guarded("t9", "difference_tuple(I, C)", "difference_tuple", "(TypeError, AttributeError, ValueError)"),
    *guarded("t10", "mapply_t(height_t, S)", "mapply_t", "(TypeError, AttributeError, ValueError)"),
    *guarded("t11", "hconcat(t3, t6)", "hconcat", "KeyError"),
    *guarded("t12", "mir_rot_t(t6, R1)", "mir_rot_t", "(TypeError, ValueError)"),
    "o.append((3, False, 'a', t3))",
    "o.append((6, False, 'b', t6))",
    "o.append((12, False, 'c', t12))",
    "s.append((9, 'None', 'differ_1', t9))",
    "s.append((10, 'None', 'differ_2', t10, t8, t11))",
)
"""In the dialect of stored batts: listed exceptions, calls of function values, scores, the generator's own names."""


def compare(loaded: programs.Programs, samples: list[programs.Sample], on_error: str = "default") -> None:
    """What runs return of them: every output and score, status, failing operation and category."""
    given = [Arguments(sample.task, sample.S, sample.I, sample.C) for sample in samples]
    runner = Runner(loaded, on_error, pair_by_name=False)
    nothing: list[str | None] = [None] * len(given)
    one, other = runner.sequential(given, nothing), runner.batched(given, nothing, CPU)
    for name in ("outcome", "step", "category", "equal"):
        assert (getattr(one, name) == getattr(other, name)).all(), name
    assert list(one.encoded) == list(other.encoded)


def compare_steps(loaded: programs.Programs, samples: list[programs.Sample], on_error: str = "default") -> None:
    """The same, and every step of them, whether a program returns it or not."""
    given = [Arguments(sample.task, sample.S, sample.I, sample.C) for sample in samples]
    assert first_difference(loaded.merge(), on_error, given, CPU) is None
    compare(loaded, samples, on_error)


def test_a_generated_batt_of_1600_operations():
    compare(programs.loads(programs.generate(1_600, seed=11)), arc_samples(30, "all", cells=60))


def test_a_batt_as_they_are_stored():
    compare_steps(programs.loads(STORED), arc_samples(60, "all"))
    compare_steps(programs.loads(STORED), arc_samples(20), on_error="propagate")


@pytest.mark.parametrize("seed", range(4))
def test_batts_of_random_calls(seed: int):
    loaded = programs.loads(random_batt(120, seed))
    compare_steps(loaded, arc_samples(8, "all", cells=150, seed=seed), "propagate" if seed == 3 else "default")


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_many_batts_of_random_calls(part: int):
    """Two thousand batts of 20 to 120 operations."""
    samples = arc_samples(8, "all", cells=200, seed=part)
    for seed in range(1_000 + part * 100, 1_100 + part * 100):
        loaded = programs.loads(random_batt(20 + seed % 101, seed))
        compare_steps(loaded, samples, "default" if seed % 4 else "propagate")


def test_our_solvers():
    compare(own_solvers(), arc_samples(12, cells=60))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(7))
def test_all_pairs(part: int):
    samples = arc_samples(10_000, "all")[part::7]
    assert len(samples) == 500
    compare_steps(programs.loads(programs.generate(1_600, seed=part)), samples)
    compare_steps(own_solvers(), samples)
    compare_steps(programs.loads(STORED), samples)


def whole_batch(count: int, device: str, text: str) -> list[np.ndarray]:
    """What a batch of pairs gives: what became of every candidate, and the bytes of what programs return."""
    samples = [Arguments(of.task, of.S, of.I, of.C) for of in arc_samples(count, "all")]
    graph = programs.loads(text).merge()
    *became, encoded, _ = run_batch(Batched(graph, device=device), samples, [None] * len(samples))
    return [*became, encoded.flat, encoded.offsets]


@pytest.mark.parametrize("write", [partial(programs.generate, 400, 0), partial(random_batt, 150, 1)])
def test_results_are_the_same_bytes_as_a_gpu_writes_them(monkeypatch: pytest.MonkeyPatch, write: Callable[[], str]):
    """On a CPU, by what torch does in the place of kernels."""
    text = write()
    here = whole_batch(12, "cpu", text)
    monkeypatch.setattr(sample_batch, "writes_on_host", lambda device: False)
    for one, other in zip(here, whole_batch(12, "cpu", text), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.soak
@pytest.mark.gpu
@pytest.mark.parametrize("write", [partial(programs.generate, 1_600, 0), partial(random_batt, 300, 1)])
def test_all_pairs_on_a_gpu(write: Callable[[], str]):
    text = write()
    for one, other in zip(*(whole_batch(10_000, device, text) for device in ("cuda", "cpu")), strict=True):
        assert np.array_equal(one, other)


MAKES_A_FUNCTION = """
def solve_x(I):
    x1 = objects(I, T, F, T)
    x2 = lbind(colorfilter, x1)
    x3 = lbind(rbind, gravitate)
    x4 = chain(x3, first, x2)
    x5 = x4(EIGHT)
    x6 = branch(F, x5, I)
    return x6
"""

DIVIDES = """
def solve_x(I):
    x1 = shape(I)
    x2 = astuple(THREE, THREE)
    x3 = subtract(x1, x2)
    x4 = divide(TEN, x3)
    return x4
"""

DIFFER = """
def solve_x(I):
    x1 = canvas(ONE, THREE_BY_THREE)
    x2 = cellwise(I, x1, TEN)
    return x2
"""


@pytest.mark.parametrize("text", [MAKES_A_FUNCTION, DIVIDES, DIFFER])
def test_samples_of_which_some_fail(text: str):
    """A call that makes a function fails where it is called; what fails for one row of a form need not for another."""
    inputs = [((1,) * size,) * size for size in (2, 3, 4, 5)] + [((8, 2), (3, 8))]
    given = [Arguments(str(number), (), grid, ()) for number, grid in enumerate(inputs)]
    for on_error in ("default", "propagate"):
        assert first_difference(programs.loads(text).merge(), on_error, given, CPU) is None


CALLED_WRONGLY = [
    [*guarded("t1", "rbind(height_f, F0)", "rbind"), *guarded("t2", "compose(size, t1)", "compose"),
     *guarded("t3", "apply_t(t2, I)", "apply_t")],
    guarded("t3", "toivec(height_f)", "toivec"),
    guarded("t3", "tojvec(height_f)", "tojvec"),
]  # fmt: skip


@pytest.mark.parametrize("steps", CALLED_WRONGLY)
def test_functions_that_are_called_wrongly(steps: list[str]):
    """Inside of a function, what is given no value is not called, and yields no default."""
    compare_steps(programs.loads(batt(*steps, "o.append((3, False, 'a', t3))")), arc_samples(4, "all"))


@pytest.mark.parametrize("seed", [620, 5388])
def test_a_function_that_closes_over_what_failed_is_no_value(seed: int):
    """Programs that return it, of the soak below."""
    text = programs.generate(5 + seed % 36, seed=seed, mutation_rate=0.3)
    compare_steps(programs.loads(text), arc_samples(8, "all", cells=200, seed=seed // 500), "propagate")


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_generated_programs(part: int):
    """Ten thousand batts of 5 to 40 operations, with many mutations."""
    samples = arc_samples(8, "all", cells=200, seed=part)
    for seed in range(part * 500, part * 500 + 500):
        text = programs.generate(5 + seed % 36, seed=seed, mutation_rate=0.3, programs=own_solvers())
        compare_steps(programs.loads(text), samples, "default" if seed % 4 else "propagate")
