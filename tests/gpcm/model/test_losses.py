"""Losses: their values, that they add up, and that they stand extremes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from brimful import ConfigError
from brimful.gpcm.model import losses
from brimful.gpcm.model.losses import LOSSES, Loss, class_weights

ADDITIVE = [name for name in LOSSES if name != "kappa"]


def draw(seed: int, B: int = 5, S: int = 7, K: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits_BSK = torch.randn(B, S, K, generator=generator, dtype=torch.float64) * 2
    length_B = torch.randint(0, S + 1, (B,), generator=generator)
    response_BS = torch.randint(0, K, (B, S), generator=generator)
    return logits_BSK, torch.where(torch.arange(S) < length_B[:, None], response_BS, -1), length_B


def flat(logits_BSK: torch.Tensor, response_BS: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return logits_BSK[response_BS >= 0], response_BS[response_BS >= 0]


def test_values_by_their_formulas():
    logits_BSK, response_BS, length_B = draw(0)
    logits_TK, response_T = flat(logits_BSK, response_BS)
    p_TK = torch.softmax(logits_TK, 1)
    p_T = p_TK[torch.arange(len(response_T)), response_T]
    weight_K = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    off_T = (p_TK.argmax(1) - response_T).abs()
    above_TH = 1 - p_TK.cumsum(1)[:, :-1]
    target_TH = (response_T[:, None] > torch.arange(3)).double()
    focal = -((1 - p_T) ** 2) * p_T.log()
    ordinal = -weight_K[response_T] * (1 + 0.5 * off_T) * p_T.log()
    expected = {
        "cross_entropy": functional.cross_entropy(logits_TK, response_T, reduction="sum"),
        "focal": focal.sum(),
        "ordinal": ordinal.sum(),
        "combined": (0.5 * focal + 0.5 * ordinal).sum(),
        "cumulative": functional.binary_cross_entropy(above_TH, target_TH, reduction="sum"),
    }
    assert expected.keys() == set(ADDITIVE)
    for name, value in expected.items():
        found = Loss(name, weight_K)(logits_BSK, response_BS, length_B)
        assert torch.isclose(found.sum, value), name
        assert found.weight == len(response_T)


def test_special_cases_agree():
    logits_BSK, response_BS, _ = draw(1, K=2)
    entropy = Loss("cross_entropy")(logits_BSK, response_BS)
    assert torch.isclose(Loss("focal", gamma=0.0)(logits_BSK, response_BS).sum, entropy.sum)
    assert torch.isclose(Loss("cumulative")(logits_BSK, response_BS).sum, entropy.sum)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(ADDITIVE), st.integers(1, 4))
def test_parts_add_up_to_the_whole(seed: int, name: str, cut: int):
    logits_BSK, response_BS, length_B = draw(seed)
    loss = Loss(name, torch.tensor([0.5, 1.0, 2.0, 3.0]))
    whole_BSK = logits_BSK.clone().requires_grad_()
    whole = loss(whole_BSK, response_BS, length_B)
    whole.mean.backward()
    parts_BSK = logits_BSK.clone().requires_grad_()
    parts = [loss(parts_BSK[a:b], response_BS[a:b], length_B[a:b]) for a, b in ((0, cut), (cut, 5))]
    total = sum(float(part.weight) for part in parts)
    for part in parts:
        (part.sum / max(total, 1)).backward()
    assert total == float(whole.weight)
    assert torch.isclose(parts[0].sum + parts[1].sum, whole.sum)
    assert whole_BSK.grad is not None
    assert parts_BSK.grad is not None
    assert torch.allclose(whole_BSK.grad, parts_BSK.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", LOSSES)
def test_padding_does_no_harm_even_as_nan(name: str):
    logits_BSK, response_BS, length_B = draw(2)
    loss = Loss(name)
    expected = loss(logits_BSK, response_BS, length_B)
    spoilt_BSK = torch.where((response_BS < 0)[..., None], torch.nan, logits_BSK).requires_grad_()
    for responses in (response_BS, response_BS.clamp(min=0)):  # padding is seen by either
        found = loss(spoilt_BSK, responses, length_B)
        assert torch.equal(found.sum, expected.sum)
    found.mean.backward()
    assert spoilt_BSK.grad is not None
    assert bool(torch.isfinite(spoilt_BSK.grad).all())
    assert float(spoilt_BSK.grad[response_BS < 0].abs().sum()) == 0


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_extreme_logits_stay_finite(name: str, dtype: torch.dtype):
    size = 3e4 if dtype == torch.float16 else 1e6
    rows = [[0.0, size, 0.0, -size], [size, 0.0, 0.0, 0.0], [-size, -size, -size, size], [0.0, 0.0, 0.0, 0.0]]
    logits_BSK = torch.tensor([rows], dtype=dtype).requires_grad_()
    found = Loss(name)(logits_BSK, torch.tensor([[3, 0, 3, 1]]))
    found.mean.backward()
    assert found.sum.dtype == torch.float32
    assert bool(torch.isfinite(found.sum))
    assert logits_BSK.grad is not None
    assert bool(torch.isfinite(logits_BSK.grad).all())


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_of_nothing(name: str):
    logits_BSK = torch.randn(2, 3, 4, requires_grad=True)
    found = Loss(name)(logits_BSK, torch.full((2, 3), -1), torch.zeros(2, dtype=torch.int64))
    found.mean.backward()
    assert [float(each.detach()) for each in (found.sum, found.weight, found.mean)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_finite_differences(name: str):
    logits_BSK, response_BS, length_B = draw(3, B=2, S=4)
    loss = Loss(name)
    assert torch.autograd.gradcheck(lambda each: loss(each, response_BS, length_B).sum, logits_BSK.requires_grad_())


def test_class_weights():
    found = class_weights(torch.tensor([50, 25, 25, 0]))
    expected = [math.sqrt(100 / (4 * each)) for each in (50, 25, 25, 25)]
    assert torch.allclose(found, torch.tensor(expected))
    assert class_weights(torch.zeros(3, dtype=torch.int64)).isfinite().all()


def test_soft_kappa_is_kappa_where_predictions_are_certain():
    from brimful.gpcm.evaluation import metrics

    generator = torch.Generator().manual_seed(0)
    guess, answer = torch.randint(0, 4, (2, 60), generator=generator)
    table = functional.one_hot(answer, 4).double().mT @ functional.one_hot(guess, 4).double()
    assert torch.isclose(
        losses.soft_kappa(table),
        torch.tensor(metrics.kappa(metrics.contingency(answer.numpy(), guess.numpy(), 4), 2), dtype=torch.float64),
    )
    loss = Loss("kappa")(functional.one_hot(guess, 4)[None] * 1e3, answer[None])
    assert torch.isclose(loss.mean.double(), 1 - losses.soft_kappa(table), atol=1e-6)


def test_losses_that_do_not_exist():
    with pytest.raises(ConfigError, match="loss is 'mse'; choose one of combined"):
        Loss("mse")
    with pytest.raises(ConfigError, match="gamma is -1"):
        Loss(gamma=-1)
