"""Splits that never share a group, and statistics that never look beyond the training split."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import ConfigError, InputError
from brimful.data import Decoded, Padded, Ragged, moments, split, standardize, statistics

from .datasets import run, small

pytestmark = pytest.mark.usefixtures("one_thread")


@given(st.integers(10, 500), st.integers(0, 2**64 - 1))
def test_splits_are_all_samples_once_in_the_sizes_asked_for(samples: int, seed: int):
    parts = split(samples, (0.7, 0.2, 0.1), seed=seed)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(samples))
    assert all(abs(len(part) - share * samples) <= 1 for part, share in zip(parts, (0.7, 0.2, 0.1), strict=True))
    assert all(np.array_equal(*pair) for pair in zip(parts, split(samples, (0.7, 0.2, 0.1), seed=seed), strict=True))


def test_splits_by_name_and_of_a_source():
    named = split({"x": torch.ones(20)}, {"train": 0.75, "test": 0.25}, seed=1)
    assert {name: len(part) for name, part in named.items()} == {"train": 15, "test": 5}
    assert not np.array_equal(named["test"], split(20, {"train": 0.75, "test": 0.25}, seed=2)["test"])


@given(st.lists(st.integers(-5, 60), min_size=80, max_size=200), st.integers(0, 100))
def test_no_group_is_in_two_splits_whatever_the_order_of_the_samples(labels: list[int], seed: int):
    if len(set(labels)) < 20:
        return
    groups = np.array(labels)
    train, test = split(len(groups), (0.5, 0.5), seed=seed, groups=groups)
    assert not set(groups[train]) & set(groups[test])
    assert len(train) + len(test) == len(groups)
    turned = split(len(groups), (0.5, 0.5), seed=seed, groups=groups[::-1])
    assert set(groups[::-1][turned[0]]) == set(groups[train])


def test_groups_by_text_and_their_sizes():
    groups = np.repeat([f"patient {number}" for number in range(200)], 5)
    train, test = split(1000, (0.8, 0.2), groups=groups)
    assert 0.75 < len(train) / 1000 < 0.85
    assert len(set(groups[test])) == len(test) / 5


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ((10, (0.5, 0.4)), ConfigError, "sum to 1"),
        ((10, ()), ConfigError, "sum to 1"),
        ((10, (1.5, -0.5)), ConfigError, "above 0"),
        ((0, (0.5, 0.5)), InputError, "no samples"),
        ((2, (0.9, 0.05, 0.05)), InputError, "leave a split empty"),
    ],
)
def test_splits_that_cannot_be_are_refused(arguments: Any, error: type[Exception], told: str):
    with pytest.raises(error, match=told):
        split(*arguments)


@pytest.mark.parametrize("groups", [np.ones(3, int), np.array([0.5] * 10), np.array([None] * 10)])
def test_groups_that_do_not_fit_are_refused(groups: np.ndarray):
    with pytest.raises(InputError, match="one whole number or text per sample"):
        split(10, (0.5, 0.5), groups=groups)
    with pytest.raises(InputError, match="in so few groups"):
        split(10, (0.5, 0.5), groups=np.zeros(10, int))


def test_statistics_are_those_of_the_training_samples():
    x = np.random.default_rng(0).normal(3, 2, (100, 4)).astype(np.float32)
    train, test = split(100, (0.8, 0.2))
    whole = statistics({"x": x, "y": np.arange(100)}, train)
    assert list(whole) == ["x"]  # whole numbers are left alone
    changed = x.copy()
    changed[test] = 1e9
    again = statistics({"x": changed}, train)
    assert torch.equal(whole["x"].mean, again["x"].mean) and torch.equal(whole["x"].std, again["x"].std)
    assert np.allclose(whole["x"].mean, x[train].astype(np.float64).mean(0))
    assert np.allclose(whole["x"].std, x[train].astype(np.float64).std(0))


@given(st.integers(1, 60), st.integers(1, 20), st.floats(0, 0.9), st.integers(0, 10))
def test_pieces_and_missing_values_make_no_difference(monkeypatch, samples: int, step: int, missing: float, seed: int):
    chance = np.random.default_rng(seed)
    x = chance.normal(1e4, 1, (samples, 3))
    x[chance.random(x.shape) < missing] = np.nan

    class Pieces:
        def __len__(self) -> int:
            return samples

        def take(self, index: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(x[index])

    monkeypatch.setattr(moments, "_READ", step * 24)
    found = statistics(Pieces())[""]
    there = ~np.isnan(x)
    assert found.count.tolist() == there.sum(0).tolist()
    for feature in range(3):
        real = x[there[:, feature], feature]
        assert found.mean[feature].item() == pytest.approx(real.mean() if len(real) else 0, rel=1e-12)
        assert found.std[feature].item() == pytest.approx(real.std() if len(real) else 0, rel=1e-6, abs=1e-9)


def test_standardizing_as_a_transform():
    data = small(200)
    data["x"] = data["x"] * 5 + 3
    data["x"][:, 2] = 7  # never changes
    data["x"][0, 0] = float("nan")
    moments = statistics(data)
    for ragged in ("pad", "packed"):
        batch = next(run(data, batch_size=200, transform=standardize(moments), ragged=ragged).epoch(0))
        assert batch["x"].dtype == torch.float32
        assert torch.allclose(batch["x"].nanmean(0), torch.zeros(3), atol=1e-5)
        assert torch.allclose(batch["x"][:, 1].std(correction=0), torch.ones(()), atol=1e-5)
        assert not batch["x"][:, 2].any() and batch["x"].isnan().sum() == 1
        words = batch["words"]
        real = words.values[words.mask] if isinstance(words, Padded) else words.values
        assert torch.allclose(real.mean(0), torch.zeros(2), atol=1e-5)
        assert not isinstance(words, Padded) or not words.values[~words.mask].any()
    only = standardize(moments, fields=["words"])(data)
    assert torch.equal(only["x"].nan_to_num(), data["x"].nan_to_num())
    assert isinstance(only["words"], Ragged) and not torch.equal(only["words"].values, data["words"].values)


def test_statistics_that_cannot_be_are_refused():
    with pytest.raises(InputError, match=r"convert with \.float\(\)"):
        statistics(torch.arange(3))
    with pytest.raises(InputError, match="the source holds an infinity"):
        statistics(torch.tensor([1.0, float("inf")]))
    with pytest.raises(InputError, match="no samples"):
        statistics(torch.ones(3), [])
    with pytest.raises(InputError, match="from 0 to 3"):
        statistics(torch.ones(3), [0, 3])
    moments = statistics(torch.ones(3))
    with pytest.raises(ConfigError, match="no statistics for x"):
        standardize(moments, ["x"])
    with pytest.raises(InputError, match="the batch has no field"):
        standardize(statistics({"y": torch.ones(3)}))({"x": torch.ones(3)})


def test_statistics_of_samples_that_are_decoded():
    found = statistics(Decoded(["1", "3", "100"], lambda text: torch.tensor([float(text)])), [0, 1])[""]
    assert found.mean.tolist() == [2] and found.std.tolist() == [1] and found.count.tolist() == [2]
