"""On a GPU: the same numbers as on a CPU, inside the budget."""

import pytest
import torch

from .helpers.oracle import assert_near, gradients, make_model, make_samples
from .helpers.training import fit, small

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("clean_device")]


@pytest.mark.parametrize("factor", ["triangle", "lowrank"])
def test_loss_and_gradients_are_those_of_the_cpu(factor: str):
    model, x = make_model(30, 20, factor=factor, rank=3), make_samples(16, 20)
    wanted = model.losses(x)
    wanted_gradients = gradients(model, wanted.mean())
    model, x = model.cuda(), x.cuda()
    for strategy, chunk in (("single", "auto"), ("chunked", 7), ("auto", "auto")):
        found = model.losses(x, strategy=strategy, chunk_size=chunk)
        assert_near([found.cpu()], [wanted])
        assert_near([each.cpu() for each in gradients(model, found.mean())], wanted_gradients)
    for t in (0.0, 0.4):
        assert_near([model.log_prob(x, t).cpu()], [model.cpu().log_prob(x.cpu(), t)])
        model.cuda()
    assert_near([model.sample(9, seed=0).cpu()], [model.cpu().sample(9, seed=0)], 1e-8)


def test_training_stays_within_the_budget():
    data = small(200, 500, torch.float32)
    found = fit(data, device="cuda", budget="500MB", strategy="chunked", chunk_size=64)
    assert 0 < found.observed <= 500e6
    assert {"allocated_mb", "reserved_mb"} < set(found.history[-1])
