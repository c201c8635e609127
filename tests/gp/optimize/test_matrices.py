"""Whole matrices against the plain likelihood."""

import math
from dataclasses import replace

import pytest
import torch

from brimful.gp.model import likelihood
from brimful.gp.model.kernels import parse
from brimful.gp.model.tasks import TaskBatch
from brimful.gp.optimize.matrices import MatrixEvaluator, serves

from ..helpers.drawn import problem, thetas, waves

CASES = [
    ("rbf", 1, False, "linear"),
    ("matern12", 1, False, "constant"),
    ("matern32", 2, False, "constant"),
    ("matern52", 3, True, "zero"),
    ("rbf", 2, True, "constant"),
]


def nlml_of(evaluator: MatrixEvaluator, value_L2: torch.Tensor) -> torch.Tensor:
    return 0.5 * (value_L2.sum(1) + math.log(2 * math.pi) * evaluator.count_T)


@pytest.mark.parametrize(("text", "dimensions", "ard", "mean"), CASES)
@pytest.mark.parametrize("points", [2, 7, 40])
@pytest.mark.parametrize("known", [False, True])
def test_it_gives_what_the_plain_likelihood_gives(
    text: str, dimensions: int, ard: bool, mean: str, points: int, known: bool
):
    some = problem(text, *waves(3, 6, points, dimensions, holes=0.2), mean, ard=ard)
    tasks: TaskBatch = some.tasks
    if known:
        tasks = replace(tasks, known_TN=0.1 * tasks.mask_TN.double())
    theta, index = thetas(1, 6, some.kernel), torch.arange(6)
    evaluator = MatrixEvaluator(some.kernel, tasks)
    out, plain = evaluator.evaluate(index, theta), likelihood.evaluate(some.kernel, tasks, theta)
    for ours, wanted in zip((nlml_of(evaluator, out.value_L2), *out[1:]), plain, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(evaluator.score(index, theta), out.value_L2)
    other = evaluator.evaluate(index[[4, 1]], theta[[4, 1]])
    for ours, wanted in zip(other, out, strict=True):
        torch.testing.assert_close(ours, wanted[[4, 1]], rtol=1e-12, atol=1e-12)


def test_a_matrix_that_is_not_positive_definite_is_infinite_and_alone():
    some = problem("rbf", *waves(3, 4, 9))
    known = torch.zeros_like(some.tasks.y_TN)
    known[2] = -5.0
    evaluator = MatrixEvaluator(some.kernel, replace(some.tasks, known_TN=known))
    theta = thetas(1, 4, some.kernel)
    out = evaluator.evaluate(torch.arange(4), theta)
    assert torch.isinf(out.value_L2).all(1).tolist() == [False, False, True, False]
    assert torch.isinf(evaluator.score(torch.arange(4), theta)).all(1).tolist() == [False, False, True, False]
    assert all(torch.isfinite(part).all() for part in out[1:])


def test_what_it_serves():
    assert serves(parse("matern32"), 2)
    assert not serves(parse("rbf"), 3)
    assert not serves(parse("rbf + matern32"), 1)
    assert not serves(parse("periodic"), 1)
