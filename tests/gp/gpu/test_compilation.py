"""What is compiled ahead of a fit: every kernel of it can be launched alone, and the fit compiles none besides."""

import os
import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are defined

pytest.importorskip("triton")

from brimful import gp
from brimful.core.base.compilers import activity
from brimful.gp import compilation
from brimful.gp.data.sources import read
from brimful.gp.fit import fit_data, model_for
from brimful.gp.options import FitOptions

from ..helpers.drawn import problem, waves

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
OWN, SHARED, KNOWN = {"points": 4}, {"points": 4, "shared": True}, {"points": 4, "known": True, "mean": "linear"}
soak = pytest.mark.soak  # the interpreter takes its time
on_a_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a GPU")


def drawn(points: int, tasks: int = 3, shared: bool = False, known: bool = False, **options: Any) -> Any:
    """Random tasks and the model of their fit."""
    generator = np.random.default_rng(points)
    x = np.linspace(0, 1, points) if shared else np.sort(generator.uniform(size=(tasks, points)), 1)
    y = np.sin(9 * x + generator.uniform(0, 3, (tasks, 1))) + 0.1 * generator.normal(size=(tasks, points))
    noise = np.full_like(y, 0.01) if known else None
    data = read(x, y, noise, None, None)
    return data, model_for(data, FitOptions.from_python({"device": DEVICE.type, **options}))


@pytest.mark.parametrize("tasks", [KNOWN, pytest.param(OWN, marks=soak), pytest.param(SHARED, marks=soak)])
def test_every_kernel_is_launched_alone(tasks: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    if DEVICE.type == "cpu":
        monkeypatch.setattr(compilation, "_TASKS", 2)
    data, model = drawn(**tasks)
    launches = compilation.kernel_launches(model, DEVICE, data.points, compilation.types_of(data))
    assert len(launches) >= 5
    for launch in launches:
        launch()


def test_the_loops_of_a_cpu_are_compiled_ahead():
    data, model = drawn(5)
    compile_it = compilation.compilation(model, torch.device("cpu"), data)
    assert compile_it is not None
    compile_it()
    count = activity.Count()
    with activity.listening(count):
        gp.fit(np.linspace(0, 1, 5), np.random.default_rng(0).normal(size=(3, 5)), device="cpu", progress=False)
    assert count.functions == 0


def test_where_nothing_is_compiled():
    for data, model in (drawn(5, approximation="sgpr"), drawn(5, tasks=0)):
        assert compilation.compilation(model, torch.device("cpu"), data) is None


@on_a_gpu
@pytest.mark.parametrize(
    "tasks", [{"points": 40}, {"points": 40, "shared": True}, {"points": 20, "known": True}, {"points": 150}],
    ids=["own", "shared", "known", "matrices"],
)  # fmt: skip
def test_a_fit_compiles_no_kernel_besides(tasks: dict[str, Any]):
    data, model = drawn(**tasks, tasks=2000)
    ahead = compilation.compilation(model, DEVICE, data)
    assert ahead is not None
    ahead()
    count = activity.Count()
    with activity.listening(count):
        fit_data(data, FitOptions.from_python({"device": "cuda"}), progress=False)
    assert count.functions == 0


def test_of_many_points_one_task_is_evaluated(monkeypatch: pytest.MonkeyPatch):
    """Its matrices are made before the budget is kept."""
    tasks, seen = problem("rbf", *waves(0, 5, 9)), list[tuple[int, int]]()

    class Recorded:
        def __init__(self, *given: Any) -> None: ...

        def evaluate(self, index_L: torch.Tensor, theta_LP: torch.Tensor) -> None:
            seen.append((len(index_L), len(theta_LP)))

    monkeypatch.setattr("brimful.gp.gpu.matrices.MatrixEvaluator", Recorded)
    compilation._evaluate_matrices(tasks.kernel, tasks.tasks, tasks.limits)
    assert seen == [(1, 1)]


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_a_fit_on_a_cpu_does_not_need_triton(monkeypatch: pytest.MonkeyPatch, cuda: str | None):
    """One that is there and cannot be imported is no fault of the fit."""
    begun: list[str] = []
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(compilation.threading, "Thread", lambda **given: begun.append(given["name"]) or Mock())
    compilation.begin_early("cpu")
    assert begun == ([] if cuda is None else ["brimful-early"])
