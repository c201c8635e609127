"""The fused kernel against its plain twin: compiled where there is a GPU, interpreted where there is none."""

import inspect
import math
import os
from dataclasses import fields, replace
from typing import Any, cast
from unittest.mock import patch

import pytest
import torch

from ...helpers.forking import completed, run_module

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernel is defined

pytest.importorskip("triton")

import triton
import triton.language as tl

from brimful.gp.batch_functions import GPModel, fit_batch
from brimful.gp.gpu import eigenbasis as gpu_eigenbasis
from brimful.gp.gpu import (
    fit,
    grid_search,
    layout,
    matrix_fit,
    predict,
    profile,
    scoring_step,
    stragglers,
)
from brimful.gp.gpu import likelihood as _kernels
from brimful.gp.gpu import matrices as gpu_matrices
from brimful.gp.gpu import standardize as fused_standardize
from brimful.gp.gpu.cholesky import exp_negative
from brimful.gp.gpu.layout import innermost, lay_out
from brimful.gp.model import likelihood, posterior
from brimful.gp.model.kernels import parse
from brimful.gp.model.priors import limits
from brimful.gp.model.tasks import TaskStatus, standardize
from brimful.gp.optimize import eigenbasis, initialization, matrices, scoring, subsets
from brimful.gp.posteriors import Posterior

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LINEAR, ARD = ("rbf", 1, False, "linear"), ("matern52", 3, True, "zero")
MORE = [
    ("rbf", 1, False, "zero"),
    ("matern12", 1, False, "constant"),
    ("matern32", 2, False, "constant"),
    ("matern52", 3, True, "constant"),
    ("matern52", 1, False, "linear"),
]
soak = pytest.mark.soak  # the interpreter takes its time: a few cases here, all of them there
CASES = [LINEAR, ARD, *(pytest.param(*case, marks=soak) for case in MORE)]


@pytest.fixture(autouse=True)
def one_round(monkeypatch: pytest.MonkeyPatch):
    """Of the profile's refinement, for the interpreter; test_profile.py has all of them."""
    if DEVICE == "cpu":
        for module in (initialization, profile):
            monkeypatch.setattr(module, "WINDOWS", (4.0,))


def draw(text: str, dimensions: int, ard: bool, mean: str, tasks: int = 5, points: int = 6):
    generator = torch.Generator().manual_seed(3)
    x = 3 * torch.rand(tasks, points, dimensions, generator=generator, dtype=torch.float64)
    y = torch.sin(4 * x.sum(-1)) + 0.3 * torch.randn(tasks, points, generator=generator, dtype=torch.float64)
    y[torch.rand(tasks, points, generator=generator) < 0.15] = torch.nan
    kernel = parse(text, dimensions, ard)
    standardized, units, _ = standardize(x.to(DEVICE), y.to(DEVICE), kernel, mean)
    theta = torch.randn(tasks, len(kernel.names) + 1, generator=generator, dtype=torch.float64) / 2 - 1
    return kernel, standardized, units, theta.to(DEVICE)


def _evaluate(kernel: Any, tasks: Any, theta: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What `likelihood.evaluate` in `gp.model` returns, by the fused kernel."""
    laid = lay_out(tasks)
    out = _kernels.evaluate(kernel, laid, torch.arange(len(tasks), device=DEVICE).int(), theta)
    return 0.5 * (out.value_L2.sum(1) + math.log(2 * math.pi) * laid.count_T), *out[1:]


@pytest.mark.parametrize(("text", "dimensions", "ard", "mean"), CASES)
def test_it_equals_its_plain_twin(text: str, dimensions: int, ard: bool, mean: str):
    kernel, tasks, _, theta = draw(text, dimensions, ard, mean, points=4 if ard else 6)
    assert _kernels.serves(kernel, 9, tasks.coefficients)
    plain, fused = likelihood.evaluate(kernel, tasks, theta), _evaluate(kernel, tasks, theta)
    for ours, wanted in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(fused[0], plain[0], rtol=1e-9, atol=1e-9)
    laid = lay_out(tasks)
    every = torch.arange(len(tasks), device=DEVICE).int()
    value = _kernels.evaluate(kernel, laid, every, theta, want=False).value_L2
    torch.testing.assert_close(value[:, 0], likelihood.score(kernel, tasks, theta)[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("text", "dimensions", "ard", "mean"), CASES)
@pytest.mark.parametrize("points", [5, pytest.param(37, marks=soak)])
def test_whole_matrices_equal_their_plain_twin(text: str, dimensions: int, ard: bool, mean: str, points: int):
    kernel, tasks, _, theta = draw(text, dimensions, ard, mean, tasks=3, points=points)
    tasks = replace(tasks, known_TN=0.1 + torch.rand_like(tasks.y_TN)) if mean == "linear" else tasks
    index = torch.arange(3, device=DEVICE).int().flip(0)
    ours, plain = (module.MatrixEvaluator(kernel, tasks) for module in (gpu_matrices, matrices))
    for fused, wanted in zip(ours.evaluate(index, theta), plain.evaluate(index, theta), strict=True):
        torch.testing.assert_close(fused, wanted, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(ours.score(index, theta), plain.score(index, theta), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("mean", "steps"), [("constant", 1), pytest.param("zero", 6, marks=soak)])
def test_a_fit_by_whole_matrices_is_that_of_its_twin(mean: str, steps: int):
    kernel, tasks, units, _ = draw("rbf", 1, False, mean, tasks=steps, points=5)
    within, options = limits(kernel, units, "weak", None, False), scoring.ScoringOptions(steps=steps)
    with patch.multiple(subsets, POINTS=4, STARTS=2), patch.object(matrix_fit, "_WIDER", 1.0):
        plain, fused = (fitter.fit(kernel, tasks, within, options) for fitter in (subsets, matrix_fit))
    torch.testing.assert_close(fused.nlml_T, plain.nlml_T, rtol=1e-6, atol=1e-4)
    torch.testing.assert_close(fused.theta_TP, plain.theta_TP, rtol=1e-3, atol=1e-3)
    assert fused.ending_T.tolist() == plain.ending_T.tolist()
    none = matrix_fit.fit(kernel, tasks.select(torch.arange(0)), within.select(torch.arange(0)), options)
    assert [len(values) for values in none] == [0] * 6


def test_tasks_are_evaluated_with_others_of_about_as_many_points():
    last = torch.tensor([9, 200, 10, 180, 60, 9, 61], device=DEVICE)
    index = torch.tensor([0, 1, 2, 3, 4, 5], device=DEVICE)
    assert [part.tolist() for part in matrix_fit.parts(index, last, 10)] == [[0, 5, 2], [4], [3, 1]]
    assert [part.tolist() for part in matrix_fit.parts(index, last, 2)] == [[0, 5], [2], [4], [3, 1]]


@triton.jit
def _decays(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, exp_negative(tl.load(x + i)))


def test_the_exponential_is_that_of_the_library():
    far = torch.linspace(-700, 0, 1018, dtype=torch.float64)
    x = torch.cat([far, far / 100, torch.tensor([-0.0, -1e-20, -701.0, -1e300, -math.inf, math.nan])]).double()
    x = torch.cat([x, torch.zeros(2048 - len(x), dtype=torch.float64)]).to(DEVICE)
    fitted, run = torch.empty_like(x), cast(Any, _decays)
    run[(1,)](x, fitted, N=2048)
    torch.testing.assert_close(fitted, torch.exp(x.clamp(min=-700)), rtol=5e-16, atol=0, equal_nan=True)


def test_known_noise():
    kernel, tasks, _, theta = draw("rbf", 1, False, "constant", points=4)
    known = replace(tasks, known_TN=0.1 + torch.rand_like(tasks.y_TN))
    torch.testing.assert_close(
        _evaluate(kernel, known, theta)[0], likelihood.evaluate(kernel, known, theta)[0], rtol=1e-9, atol=1e-9
    )


def test_a_matrix_that_is_not_positive_definite_is_infinite_and_alone():
    kernel, tasks, _, theta = draw("rbf", 1, False, "constant", points=4)
    bad = tasks.known_TN.clone()
    bad[2] = -5.0
    spoilt = replace(tasks, known_TN=bad)
    value = _evaluate(kernel, spoilt, theta)[0]
    assert torch.isinf(value).tolist() == [False, False, True, False, False]
    good = _evaluate(kernel, tasks, theta)[0]
    assert torch.equal(value[[0, 1, 3, 4]], good[[0, 1, 3, 4]])


@pytest.mark.parametrize(
    ("text", "dimensions", "ard", "mean"), [LINEAR, *(pytest.param(*case, marks=soak) for case in (ARD, *MORE))]
)
def test_what_is_evaluated_late_equals_the_plain_twin(text: str, dimensions: int, ard: bool, mean: str):
    kernel, tasks, units, theta = draw(text, dimensions, ard, mean, tasks=3, points=4)
    if mean == "constant":
        tasks = replace(tasks, known_TN=0.1 + torch.rand_like(tasks.y_TN))
    within = limits(kernel, units, None, None, False)
    theta = theta.clamp(within.low_TP, within.high_TP)
    once = scoring.ScoringOptions(steps=0)  # after the first evaluation it is over
    starts = theta[:, None], torch.ones(len(tasks), dtype=torch.int64, device=DEVICE)
    descent, index = (
        scoring_step.begin(starts, within, tasks.coefficients),
        torch.arange(len(tasks), device=DEVICE).int(),
    )
    fitted = stragglers.descend(kernel, lay_out(tasks), descent, layout.ActiveTasks.all_of(index.flip(0)), within, once)
    nlml, beta, gradient, information = likelihood.evaluate(kernel, tasks, theta)
    assert not descent.going_T.any()
    torch.testing.assert_close(descent.best_T3[:, 1], nlml, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(descent.best_TQ, beta, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(fitted.gradient_LP.flip(0), gradient, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(fitted.info_LPP.flip(0), information, rtol=1e-8, atol=1e-8)


@soak
@pytest.mark.parametrize("most", [8, 4])
def test_tasks_that_need_many_steps_end_as_their_twins(most: int):
    kernel, tasks, units, _ = draw("rbf", 1, False, "constant", tasks=2, points=5)
    within, options = limits(kernel, units, None, None, False), scoring.ScoringOptions(steps=6, starts=1)
    plain = scoring.fit(kernel, tasks, within, options)
    with patch.object(fit, "_JOINT_STEPS", 1), patch.object(stragglers, "MOST_POINTS", most):  # 4: none is so small
        fused = fit.fit(kernel, tasks, within, options)
    assert int(plain.iterations_T.max()) > 3  # steps by many at once
    torch.testing.assert_close(fused.nlml_T, plain.nlml_T, rtol=1e-7, atol=1e-5)
    torch.testing.assert_close(fused.theta_TP, plain.theta_TP, rtol=1e-4, atol=1e-4)
    assert fused.ending_T.tolist() == plain.ending_T.tolist()
    assert fused.iterations_T.tolist() == plain.iterations_T.tolist()


@pytest.mark.parametrize(
    ("priors", "known"), [pytest.param("weak", False, marks=soak), pytest.param(None, True, marks=soak)]
)
def test_a_fit_by_it_is_the_fit_of_its_twin(priors: str | None, known: bool):
    kernel, tasks, units, _ = draw("rbf", 1, False, "constant", tasks=3 if known else 1, points=4)
    if known:
        tasks = replace(tasks, known_TN=0.1 * tasks.mask_TN.double())
    within = limits(kernel, units, priors, None, known)
    options = scoring.ScoringOptions(steps=5)  # some of them converge, some do not
    plain = scoring.fit(kernel, tasks, within, options)
    fused = fit.fit(kernel, tasks, within, options)
    torch.testing.assert_close(fused.nlml_T, plain.nlml_T, rtol=1e-7, atol=1e-5)
    torch.testing.assert_close(fused.theta_TP, plain.theta_TP, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fused.beta_TQ, plain.beta_TQ, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fused.gradient_T, plain.gradient_T, rtol=1e-2, atol=1e-4)
    assert fused.ending_T.tolist() == plain.ending_T.tolist()
    assert fused.iterations_T.tolist() == plain.iterations_T.tolist()


_NARROW = {"variance": (0.5, 2.0), "noise": (1e-3, 0.3)}


@pytest.mark.parametrize(
    ("case", "priors", "bounds", "known", "starts"),
    [
        (LINEAR, "weak", None, True, 2),
        pytest.param(LINEAR, None, _NARROW, False, 4, marks=soak),
        pytest.param(LINEAR, None, None, False, 2, marks=soak),
        pytest.param(LINEAR, "weak", _NARROW, False, 30, marks=soak),
        pytest.param(MORE[3], "weak", None, False, 5, marks=soak),
        pytest.param(MORE[3], None, _NARROW, False, 30, marks=soak),
        pytest.param(("rbf", 2, True, "constant"), "weak", None, False, 10, marks=soak),
    ],
)
def test_the_grid_search_finds_the_starts_of_its_twin(case: Any, priors: Any, bounds: Any, known: bool, starts: int):
    text, dimensions, ard, mean = case
    points = 4 if priors else 6  # of four without priors some could be nothing but noise: then all noise is as good
    kernel, tasks, units, _ = draw(text, dimensions, ard, mean, tasks=3, points=points)
    if known:
        tasks = replace(tasks, known_TN=0.01 + 0.1 * tasks.mask_TN.double())
    within, options, laid = (
        limits(kernel, units, priors, bounds, known),
        scoring.ScoringOptions(starts=starts),
        lay_out(tasks),
    )

    def score(index: torch.Tensor, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return likelihood.score(kernel, tasks.select(index), theta)

    wanted, counts = initialization.grid_search(
        kernel, within, options.starts, initialization.scored_by(kernel, within, laid.count_T, score)
    )
    with patch.object(grid_search, "_TOGETHER", 200), patch.object(grid_search, "_SURE", math.inf):  # nothing rounded
        fitted, found_counts = grid_search.grid_search(kernel, laid, within, options)
    assert found_counts.tolist() == counts.tolist()
    assert int(counts.min()) >= 1
    for task, count in enumerate(counts.tolist()):
        torch.testing.assert_close(fitted[task, :count], wanted[task, :count], rtol=1e-9, atol=1e-9)
    rounded, rounded_counts = grid_search.grid_search(kernel, laid, within, options)
    assert (rounded_counts >= 1).all()
    torch.testing.assert_close(rounded[:, 0], wanted[:, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("points", [6, pytest.param(20, marks=soak)])
def test_a_rounded_factor_is_as_good_where_there_is_noise(points: int):
    kernel, tasks, _, _ = draw("rbf", 1, False, "linear", tasks=6, points=points)
    laid, index = lay_out(tasks), torch.arange(6, device=DEVICE).int()
    for noise in (2 * grid_search._SURE, 0.3):
        theta = torch.tensor([0.0, -0.5, math.log(noise)], dtype=torch.float64, device=DEVICE).repeat(6, 1)
        exact, rounded = (
            _kernels.evaluate(kernel, laid, index, theta, False, narrow).value_L2 for narrow in (False, True)
        )
        assert not torch.equal(exact, rounded)
        torch.testing.assert_close(rounded, exact, rtol=3e-3, atol=3e-3)


@pytest.mark.parametrize(
    "bounds",
    [
        {"variance": (1e3, 1e6)},
        pytest.param({"noise": (1e-13, 1e-11)}, marks=soak),
        pytest.param({"variance": (1e5, 1e8)}, marks=soak),
    ],
)
def test_grid_points_without_the_noise_that_rounding_needs_are_not_rounded(bounds: Any):
    x = torch.linspace(0, 1, 8, dtype=torch.float64)[None, :, None].expand(2, -1, -1)
    noise = torch.randn(2, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    kernel, y = parse("rbf"), torch.sin(6 * x[:, :, 0]) + 0.05 * noise
    tasks, units, _ = standardize(x.to(DEVICE), y.to(DEVICE), kernel, "constant")
    within, laid = limits(kernel, units, None, bounds, False), lay_out(tasks)

    def score(index: torch.Tensor, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return likelihood.score(kernel, tasks.select(index), theta)

    wanted, counts = initialization.grid_search(
        kernel, within, 3, initialization.scored_by(kernel, within, laid.count_T, score)
    )
    fitted, found_counts = grid_search.grid_search(kernel, laid, within, scoring.ScoringOptions())
    assert found_counts.tolist() == counts.tolist()
    for task, count in enumerate(counts.tolist()):
        torch.testing.assert_close(fitted[task, :count], wanted[task, :count], rtol=1e-5, atol=1e-5)


def test_no_tasks_and_more_than_the_kernels_can_number():
    kernel, tasks, units, _ = draw("rbf", 1, False, "constant", tasks=3, points=4)
    within, options = limits(kernel, units, None, None, False), scoring.ScoringOptions(steps=0, starts=1)
    none = fit.fit(kernel, tasks.select(torch.arange(0)), within.select(torch.arange(0)), options)
    assert [len(values) for values in none] == [0] * 6
    places = within.center_TP[:, None], torch.ones(3, dtype=torch.int64, device=DEVICE)
    whole = fit.fit(kernel, tasks, within, options, places)
    with patch.object(fit, "_INDEXED", 2 * (4 + 4)):
        parts = fit.fit(kernel, tasks, within, options, places)
    for ours, wanted in zip(parts, whole, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=1e-12)


def test_a_batch_without_a_task_that_can_be_fitted_goes_through_the_kernels():
    x = torch.linspace(0, 1, 4, dtype=torch.float64, device=DEVICE)[:, None]
    y = torch.sin(5 * x[:, 0] * torch.arange(1, 4, device=DEVICE)[:, None])
    y[:, 2] = torch.nan  # none is whole, as the shared basis wants it
    flat = torch.ones(3, 4, dtype=torch.float64, device=DEVICE)
    model = GPModel(kernel=parse("rbf"), shared=x, options=scoring.ScoringOptions(steps=1))
    with patch.object(GPModel, "backend", lambda *_: "fused"):
        assert torch.isfinite(fit_batch({"y": y}, model=model).values["nlml"]).all()
        assert (fit_batch({"y": flat}, model=model).status == TaskStatus.FLAT).all()


def test_of_a_list_only_those_that_count_are_touched():
    kernel, tasks, units, theta = draw("rbf", 1, False, "constant", tasks=40, points=4)
    within, laid = limits(kernel, units, None, None, False), lay_out(tasks)
    starts = theta[:, None].clone(), torch.ones(len(tasks), dtype=torch.int64, device=DEVICE)
    descent = scoring_step.begin(starts, within, tasks.coefficients)
    descent.going_T[::2] = 0
    (some,) = descent.going(35).parts(laid, _kernels.workspace(laid, 3, True))
    assert some.index_L.tolist() == [*range(1, 40, 2), *[0] * 15]
    assert int(some.count) == 20
    out = _kernels.empty_evaluations(35, 3, laid, True)
    for part in out:
        part.fill_(torch.nan)
    _kernels.launch(kernel, laid, some, descent.trial_TP, out)
    nlml = _evaluate(kernel, tasks, descent.trial_TP)[0]
    count = laid.count_T[1::2]
    assert torch.equal(0.5 * (out.value_L2[:20].sum(1) + math.log(2 * math.pi) * count), nlml[1::2])
    assert torch.isfinite(out.info_LPP[:20]).all()
    assert all(torch.isnan(part[20:]).all() for part in out)
    scoring_step.advance(descent, some, out, within, scoring.ScoringOptions(), laid.count_T)
    assert descent.made_T.tolist() == [-1, 0] * 20
    none = replace(some, count=torch.zeros_like(some.count))
    stragglers.descend(kernel, laid, descent, none, within, scoring.ScoringOptions())
    assert descent.made_T.tolist() == [-1, 0] * 20


def test_a_list_in_parts_is_the_list():
    kernel, tasks, _, theta = draw("rbf", 1, False, "zero", tasks=70, points=4)
    whole, laid = _evaluate(kernel, tasks, theta), lay_out(tasks)
    with patch.multiple(layout, _FEWEST=32, _FILLS=0):
        parts = layout.ActiveTasks.all_of(torch.arange(70, device=DEVICE).int()).parts(laid, 10)
        assert [(part.begin, len(part)) for part in parts] == [(0, 32), (32, 32), (64, 6)]
        few = _evaluate(kernel, tasks, theta)
    assert torch.equal(few[0], whole[0])
    assert torch.equal(few[3], whole[3])


MEASURED = [
    (*kernel, mean, known, dtype)
    for kernel in (("rbf", 1, False), ("rbf", 3, True), ("linear + rbf", 2, False))
    for mean in ("zero", "constant", "linear")
    for known in (False, True)
    for dtype in (torch.float32, torch.float64)
]


@pytest.mark.parametrize(
    ("text", "dimensions", "ard", "mean", "known", "dtype"),
    [case if position % 5 == 0 else pytest.param(*case, marks=soak) for position, case in enumerate(MEASURED)],
)
def test_tasks_are_measured_as_by_its_twin(
    text: str, dimensions: int, ard: bool, mean: str, known: bool, dtype: torch.dtype
):
    generator = torch.Generator().manual_seed(6)
    kernel, (T, N) = parse(text, dimensions, ard), (150, 7)
    x = 100 + torch.rand(T, N, dimensions, generator=generator, dtype=dtype)
    y = torch.randn(T, N, generator=generator, dtype=dtype)
    y[torch.rand(T, N, generator=generator) < 0.3] = torch.nan
    x[5, 2, -1], x[6, 1, 0], y[7, 3], y[8] = torch.nan, torch.inf, -torch.inf, torch.nan
    y[9], y[10], y[11], x[12] = 3.0, 1e30, 1e-30 * torch.arange(N), 2.0
    y[13, 0], y[13, 1:], y[14, 2:] = 1.0, torch.nan, torch.nan
    noise = torch.rand(T, N, generator=generator, dtype=dtype) if known else None
    if noise is not None:
        noise[15, 0], noise[16, 1] = -1.0, torch.nan
        y[15], y[16] = torch.arange(N), torch.arange(N)
        noise = noise.to(DEVICE)
    x, y = x.to(DEVICE), y.to(DEVICE)
    wanted, units, flags = standardize(x, y, kernel, mean, noise)
    fitted, own, found_flags = fused_standardize.standardize(x, y, kernel, mean, noise)
    assert found_flags.tolist() == flags.tolist()
    assert len(set(flags.tolist())) >= (3 if mean == "zero" else 5)
    good = flags == 0
    assert torch.equal(fitted.mask_TN, wanted.mask_TN)
    assert fitted.has_known_noise == wanted.has_known_noise
    for name in ("x_TND", "y_TN", "H_TNQ", "known_TN"):
        torch.testing.assert_close(getattr(fitted, name)[good], getattr(wanted, name)[good], rtol=1e-12, atol=1e-12)
    for item in fields(units):
        ours, plain = getattr(own, item.name), getattr(units, item.name)
        torch.testing.assert_close(ours[good], plain[good], rtol=1e-12, atol=1e-12)
    up = 4 * -(-N // 4)
    assert innermost(fitted.x_TND, up).data_ptr() == fitted.x_TND.data_ptr()
    assert (innermost(fitted.x_TND, up)[:, N:] == 0).all()


def test_shared_inputs_are_measured_for_every_task():
    x = torch.linspace(3, 5, 9)[:, None].to(DEVICE).expand(40, 9, 1)
    y = torch.sin(x[:, :, 0] * torch.arange(1, 41, device=DEVICE)[:, None])
    wanted = standardize(x, y, parse("rbf"), "constant")
    fitted = fused_standardize.standardize(x, y, parse("rbf"), "constant", once=True)
    torch.testing.assert_close(fitted[0].x_TND, wanted[0].x_TND)
    torch.testing.assert_close(fitted[0].y_TN, wanted[0].y_TN)
    assert fused_standardize.standardize(x, y, parse("rbf"), "constant")[0].x_TND.stride(0) == 1
    assert fitted[0].x_TND.stride(0) == fitted[0].select(torch.arange(3, device=DEVICE)).x_TND.stride(0) == 0
    y[7, 2] = torch.nan
    missing = fused_standardize.standardize(x, y, parse("rbf"), "constant", once=True)
    assert missing[0].x_TND.stride(0) == 1
    assert torch.equal(fitted[2][8:], missing[2][8:])
    for item in ("x_TND", "y_TN", "mask_TN"):
        assert torch.equal(getattr(fitted[0], item)[8:], getattr(missing[0], item)[8:])  # to the last bit
    for item in fields(fitted[1]):
        assert torch.equal(getattr(fitted[1], item.name)[8:], getattr(missing[1], item.name)[8:])


@pytest.mark.parametrize(
    ("text", "dimensions", "ard", "mean"),
    [("rbf", 1, False, "linear"), pytest.param("matern52", 3, True, "constant", marks=soak)],
)
def test_inputs_kept_once_for_all_tasks_change_nothing(text: str, dimensions: int, ard: bool, mean: str):
    kernel, tasks, units, theta = draw(text, dimensions, ard, mean, tasks=3, points=4)
    tasks = replace(tasks, x_TND=tasks.x_TND[:1].expand(3, -1, -1))
    copied = replace(tasks, x_TND=tasks.x_TND.clone(memory_format=torch.contiguous_format))
    assert lay_out(tasks).strides == (0, 1)
    assert lay_out(copied).strides == (1, 3)
    new = torch.rand(3, 5, dimensions, dtype=torch.float64).to(DEVICE)
    for once, item in zip(
        predict.predict(kernel, tasks, units, theta, new),
        predict.predict(kernel, copied, units, theta, new),
        strict=True,
    ):
        assert torch.equal(once, item)
    for once, item in zip(_evaluate(kernel, tasks, theta), _evaluate(kernel, copied, theta), strict=True):
        assert torch.equal(once, item)
    if text == "rbf":
        return  # the fit is for the soak tests
    within, options = limits(kernel, units, "weak", None, False), scoring.ScoringOptions(steps=2, starts=1)
    with patch.object(fit, "_JOINT_STEPS", 1 / theta.shape[1]):  # one step by many, the others late
        once, item = (fit.fit(kernel, some, within, options) for some in (tasks, copied))
    for ours, wanted in zip(once, item, strict=True):
        assert torch.equal(ours, wanted)


@pytest.mark.parametrize("points", [1, 4, 6, 8])
@pytest.mark.parametrize("dimensions", [1, 3])
def test_what_lies_as_the_kernel_reads_it_is_not_copied(points: int, dimensions: int):
    up = 4 * -(-points // 4)
    memory = torch.zeros(dimensions, up, 5, dtype=torch.float64)
    laid = memory.permute(2, 1, 0)[:, :points]
    laid.copy_(torch.rand(5, points, dimensions))
    same, copied = innermost(laid, up), innermost(laid.contiguous(), up)
    assert same.data_ptr() == memory.data_ptr()
    assert torch.equal(same, memory)
    assert torch.equal(copied, memory)
    copied[:] = 7
    assert torch.equal(same, memory)


def test_the_workspace_is_reused_whatever_a_lane_needs():
    laid = lay_out(draw("rbf", 1, False, "constant", tasks=3, points=7)[1])
    laid.reserve(1000, 100)
    first = laid.scratch[0]
    laid.reserve(1000, 10)
    assert laid.scratch[0] is first
    assert laid.at_once(10000, 10) * 10 <= first.numel()
    laid.reserve(1000, 200)
    assert laid.scratch[0].numel() == 2 * first.numel()


@pytest.mark.parametrize(("lanes", "launches"), [(1, 1), (320, 10), (321, 6), (800, 9)])
def test_launches_are_few_and_alike(lanes: int, launches: int):
    laid = lay_out(draw("rbf", 1, False, "constant", tasks=3, points=7)[1])
    laid.reserve(320, 100)  # ten programs of 32 lanes
    assert laid.at_once(lanes, 100) == 32 * launches


@pytest.mark.parametrize(("text", "dimensions", "ard", "mean"), CASES)
@pytest.mark.parametrize(("points", "groups"), [(9, 2), pytest.param(3, 1, marks=soak)])
def test_predictions_equal_the_plain_ones(text: str, dimensions: int, ard: bool, mean: str, points: int, groups: int):
    kernel, tasks, units, theta = draw(text, dimensions, ard, mean, tasks=3, points=4)
    theta[1] = torch.nan  # a task that could not be fitted
    new = torch.rand(3, points, dimensions, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).to(DEVICE)
    if groups == 1:
        new = new[:1].expand(3, -1, -1)  # the same for all tasks
    beta = torch.full((3, tasks.coefficients), 0.5, dtype=torch.float64, device=DEVICE)
    wanted = posterior.predict(kernel, tasks, theta, beta, units.inputs(new), mean)
    with patch.object(predict, "_GROUPS", groups):
        fitted = Posterior(kernel, mean, 0, "fused").predict(tasks, units, theta, beta, new)
    for ours, plain in zip(fitted, wanted, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_predictions_are_made_for_a_few_tasks_at_a_time_and_for_none(monkeypatch: pytest.MonkeyPatch):
    kernel, tasks, units, theta = draw("rbf", 1, False, "constant", tasks=34, points=4)
    new = torch.rand(34, 2, 1, dtype=torch.float64).to(DEVICE)
    whole = predict.predict(kernel, tasks, units, theta, new)
    for name, few in (("_AT_ONCE", 1), ("_INDEXED", 33 * 8)):  # lanes of a launch, and numbers that can be indexed
        with monkeypatch.context() as patched:
            patched.setattr(predict, name, few)
            for part, all_at_once in zip(predict.predict(kernel, tasks, units, theta, new), whole, strict=True):
                assert torch.equal(part, all_at_once)
    assert predict.predict(kernel, tasks, units, theta, new[:, :0])[0].shape == (34, 0)
    none = torch.arange(0, device=DEVICE)
    empty = predict.predict(kernel, tasks.select(none), units.select(none), theta[:0], new[:0])
    assert empty[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("mean", "priors", "points"),
    [
        ("zero", None, 21),
        ("constant", {"noise": (3.0, 0.3)}, 16),
        pytest.param("constant", "weak", 16, marks=soak),
        pytest.param("linear", None, 32, marks=soak),
    ],
)
def test_scores_in_the_eigenbasis_equal_the_plain_ones(mean: str, priors: Any, points: int):
    kernel = parse("rbf")
    x = torch.linspace(0, 1, points, dtype=torch.float64)[None, :, None].expand(70, -1, -1)
    generator = torch.Generator().manual_seed(4)
    y = torch.sin(9 * x[:, :, 0]) + 0.3 * torch.randn(70, points, generator=generator, dtype=torch.float64)
    tasks, units, _ = standardize(x.to(DEVICE), y.to(DEVICE), kernel, mean)
    within = limits(kernel, units, priors, None, False)
    log_l, log_r = (torch.linspace(a, b, c, dtype=torch.float64) for a, b, c in ((-4.5, 2.4, 7), (-18, 2, 16)))
    grids = (log_l, log_l, log_r)
    bases = eigenbasis._bases(kernel, tasks, grids)
    plain = eigenbasis.lowest(tasks.y_TN, bases, within, grids)
    fused = gpu_eigenbasis.lowest(tasks.y_TN, within.center_TP, gpu_eigenbasis.prepare(bases, within, grids))
    torch.testing.assert_close(fused[0], plain[0], rtol=1e-4, atol=1e-3)
    best = plain[0].argmin(1, keepdim=True)  # elsewhere the score may be flat, and its lowest point anywhere
    for ours, wanted in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours.gather(1, best), wanted.gather(1, best), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("most", [2, pytest.param(1, marks=soak), pytest.param(9, marks=soak)])
def test_local_minima_in_the_eigenbasis_are_those_of_the_plain_ones(most: int):
    kernel = parse("rbf")
    x = torch.linspace(0, 1, 21, dtype=torch.float64)[None, :, None].expand(70, -1, -1)
    y = torch.randn(70, 21, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    y[:20] = torch.sin(9 * x[:20, :, 0]) + 0.1 * y[:20]
    tasks, units, _ = standardize(x.to(DEVICE), y.to(DEVICE), kernel, "constant")
    within = limits(kernel, units, None, None, False)
    grids = eigenbasis._grids()
    bases = eigenbasis._bases(kernel, tasks, grids)
    wanted, counts = eigenbasis.begin(*eigenbasis.lowest(tasks.y_TN, bases, within, grids), grids[0], most)

    def plain(y_TN: torch.Tensor, center_TP: torch.Tensor, _: Any) -> Any:
        assert len(center_TP) == len(y_TN)
        fitted = eigenbasis.lowest(
            y_TN, bases, within.select(slice(len(y_TN))), grids
        )  # no priors: alike for all tasks
        return [item.contiguous() for item in fitted]

    with patch.object(gpu_eigenbasis, "lowest", plain), patch.object(gpu_eigenbasis, "_AT_ONCE", 32):
        fitted, found_counts = gpu_eigenbasis.search(tasks.y_TN, bases, within, grids, most)
    assert found_counts.tolist() == counts.tolist()
    assert most == 1 or int(counts.max()) > 1
    for task, count in enumerate(counts.tolist()):
        torch.testing.assert_close(fitted[task, :count], wanted[task, :count], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("which", ["first", pytest.param("all", marks=soak)])
def test_the_kernels_compile_for_a_card(which: str):
    # The interpreter takes types as they come; the compiler does not.
    around = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ended = completed(run_module, "tests.gp.helpers.compiled", which, env=around, timeout=300)
    assert ended.stdout.strip() == "compiled", ended.stderr[-2000:]


def test_sizes_that_are_not_compiled_in_are_arguments():
    for kernel in (_kernels._evaluate, predict._factor, predict._points):
        assert set(_kernels.SIZES) <= set(inspect.signature(kernel.fn).parameters)


def test_what_it_does_not_serve():
    assert not _kernels.serves(parse("periodic"), 20, 1)
    assert not _kernels.serves(parse("rbf + linear"), 20, 1)
    assert not _kernels.serves(parse("rbf"), 200, 1)
    assert not _kernels.serves(parse("rbf", 3), 20, 4)
