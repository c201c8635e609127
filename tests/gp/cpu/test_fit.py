"""The compiled twin against the one in torch."""

import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brimful.core.base.compilers import second_process
from brimful.gp.cpu import covariance, scores
from brimful.gp.cpu import fit as compiled
from brimful.gp.cpu import simd_lanes as lanes
from brimful.gp.cpu.borrowed import Layout
from brimful.gp.model.tasks import MEANS
from brimful.gp.optimize import initialization, scoring

from ..helpers.drawn import TEXTS, problem, thetas, waves

WIDE = [("rbf", 2, True), ("matern12", 3, False), ("periodic * linear", 2, True), ("rational_quadratic", 2, True)]
KINDS = [*((text, 1, False) for text in TEXTS), *WIDE]


pytestmark = pytest.mark.usefixtures("one_thread")


@settings(max_examples=25)
@example(("rbf", 2, True), "linear", None, False, 26)  # two points for a mean of three coefficients
@given(
    st.sampled_from(KINDS),
    st.sampled_from(MEANS),
    st.sampled_from([None, "weak"]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_likelihood_mean_and_gradient_are_the_same_anywhere(
    kind: tuple[str, int, bool], mean: str, priors: str | None, with_known: bool, seed: int
):
    text, dimensions, ard = kind
    x, y = waves(seed, 14, 9, dimensions, holes=0.3)
    known = torch.full_like(y, 0.1) if with_known else None
    some = problem(text, x, y, mean, priors=priors, ard=ard, known_TN=known)
    theta = thetas(seed, 14, some.kernel)
    if with_known:
        theta[:, -1] = initialization.NO_NOISE
    starts, options = (theta[:, None], torch.ones(14, dtype=torch.int64)), scoring.ScoringOptions(steps=0)
    plain = scoring.fit(some.kernel, some.tasks, some.limits, options, starts)
    native = compiled.fit(some.kernel, some.tasks, some.limits, options, starts)
    assert torch.equal(native.theta_TP, plain.theta_TP)
    assert torch.equal(native.ending_T, plain.ending_T)
    torch.testing.assert_close(native.nlml_T, plain.nlml_T, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(native.gradient_T, plain.gradient_T, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(native.beta_TQ, plain.beta_TQ, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kinds", [KINDS[::7], pytest.param(KINDS, marks=pytest.mark.soak)], ids=["some", "all"])
def test_the_twins_end_in_the_same_optimum(kinds: list[tuple[str, int, bool]]):
    gaps, endings = [], []
    for text, dimensions, ard in kinds:
        seed = KINDS.index((text, dimensions, ard))
        x, y = waves(seed, 12, 14, dimensions, holes=0.15)
        known = torch.full_like(y, 0.05) if seed % 5 == 0 else None
        some = problem(text, x, y, MEANS[seed % 3], priors=(None, "weak")[seed % 2], ard=ard, known_TN=known)
        pair = [
            fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions(tolerance=1e-8, steps=300))
            for fit in (compiled.fit, scoring.fit)
        ]
        gaps += (pair[0].nlml_T - pair[1].nlml_T).abs().tolist()
        endings += (pair[0].ending_T == pair[1].ending_T).tolist()
    assert np.isfinite(gaps).all()
    assert np.mean(np.array(gaps) < 1e-6) >= 0.98  # of local minima that are alike, a machine's rounding chooses
    assert np.mean(endings) >= 0.98


def test_threads_and_their_shares_make_no_difference(monkeypatch: pytest.MonkeyPatch):
    some = problem("rbf", *waves(0, 100, 8))
    expected = compiled.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions())
    monkeypatch.setattr(compiled, "_SHARE", 7)
    torch.set_num_threads(3)
    fitted = compiled.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions())
    assert torch.equal(fitted.theta_TP, expected.theta_TP)
    assert torch.equal(fitted.iterations_T, expected.iterations_T)


@settings(max_examples=8)
@given(st.sampled_from(KINDS), st.sampled_from(MEANS), st.integers(0, 10**6))
def test_a_task_is_the_same_beside_any_others(kind: tuple[str, int, bool], mean: str, seed: int):
    text, dimensions, ard = kind
    x, y = waves(seed, 60, 13, dimensions, holes=0.4)  # of many lengths
    for points in (0, 1, 2):
        y[points, points:] = torch.nan
    some = problem(text, x, y, mean, ard=ard)
    some.tasks.y_TN[4] *= 1e200  # no covariance explains it
    whole = compiled.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions(steps=5))
    for positions in ([4], [8, 1], [2, 4, 0, 7, 3, 6], list(range(5, 60, 2))):
        part = some.select(*positions)
        alone = compiled.fit(part.kernel, part.tasks, part.limits, scoring.ScoringOptions(steps=5))
        for name, one, other in zip(whole._fields, whole, alone, strict=True):
            assert torch.equal(one[positions].nan_to_num(), other.nan_to_num()), name


def test_what_is_infinite_in_one_task_does_not_touch_those_that_come_after_it():
    x, y = waves(3, 64, 13)
    x[4:] = 1e200  # the inner products of a linear kernel overflow
    y[:4, 5:] = torch.nan
    some = problem("linear", x, y, "zero")
    whole = compiled.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions())
    part = some.select(0, 1, 2, 3)
    alone = compiled.fit(part.kernel, part.tasks, part.limits, scoring.ScoringOptions())
    assert alone.ending_T.tolist() == [scoring.CONVERGED] * 4
    assert torch.equal(whole.theta_TP[:4], alone.theta_TP)


@pytest.mark.parametrize("text", ["rbf", "matern12", "matern32", "matern52"])
@pytest.mark.parametrize("length", [1e-6, 1e-9, 1e-14])
def test_lengthscales_far_below_any_distance(text: str, length: float):
    x, y = waves(4, 8, 9)
    some = problem(text, x, y, bounds={"lengthscale": (length, length)})
    pair = [fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions()) for fit in (compiled.fit, scoring.fit)]
    assert torch.equal(pair[0].ending_T, pair[1].ending_T)
    torch.testing.assert_close(pair[0].nlml_T, pair[1].nlml_T, rtol=1e-9, atol=1e-6)


def test_variances_of_which_eight_are_too_little_for_a_number():
    tiny = (1e-80, 1e-80)
    some = problem("rbf", *waves(5, 5, 12), bounds={"variance": tiny, "noise": tiny})
    plain = scoring.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions())
    native = compiled.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions())
    assert torch.equal(native.ending_T, plain.ending_T)
    torch.testing.assert_close(native.nlml_T, plain.nlml_T, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("size", [1e80, 1e160])
def test_noises_of_which_eight_are_too_much_for_a_number(size: float):
    x, y = waves(5, 5, 12)
    some = problem("rbf", x, y)
    known = torch.full_like(some.tasks.y_TN, 0.1)
    known[:, :8] = size
    some = replace(some, tasks=replace(some.tasks, known_TN=known))
    theta = thetas(5, 5, some.kernel)
    theta[:, -1] = initialization.NO_NOISE
    begin, options = (theta[:, None], torch.ones(5, dtype=torch.int64)), scoring.ScoringOptions(steps=0)
    limits = replace(some.limits, fixed_P=torch.tensor([False, False, True]))
    plain = scoring.fit(some.kernel, some.tasks, limits, options, begin)
    native = compiled.fit(some.kernel, some.tasks, limits, options, begin)
    torch.testing.assert_close(native.nlml_T, plain.nlml_T, rtol=1e-9, atol=1e-6)


def test_lanes_compute_like_numbers():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 3, lanes.WIDTH))
    a[0, 0] = b[0, 1] = 0.0
    out = np.zeros((7, 3, lanes.WIDTH))

    @numba.njit(error_model="numpy")
    def compute(a, b, out):
        for row in range(3):
            x, y = lanes.load(a, row), lanes.load(b, row)
            lanes.store(out, row, x * y + 1.0 - y)
            lanes.store(out, 3 + row, x / y)
            lanes.store(out, 6 + row, lanes.maximum(x, 0.25))
            lanes.store(out, 9 + row, lanes.sqrt(y * y))
            lanes.store(out, 12 + row, lanes.rsqrt(x))
            x += y
            lanes.store(out, 15 + row, x)
            lanes.store(out, 18 + row, lanes.broadcast(float(row)))

    compute(a, b, out)
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.where(a > 0, 1 / np.sqrt(np.abs(a)), np.nan)
        wanted = [a * b + 1 - b, a / b, np.maximum(a, 0.25), np.abs(b), roots, a + b]
    for position, value in enumerate(wanted):
        np.testing.assert_allclose(out[position], value, rtol=1e-15)
    assert (out[6] == np.arange(3.0)[:, None]).all()


@pytest.mark.parametrize("most", [3.0, 1e4, 1e9])
def test_sines_of_lanes_are_those_of_numbers_however_many_turns(most: float):
    angle = np.random.default_rng(0).uniform(0, most, (500, lanes.WIDTH))
    angle[:5] *= 1e-9 / most
    out = np.zeros((2, 500, lanes.WIDTH))

    @numba.njit(error_model="numpy")
    def compute(angle, out):
        for row in range(len(angle)):
            within = covariance._within_half_turn(lanes.load(angle, row))
            sine, cosine = covariance._sine(within), covariance._cosine(within)
            lanes.store(out, row, sine * sine)
            lanes.store(out, len(angle) + row, sine * cosine)

    compute(angle, out)
    np.testing.assert_allclose(out[0], np.sin(angle) ** 2, rtol=2e-15, atol=1e-15)
    np.testing.assert_allclose(out[0, :5], np.sin(angle[:5]) ** 2, rtol=2e-15)
    np.testing.assert_allclose(out[1], np.sin(2 * angle) / 2, atol=2e-15)


Pair = namedtuple("Pair", "numbers flags scale counts")
PAIR = Layout(Pair, "f2 b1 f0 i3")
pair_at = PAIR.at


@lanes.compiled
def fill(pair, rows):
    for i in range(len(pair.numbers)):
        pair.flags[i] = i % 2 == 1
        lanes.store(rows, i, lanes.load(pair.numbers, i) + float(i) * pair.scale)
    for i in range(pair.counts.shape[1]):
        pair.counts[0, i, 1] = 10 * len(pair.counts) + i


@numba.njit
def fill_at(address):
    pair = pair_at(address)
    fill(pair, lanes.rows(pair.numbers))
    return pair.counts.size


def test_arrays_are_lent_by_one_address():
    pair = Pair(np.ones((5, lanes.WIDTH)), np.ones(5, bool), 0.5, np.zeros((2, 3, 2), np.int64))
    lent = PAIR.lend(pair)
    assert fill_at(lent.address) == 12
    assert (pair.numbers == 1 + 0.5 * np.arange(5)[:, None]).all()
    assert pair.flags.tolist() == [False, True, False, True, False]
    assert pair.counts[0].tolist() == [[0, 20], [0, 21], [0, 22]] and not pair.counts[1].any()


def test_working_memory_is_made_of_zeros():
    lent = PAIR.make([(3, lanes.WIDTH), (3,), 2.0, (1, 0, 4)])
    assert fill_at(lent.address) == 0
    _, memory = lent.memory
    first = -memory.ctypes.data % 64
    assert memory[first : first + 96].view(float).tolist() == np.repeat([0.0, 2.0, 4.0], lanes.WIDTH).tolist()
    assert memory[first + 128 : first + 131].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"numbers": np.ones((5, lanes.WIDTH), np.float32)},
        {"numbers": np.ones((5, 2 * lanes.WIDTH))[:, ::2]},
        {"flags": np.ones((5, 1), bool)},
        {"counts": np.zeros((1, 1, 1), np.int32)},
    ],
)
def test_arrays_of_other_types_are_not_lent(wrong: dict[str, np.ndarray]):
    pair = Pair(np.ones((5, lanes.WIDTH)), np.ones(5, bool), 0.5, np.zeros((2, 3, 2), np.int64))
    with pytest.raises(TypeError, match="an array is"):
        PAIR.lend(pair._replace(**wrong))


def test_what_is_given_is_left_as_it_was():
    some = problem("rbf", *waves(1, 4, 8))
    theta = thetas(1, 4, some.kernel)
    before = theta.clone(), some.tasks.y_TN.clone(), some.limits.low_TP.clone()
    starts = (theta[:, None], torch.ones(4, dtype=torch.int64))
    compiled.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions(), starts)
    for one, other in zip(before, (theta, some.tasks.y_TN, some.limits.low_TP), strict=True):
        assert torch.equal(one, other)


def test_what_a_second_process_compiles_needs_no_torch():
    module, program = scores.__name__, f"import sys; sys.modules['torch'] = None\n{second_process._PROGRAM}"
    root = str(Path(scores.__file__).parents[module.count(".")])
    command = [sys.executable, "-c", program, root, module, scores.entry_point.__name__, *sys.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait() == 0


@pytest.mark.parametrize("starts", [False, True])
def test_a_loop_is_compiled_once_for_all_kernels_and_shapes(starts: bool):
    for seed, (text, dimensions, ard) in enumerate(KINDS[:3]):
        some = problem(text, *waves(seed, 5, 6 + seed, dimensions), ard=ard)
        theta = thetas(seed, 5, some.kernel)
        begin = (theta[:, None], torch.ones(5, dtype=torch.int64)) if starts else None
        compiled.fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions(steps=1), begin)
    loop = compiled._descend if starts else scores.score
    assert len(loop.overloads) == 1
