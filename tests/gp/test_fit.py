"""`gp.fit`: what every task gets, whatever it holds and whoever its neighbors are."""

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from brimful import BudgetError, ConfigError, DeviceError, gp
from brimful.core.runs.events import BatchDone, Finished
from brimful.gp import LogNormal, TaskStatus, batch_functions
from brimful.gp.optimize import subsets

from .helpers.small import fit, rows, same

X, Y = rows(0, 6, 10)
ODD, OTHERS = 2, [0, 1, 3, 4, 5]
NAN, INF = np.nan, np.inf


def with_odd(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Six tasks, one of them replaced."""
    xs, ys = X.copy(), Y.copy()
    xs[ODD], ys[ODD] = x, y
    return xs, ys


def first(count: int) -> np.ndarray:
    return np.where(np.arange(10) < count, Y[ODD], NAN)


CASES: dict[str, tuple[Any, Any, dict[str, int]]] = {
    "no points": (X[ODD], first(0), dict.fromkeys(("zero", "constant", "linear"), TaskStatus.EMPTY)),
    "one point": (X[ODD], first(1), {"zero": 0, "constant": TaskStatus.FEW, "linear": TaskStatus.FEW}),
    "two points": (X[ODD], first(2), {"zero": 0, "constant": 0, "linear": TaskStatus.FEW}),
    "three points": (X[ODD], first(3), {"zero": 0, "constant": 0, "linear": 0}),
    "constant": (X[ODD], 3.0, {"zero": 0, "constant": TaskStatus.FLAT, "linear": TaskStatus.FLAT}),
    "nought": (X[ODD], 0.0, {"zero": TaskStatus.FLAT, "constant": TaskStatus.FLAT, "linear": TaskStatus.FLAT}),
    "one input": (1.0, Y[ODD], {"zero": 0, "constant": 0, "linear": 0}),
    "inputs twice": (np.repeat(X[ODD, :5], 2, 0), Y[ODD], {"zero": 0, "constant": 0, "linear": 0}),
    "points twice": (np.repeat(X[ODD, :5], 2, 0), np.repeat(Y[ODD, :5], 2), {"zero": 0, "constant": 0, "linear": 0}),
    "huge x": (X[ODD] * 1e12, Y[ODD], {"zero": 0, "constant": 0, "linear": 0}),
    "tiny x": (X[ODD] * 1e-12, Y[ODD], {"zero": 0, "constant": 0, "linear": 0}),
    "huge y": (X[ODD], Y[ODD] * 1e12, {"zero": 0, "constant": 0, "linear": 0}),
    "tiny y": (X[ODD], Y[ODD] * 1e-12, {"zero": 0, "constant": 0, "linear": 0}),
    "far y": (X[ODD], Y[ODD] + 1e9, {"constant": 0, "linear": 0}),
    "far x": (X[ODD] + 1e6, Y[ODD], {"zero": 0, "constant": 0, "linear": 0}),
    "inf": (
        X[ODD],
        np.where(np.arange(10) == 4, INF, Y[ODD]),
        {"zero": TaskStatus.INVALID, "constant": TaskStatus.INVALID},
    ),
    "-inf": (
        X[ODD],
        np.where(np.arange(10) == 4, -INF, Y[ODD]),
        {"zero": TaskStatus.INVALID, "linear": TaskStatus.INVALID},
    ),
    "inf in x": (np.where(np.arange(10)[:, None] == 4, INF, X[ODD]), Y[ODD], {"constant": TaskStatus.INVALID}),
    "nan in x": (np.where(np.arange(10)[:, None] == 4, NAN, X[ODD]), Y[ODD], {"constant": 0}),
    "beyond floats": (X[ODD], Y[ODD] * 1e200, {"zero": TaskStatus.INVALID, "constant": TaskStatus.INVALID}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_odd_task_has_a_decided_state_and_touches_no_neighbor(case: str):
    x, y, expected = CASES[case]
    xs, ys = with_odd(x, y)
    for mean, status in expected.items():
        solution = fit(xs, ys, mean=mean)
        assert solution.status[ODD] == status, mean
        assert (ODD in solution.messages) == (status != 0)
        without = fit(xs[OTHERS], ys[OTHERS], mean=mean)
        for name, values in without.params.items():
            assert np.array_equal(solution.params[name][OTHERS], values), name
        assert np.array_equal(solution.nlml[OTHERS], without.nlml)
        for part in (*solution.predict([0.5]), *solution.loo(), solution.sample([0.5])):
            assert np.isfinite(part[OTHERS]).all()
        assert np.isfinite(solution.nlml[ODD]) == (status == 0)
        assert np.isfinite(solution.predict([0.5])[1][ODD, 0]) == (status == 0)


@pytest.mark.parametrize("odd", [NAN, 1.0, INF, "holes"])
def test_a_shared_batch_keeps_an_odd_task_from_its_neighbors(odd: Any):
    x, ys = np.linspace(0, 1, 10), Y.copy()
    ys[ODD] = first(5) if odd == "holes" else odd
    solution, without = fit(x, ys), fit(x, ys[OTHERS])
    for name, values in without.params.items():
        np.testing.assert_allclose(solution.params[name][OTHERS], values, rtol=1e-5)
    np.testing.assert_allclose(solution.nlml[OTHERS], without.nlml, rtol=1e-6)


@pytest.mark.parametrize(("case", "level"), [("one point", Y[ODD, 0]), ("constant", 3.0)])
def test_a_task_without_a_fit_still_has_its_level(case: str, level: float):
    solution = fit(*with_odd(*CASES[case][:2]))
    mean, variance = solution.predict([0.5, 9.0])
    assert mean[ODD].tolist() == pytest.approx([level, level])
    assert np.isnan(variance[ODD]).all()
    assert solution.params["mean_0"][ODD] == pytest.approx(level)
    assert math.isnan(solution.params["variance"][ODD])


@pytest.mark.parametrize("case", ["no points", "inf"])
def test_a_task_that_says_nothing_predicts_nothing(case: str):
    solution = fit(*with_odd(*CASES[case][:2]))
    for part in (*solution.predict([0.5]), solution.sample([0.5], 2), *solution.loo()):
        assert np.isnan(part[ODD]).all()


@settings(max_examples=6)
@given(st.integers(-12, 12), st.integers(-12, 12), st.sampled_from([1, -1]), st.sampled_from(["zero", "linear"]))
def test_units_do_not_matter(power: int, of_x: int, sign: int, mean: str):
    c, b = sign * 10.0**power, 10.0**of_x
    plain, scaled = fit(X, Y, mean=mean), fit(X * b, Y * c, mean=mean)
    assert scaled.status.tolist() == plain.status.tolist()
    np.testing.assert_allclose(scaled.params["variance"], plain.params["variance"] * c**2, rtol=1e-4)
    np.testing.assert_allclose(scaled.params["noise"], plain.params["noise"] * c**2, rtol=1e-4)
    np.testing.assert_allclose(scaled.params["lengthscale"], plain.params["lengthscale"] * b, rtol=1e-4)
    np.testing.assert_allclose(scaled.nlml, plain.nlml + 10 * np.log(abs(c)), rtol=1e-6, atol=1e-5)
    (mean_there, variance_there), (mean_here, variance_here) = scaled.predict([0.5 * b]), plain.predict([0.5])
    np.testing.assert_allclose(mean_there, mean_here * c, rtol=1e-3, atol=1e-3 * abs(c))
    np.testing.assert_allclose(variance_there, variance_here * c**2, rtol=1e-3, atol=1e-6 * c**2)


def test_a_batch_is_its_tasks_one_by_one():
    solution = fit(X, Y)
    for task in range(6):
        single = fit(X[task : task + 1], Y[task : task + 1])
        for name, values in single.params.items():
            assert values[0] == solution.params[name][task]
        assert single.iterations[0] == solution.iterations[task]


@pytest.mark.parametrize("batch", [1, 4, None])
def test_the_cut_of_the_work_does_not_matter(batch: Any):
    same(fit(X, Y), fit(X, Y, batch_size=batch))


def test_a_batch_of_ragged_tasks_is_as_large_as_asked_for():
    seen: list[Any] = []
    x, y = rows(6, 40, 8)
    fit([(x[task, : 3 + task % 5], y[task, : 3 + task % 5]) for task in range(40)], batch_size=10, progress=seen.append)
    assert [event.items for event in seen if isinstance(event, BatchDone)] == [10] * 4


@settings(max_examples=6)
@given(st.lists(st.booleans(), min_size=10, max_size=10).filter(lambda kept: sum(kept) > 3))
def test_a_missing_value_is_a_point_less(kept: list[bool]):
    whole = fit(X[:1], np.where(kept, Y[:1], NAN), tolerance=1e-9)
    dropped = fit(X[:1, kept], Y[:1, kept], tolerance=1e-9)
    assert whole.status.tolist() == dropped.status.tolist()
    np.testing.assert_allclose(whole.nlml, dropped.nlml, atol=1e-6)
    for name, values in whole.params.items():
        np.testing.assert_allclose(values, dropped.params[name], rtol=1e-4, atol=1e-9)
    assert whole.table()["points"].to_pylist() == [sum(kept)]


def plain(solution: gp.Fit, task: int, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """scikit-learn's negative log likelihood of a task at its parameters, and its gradient by their logarithms."""
    p = {name: float(values[task]) for name, values in solution.params.items()}
    kernel = sk.ConstantKernel(p["variance"]) * sk.RBF(p["lengthscale"]) + sk.WhiteKernel(p["noise"])
    process = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)  # pyright: ignore[reportArgumentType]
    fitted: Any = process.fit(x, y)
    value, gradient = fitted.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    return -value, -gradient


@pytest.mark.parametrize("priors", ["weak", None, {"lengthscale": LogNormal(0.2, 0.1)}])
def test_the_likelihood_is_the_plain_one(priors: Any):
    solution = fit(X, Y, mean="zero", priors=priors)
    for task in range(6):
        assert solution.nlml[task] == pytest.approx(plain(solution, task, X[task], Y[task])[0], rel=1e-6, abs=1e-6)


def test_converged_tasks_are_at_the_optimum():
    x, y = rows(1, 20, 15)
    solution = fit(x, y, mean="zero", priors=None, tolerance=1e-9)
    assert solution.converged.mean() > 0.9
    free = solution.converged & (solution.params["noise"] > 1e-6) & (solution.params["lengthscale"] < 100)
    free &= (solution.params["lengthscale"] > 0.05) & (solution.params["variance"] < 1e3)
    assert free.sum() >= 8
    for task in np.flatnonzero(free).tolist():
        derivative = plain(solution, task, x[task], y[task])[1]
        assert np.abs(derivative).max() < 1e-2
        assert np.abs(derivative).max() == pytest.approx(solution.gradient[task], rel=0.05, abs=1e-4)


def test_known_noise_is_kept_and_not_fitted():
    one, item, all_of_them = (fit(X, Y, noise=noise) for noise in (0.04, np.full(10, 0.04), np.full((6, 10), 0.04)))
    same(one, item)
    same(one, all_of_them)
    assert one.params["noise"].tolist() == [0.0] * 6
    pinned, known = fit(X, Y, bounds={"noise": (0.04, 0.04)}, priors=None), fit(X, Y, noise=0.04, priors=None)
    assert (np.abs(known.nlml - pinned.nlml) < 1e-2).sum() >= 5
    assert (known.nlml < pinned.nlml + 1e-2).all()


@pytest.mark.parametrize("bad", [-0.1, NAN, INF])
def test_noise_that_is_none_marks_its_task_only(bad: float):
    noise = np.full((6, 10), 0.1)
    noise[ODD, 3] = bad
    solution = fit(X, Y, noise=noise)
    assert solution.status.tolist() == [TaskStatus.INVALID if task == ODD else 0 for task in range(6)]


def test_bounds_are_in_the_units_of_the_data():
    bounds = {"lengthscale": (20.0, 40.0), "noise": (900.0, 1e4)}
    solution = fit(X * 10, Y * 100, bounds=bounds, priors=None)
    for name, (low, high) in bounds.items():
        assert (solution.params[name] >= low * (1 - 1e-9)).all()
        assert (solution.params[name] <= high * (1 + 1e-9)).all()
    assert np.isclose(solution.params["noise"], 900.0).sum() >= 3


def test_priors_pull_in_the_units_of_the_data():
    strong = {"lengthscale": LogNormal(5.0, 1e-3), "noise": LogNormal(400.0, 1e-3)}
    solution = fit(X * 10, Y * 100, priors=strong)
    np.testing.assert_allclose(solution.params["lengthscale"], 5.0, rtol=0.01)
    np.testing.assert_allclose(solution.params["noise"], 400.0, rtol=0.01)
    same(solution, fit(X * 10, Y * 100, priors={"lengthscale": (5.0, 1e-3), "noise": (400.0, 1e-3)}))


def test_weak_priors_keep_tiny_tasks_from_collapsing():
    x, y = rows(2, 60, 4)
    weak, none = fit(x, y), fit(x, y, priors=None)
    at_edge = [(item.params["noise"] < 1e-5 * item.params["variance"]).sum() for item in (weak, none)]
    assert at_edge[0] < 0.1 * 60 < 0.3 * 60 < at_edge[1]
    assert (none.nlml <= weak.nlml + 0.05).all()


def test_the_names_of_the_parameters():
    x, y = rows(3, 2, 12, 2)
    names = {
        ("rbf", False, "constant"): ["variance", "lengthscale", "noise", "mean_0"],
        ("matern52", True, "linear"): [
            *("variance", "lengthscale_0", "lengthscale_1", "noise", "mean_0", "mean_1", "mean_2")
        ],
        ("rational_quadratic", False, "zero"): ["variance", "alpha", "lengthscale", "noise"],
        ("linear + rbf * periodic", False, "zero"): [
            *("linear.variance", "rbf.variance", "rbf.lengthscale"),
            *("periodic.period", "periodic.lengthscale", "noise"),
        ],
    }
    for (kernel, ard, mean), expected in names.items():
        solution = fit(x, y, kernel=kernel, ard=ard, mean=mean)
        assert list(solution.params) == expected
        assert all(len(values) == 2 for values in solution.params.values())


def test_the_table_has_a_row_a_task():
    ys = Y.copy()
    ys[ODD] = NAN
    solution = fit(X, ys, task_ids=[f"t{task}" for task in range(6)])
    table = solution.table()
    assert table.column_names == [
        *("task", "status", "message", "variance", "lengthscale", "noise", "mean_0"),
        *("points", "nlml", "gradient", "iterations"),
    ]
    assert table["task"].to_pylist() == [f"t{task}" for task in range(6)]
    assert table["message"].to_pylist() == [None, None, "the task has no points", None, None, None]
    assert table["points"].to_pylist() == [10, 10, 0, 10, 10, 10]
    assert (table["iterations"].to_numpy()[OTHERS] > 0).all()
    assert fit(X, Y).table()["task"].to_pylist() == list(range(6))


def test_it_says_what_it_is_in_one_line():
    text = str(fit(X, Y, kernel="matern32"))
    assert text.startswith("6 processes (matern32), 100.0% converged, mean NLML ")
    assert "0 processes" in str(fit(np.zeros(3), np.zeros((0, 3))))


def test_too_few_iterations_are_flagged():
    solution = fit(X, Y, steps=1, starts=1, tolerance=1e-12)
    assert set(solution.status) <= {0, TaskStatus.LIMIT}
    limited = np.flatnonzero(solution.status == TaskStatus.LIMIT)
    assert len(limited)
    assert solution.messages[int(limited[0])] == "not converged within the limit of iterations"
    assert np.isfinite(solution.nlml).all()
    assert (fit(X, Y).nlml <= solution.nlml + 0.5).all()
    assert not solution.converged[limited].any()


def test_more_starts_are_never_worse():
    x, y = rows(4, 40, 8)
    one, many = (fit(x, y, priors=None, starts=starts) for starts in (1, 6))
    assert (many.nlml <= one.nlml + 1e-3).all()
    assert many.iterations.sum() > one.iterations.sum()


@pytest.mark.parametrize("shape", [(0, 10), (3, 0)])
def test_no_tasks_and_no_points(shape: tuple[int, int]):
    solution = fit(np.zeros(shape), np.zeros(shape))
    assert solution.status.tolist() == [TaskStatus.EMPTY] * shape[0]
    assert solution.table().num_rows == shape[0]
    assert [part.shape for part in solution.predict([0.0, 1.0])] == [(shape[0], 2)] * 2
    assert solution.sample([0.0, 1.0], 2).shape == (shape[0], 2, 2)


def test_many_points_take_the_other_way_to_the_same_end():
    x, y = rows(5, 2, 40)
    with patch.object(batch_functions, "_COMPILED", 30):
        solution = fit(x, y, batch_size=2, tolerance=1e-9)
    assert "batched matrices from subsets of the points; up to 30 points, compiled loop" in solution.method
    same(solution, fit(x, y, tolerance=1e-9), rtol=1e-3)


def test_a_task_does_not_pay_for_a_neighbor_of_many_points():
    (x, y), (long_x, long_y) = rows(5, 3, 12), rows(6, 1, 42)
    x[1, 5:], y[1, 5:] = NAN, NAN
    tasks = [(x[0], y[0]), (long_x[0], long_y[0]), (x[1], y[1]), (x[2], y[2])]
    widths = []

    def seen(kernel: Any, some: Any, *rest: Any) -> Any:
        widths.append(tuple(some.y_TN.shape))
        return plain(kernel, some, *rest)

    plain = subsets.fit
    with patch.object(subsets, "fit", seen), patch.object(batch_functions, "_COMPILED", 40):
        solution = fit(tasks, batch_size=4)
        assert widths == [(1, 42)]
        alone = [fit([item]) for item in tasks]
    np.testing.assert_array_equal(solution.nlml, np.concatenate([item.nlml for item in alone]))
    np.testing.assert_array_equal(solution.status, [0, 0, 0, 0])


def test_the_budget_is_kept():
    seen: list[Any] = []
    solution = fit(gp.synthetic(4000, 40), budget="90MB", progress=seen.append)
    assert solution.plan.budget == 90_000_000
    assert solution.predicted <= 90_000_000
    assert solution.plan.batch < 4000
    done = [event for event in seen if isinstance(event, BatchDone)]
    assert len(done) > 1
    assert sum(event.items for event in done) == 4000
    assert isinstance(seen[-1], Finished)
    with pytest.raises(BudgetError):
        fit(gp.synthetic(10, 150), budget="1kB")


def test_silence_when_asked_for(capfd: pytest.CaptureFixture[str]):
    fit(X, Y).predict([0.5])
    assert capfd.readouterr() == ("", "")
    fit(X, Y, progress=True)
    assert "gp fit" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel": "rfb"}, "kernel 'rfb' names 'rfb'; there are rbf, matern12,.* joined by \\+ and \\*"),
        ({"kernel": "rbf +"}, r"kernel 'rbf \+' names ''; there are rbf"),
        ({"kernel": 3}, r"kernel is a int; give its name, or gp.custom\(function"),
        ({"mean": "quadratic"}, "mean is 'quadratic'; choose one of zero, constant, linear"),
        ({"priors": "strong"}, "priors is 'strong'; choose one of weak, none"),
        ({"priors": 3}, "priors is a int; give a dict by parameter, or None"),
        ({"priors": {"length": LogNormal(1, 1)}}, "priors names 'length'; the parameters are variance, lengthscale"),
        ({"priors": {"noise": 3}}, r"the prior of noise is 3; give gp.LogNormal\(median, spread\)"),
        ({"bounds": {"noise": (2, 1)}}, r"the bounds of noise are \(2, 1\); they must be positive, the lower one"),
        ({"bounds": [(1, 2)]}, "bounds is a list; give a dict by parameter"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"iterations": 2.5}, "steps is 2.5; it must be a whole number"),
        ({"starts": True}, "starts is True; it must be a whole number"),
        ({"tolerance": -1}, "tolerance is -1.0; it must be above 0"),
        ({"tolerance": "low"}, "tolerance is 'low'; it must be a number"),
        ({"keep": "all"}, r"keep is 'all'; choose one of params, params\+data, predictions"),
        ({"keep": "predictions", "out": "x"}, "keep='predictions' and at= go together"),
        ({"at": [0.5]}, "keep='predictions' and at= go together"),
        ({"keep": "predictions", "at": [0.5]}, "keep='predictions' needs out="),
        ({"storage": "float64"}, "storage is 'float64'; choose one of float32, float16"),
        ({"tolerance": True}, "tolerance is True; it must be a number"),
        ({"tolerance": INF}, "tolerance is inf; it must be at most 1000000.0"),
        (
            {"priors": {"lengthscale": ("a", 1)}},
            r"priors=.* cannot be understood .*; give gp.LogNormal\(median, spread",
        ),
        ({"seed": "a"}, "seed is 'a'; it must be a whole number"),
        ({"out": 3}, "out is 3; it must be a path"),
        ({"kernel": gp.custom(lambda x1, x2, params: x1 @ x2.T, mean_0=1.0)}, "called 'mean_0', a name that the table"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"kernal": "rbf"}, "unknown option 'kernal'; did you mean 'kernel'"),
    ],
)
def test_options_that_cannot_be_are_named_with_what_can(options: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        fit(X, Y, **options)


def test_numbers_of_numpys_kind_are_numbers():
    same(
        fit(X, Y, steps=np.int64(50), starts=np.int32(2), tolerance=np.float32(0.5), seed=np.int64(1)),
        fit(X, Y, steps=50, starts=2, tolerance=0.5),
    )


def test_samples_that_cannot_be():
    solution = fit(X, Y)
    options: dict[str, Any]
    for options in ({"samples": -1}, {"samples": 2.5}, {"seed": "a"}):
        with pytest.raises(ConfigError, match="give a whole number"):
            solution.sample([0.5], **options)


def test_a_device_that_is_not_there():
    with pytest.raises(DeviceError, match="'tpu' is not a device name"):
        fit(X, Y, device="tpu")
