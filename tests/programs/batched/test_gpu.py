"""The batched executor on a CUDA device, beside the sequential one."""

import random

import pytest

from brimful import programs
from brimful.programs.batched.executor import Batched
from brimful.programs.execution.sequential import Arguments, Sequential
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
