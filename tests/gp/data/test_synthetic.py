"""Random tasks are the same however they are drawn."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import gp
from brimful.gp.data import synthetic
from brimful.gp.data.synthetic import SyntheticTasks

from ..helpers.small import fit


@pytest.mark.parametrize("shared", [True, False])
def test_threads_and_blocks_do_not_change_what_is_drawn(shared: bool, monkeypatch: pytest.MonkeyPatch):
    tasks, at = SyntheticTasks(3000, 5, 2, shared), torch.linspace(0, 1, 3, dtype=torch.float64)
    monkeypatch.setattr(synthetic, "cores", lambda: 1)
    alone = tasks.load(100, 2900).tree, tasks.observe(100, 2900, at)
    monkeypatch.setattr(synthetic, "cores", lambda: 3)
    monkeypatch.setattr(synthetic, "_BLOCKS", 2)
    together = tasks.load(100, 2900).tree, tasks.observe(100, 2900, at)
    assert isinstance(alone[0], dict) and isinstance(together[0], dict)
    assert alone[0].keys() == together[0].keys() == ({"y"} if shared else {"x", "y"})
    assert all(torch.equal(alone[0][name], together[0][name]) for name in alone[0])
    assert all(torch.equal(*both) for both in zip(alone[1], together[1], strict=True))


def test_tasks_stay_what_they_were():
    """A store of synthetic tasks keeps only their seed: it draws them again."""
    tree = SyntheticTasks(300, 3, 7, False).load(298, 300).tree
    assert isinstance(tree, dict)
    assert tree["y"].flatten().tolist() == pytest.approx(
        [0.528523, -0.6688493, -0.7234767, 0.2111953, 0.1659193, 0.1596935], abs=1e-6
    )
    assert tree["x"].flatten().tolist() == pytest.approx(
        [0.3175659, 0.5278015, 0.6907627, 0.0733812, 0.6725881, 0.6736161], abs=1e-6
    )


@settings(max_examples=25)
@given(
    st.integers(1, 700), st.lists(st.integers(0, 700), max_size=5), st.integers(0, 3), st.booleans(), st.integers(1, 5)
)
def test_tasks_do_not_depend_on_how_they_are_split(count: int, edges: list[int], seed: int, shared: bool, points: int):
    source, at = SyntheticTasks(count, points, seed, shared), torch.linspace(0, 1, 3)
    within = itertools.pairwise(sorted({0, count, *(edge for edge in edges if edge < count)}))
    parts, whole = [_drawn(source, start, stop, at) for start, stop in within], _drawn(source, 0, count, at)
    for part, of_all in zip(zip(*parts, strict=True), whole, strict=True):
        assert torch.equal(torch.cat(part), of_all)


def _drawn(source: SyntheticTasks, start: int, stop: int, at: torch.Tensor) -> list[torch.Tensor]:
    tree = source.load(start, stop).tree
    assert isinstance(tree, dict)
    return [*tree.values(), *source.observe(start, stop, at)]


def test_tasks_follow_the_seed():
    at = torch.zeros(1)
    one, other, again = (_drawn(SyntheticTasks(300, 8, seed, True), 0, 300, at)[0] for seed in (0, 1, 0))
    assert not torch.isclose(one, other).any(dim=1).all()
    assert torch.equal(one, again)
    assert len(one.unique(dim=0)) == 300


def test_a_noisy_observation_scatters_about_the_truth():
    truth, seen = SyntheticTasks(2000, 4, 0, True).observe(0, 2000, torch.linspace(0, 1, 20, dtype=torch.float64))
    sigma = (seen - truth).std(1)
    assert abs(float((seen - truth).mean())) < 0.01
    assert 0.005 < float(sigma.min()) < 0.03
    assert 0.25 < float(sigma.max()) < 0.5


@pytest.mark.parametrize("count", [0, 512])
def test_no_tasks(count: int):
    assert [len(part) for part in _drawn(SyntheticTasks(600, 4, 0, False), count, count, torch.zeros(2))] == [0] * 4
    assert len(fit(gp.synthetic(0))) == 0
