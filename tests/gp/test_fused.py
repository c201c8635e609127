"""The fused kernel against its plain twin: compiled where there is a GPU, interpreted where there is none."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernel is defined

pytest.importorskip("triton")

from brimful.gp import _kernels, likelihood, scoring
from brimful.gp.kernels import parse
from brimful.gp.priors import limits
from brimful.gp.tasks import Tasks, prepare

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASES = [
    ("rbf", 1, False, "zero"),
    ("rbf", 1, False, "linear"),
    ("matern12", 1, False, "constant"),
    ("matern32", 2, False, "constant"),
    ("matern52", 3, True, "zero"),
    ("matern52", 1, False, "linear"),
]


def draw(text: str, dimensions: int, ard: bool, mean: str, tasks: int = 5, points: int = 13):
    generator = torch.Generator().manual_seed(3)
    x = 3 * torch.rand(tasks, points, dimensions, generator=generator, dtype=torch.float64)
    y = torch.sin(4 * x.sum(-1)) + 0.3 * torch.randn(tasks, points, generator=generator, dtype=torch.float64)
    y[torch.rand(tasks, points, generator=generator) < 0.15] = torch.nan
    kernel = parse(text, dimensions, ard)
    prepared, units, _ = prepare(x.to(DEVICE), y.to(DEVICE), kernel, mean)
    theta = torch.randn(tasks, len(kernel.names) + 1, generator=generator, dtype=torch.float64) / 2 - 1
    return kernel, prepared, units, theta.to(DEVICE)


@pytest.mark.parametrize(("text", "dimensions", "ard", "mean"), CASES)
def test_it_equals_its_plain_twin(text: str, dimensions: int, ard: bool, mean: str):
    kernel, tasks, _, theta = draw(text, dimensions, ard, mean)
    assert _kernels.serves(kernel, 13, tasks.H_TNQ.shape[2])
    nlml, beta, slopes = likelihood.evaluate(kernel, tasks, theta)
    fused, fused_beta, fused_slopes = _kernels.evaluate(kernel, tasks, theta)
    torch.testing.assert_close(fused, nlml, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(fused_beta, beta, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(fused_slopes.gradient_TP, slopes.gradient_TP, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(fused_slopes.information_TPP, slopes.information_TPP, rtol=1e-8, atol=1e-8)
    for ours, plain in zip(_kernels.score(kernel, tasks, theta), likelihood.score(kernel, tasks, theta), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


def test_known_noise_and_float32():
    kernel, tasks, _, theta = draw("rbf", 1, False, "constant")
    known = Tasks(tasks.x_TND, tasks.y_TN, tasks.keep_TN, tasks.H_TNQ, 0.1 + torch.rand_like(tasks.y_TN))
    torch.testing.assert_close(
        _kernels.evaluate(kernel, known, theta)[0], likelihood.evaluate(kernel, known, theta)[0], rtol=1e-9, atol=1e-9
    )
    short = _kernels.evaluate(kernel, known.to(torch.float32), theta.float())[0]
    assert short.dtype == torch.float32
    torch.testing.assert_close(short.double(), likelihood.nlml(kernel, known, theta), rtol=1e-4, atol=1e-4)


def test_a_matrix_that_is_not_positive_definite_is_infinite_and_alone():
    kernel, tasks, _, theta = draw("rbf", 1, False, "constant")
    bad = tasks.known_TN.clone()
    bad[2] = -5.0
    spoilt = Tasks(tasks.x_TND, tasks.y_TN, tasks.keep_TN, tasks.H_TNQ, bad)
    value = _kernels.evaluate(kernel, spoilt, theta)[0]
    assert torch.isinf(value).tolist() == [False, False, True, False, False]
    good = _kernels.evaluate(kernel, tasks, theta)[0]
    assert torch.equal(value[[0, 1, 3, 4]], good[[0, 1, 3, 4]])


def test_a_fit_by_it_is_the_fit_of_its_twin():
    kernel, tasks, units, _ = draw("rbf", 1, False, "constant", tasks=2, points=7)
    within = limits(kernel, units, "weak", None, False)
    plain = scoring.fit(kernel, tasks, within, scoring.Rules())
    fused = scoring.fit(kernel, tasks, within, scoring.Rules(), by=_kernels)
    torch.testing.assert_close(fused.theta_TP, plain.theta_TP, rtol=1e-5, atol=1e-5)
    assert fused.ending_T.tolist() == plain.ending_T.tolist()


def test_what_it_does_not_serve():
    assert not _kernels.serves(parse("periodic"), 20, 1)
    assert not _kernels.serves(parse("rbf + linear"), 20, 1)
    assert not _kernels.serves(parse("rbf"), 200, 1)
    assert not _kernels.serves(parse("rbf", 3), 20, 4)
