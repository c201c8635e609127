"""The batched executor on a CUDA device, beside the sequential one."""

import random

import pytest

from brimful import programs
from brimful.programs.batched import gpu
from brimful.programs.batched.evaluation.executor import Batched
from brimful.programs.batched.results.sample_batch import run_batch
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.sequential import Sequential
from brimful.programs.generate import generate

from .helpers import random_grid

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("clean_device")]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_generated_batt_agrees(seed):
    graph = programs.loads(generate(400, seed)).merge()
    rng = random.Random(seed)
    samples = []
    for number in range(12):
        one, other = (random_grid(rng, rng.randint(1, 20), rng.randint(1, 20)) for _ in range(2))
        samples.append(Arguments(str(number), ((one, other),), one, other))
    batch, one_by_one = Batched(graph, device="cuda").evaluate(samples), Sequential(graph)
    for at, sample in enumerate(samples):
        expected = one_by_one.evaluate(sample)
        failed = {node: int(category) for node, category in enumerate(batch.failed[:, at]) if category}
        assert failed == {node: int(failure.category) for node, failure in expected.failures.items()}
        for node, step in batch.steps.items():
            if not callable(expected.values[node]):
                assert step.decode([at]) == [expected.values[node]], graph.nodes[node].label


@pytest.mark.parametrize("kernel", [True, False])
def test_results_of_a_batch_have_the_same_bytes(kernel, monkeypatch: pytest.MonkeyPatch):
    if not kernel:
        monkeypatch.setattr(gpu, "kernels_run", lambda device: False)
    graph, rng = programs.loads(generate(300, 3)).merge(), random.Random(3)
    grids = [random_grid(rng, rng.randint(1, 30), rng.randint(1, 30)) for _ in range(40)]
    samples = [Arguments("task", ((one, one),), one, one) for one in [*grids, ((300, -1),), ((5,) * 200,) * 3]]
    there, here = (run_batch(Batched(graph, device=name), samples, [None] * len(samples)) for name in ("cuda", "cpu"))
    for one, other in zip(there[:4], here[:4], strict=True):
        assert (one == other).all()
    assert (there[4].offsets == here[4].offsets).all() and (there[4].flat == here[4].flat).all()
