"""On a GPU: graphs and tiers change nothing, and judges agree with those on the CPU."""

import pytest
import torch

from brimful import locate

from .helpers import SCENARIO, recordings, samples, scaling

pytestmark = pytest.mark.gpu


def test_graphs_and_tiers_give_the_same_network():
    some = locate.Dataset("some", recordings().select(slice(0, 2000)), SCENARIO, 0)
    shared = {"network": "small", "epochs": 2, "device": "cuda", "progress": False}
    results = [
        locate.train(some, **shared, graph=graph, preload_to_gpu=preload)  # pyright: ignore[reportArgumentType]
        for graph, preload in ((True, True), (False, True), (True, False))
    ]
    first, *others = (torch.cat([value.flatten() for value in one.model.state_dict().values()]) for one in results)
    assert torch.allclose(first, others[0], atol=1e-4)
    assert torch.equal(first, others[1])


def test_judges_are_those_of_the_cpu():
    few = samples(50)
    guess = {"network": {"position": torch.zeros(50, 2), "covariance": torch.eye(2).expand(50, 2, 2)}}
    one, two = (locate.compare(guess, few, scaling(), SCENARIO, device=device) for device in ("cpu", "cuda"))
    for name, error in one.errors.items():
        assert torch.allclose(error, two.errors[name], atol=30), name  # metres, of ten thousand
