"""Predictions, knowledge states, 8-bit weights, and recovered parameters."""

import copy
import math

import numpy as np
import pytest
import torch

from brimful import ConfigError, InputError
from brimful.gpcm.data.students import batch
from brimful.gpcm.data.synthetic import synthetic
from brimful.gpcm.evaluation.inference import knowledge_state, predict_after, predict_next
from brimful.gpcm.evaluation.item_parameters import ItemParameters, abilities, item_parameters
from brimful.gpcm.evaluation.parameter_recovery import correlation, link, measure_recovery
from brimful.gpcm.model.deep_gpcm import DeepGPCM, DeepGPCMConfig
from brimful.gpcm.model.quantize import quantize, quantize_rows
from brimful.gpcm.model.stepwise import baseline

from ..helpers.students import first_steps, small, students

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("steps", [1, 12, 10_000])
def test_predictions_do_not_depend_on_the_batches(steps: int):
    model, found = small().train(), students([5, 0, 9, 1, 7], unknown=True)
    predicted = predict_next(model, found, steps=steps)
    assert model.training  # as it was
    model.eval()
    for row in range(len(found)):
        alone = baseline(model, **batch(found, [row]))
        place = slice(*found.offsets[row : row + 2])
        expected = torch.softmax(alone.logits_BSK[0], -1).detach().numpy()
        assert np.allclose(predicted.probability_TK[place], expected, atol=1e-6)
        assert np.allclose(predicted.theta_T[place], alone.theta_BS[0].detach().numpy(), atol=1e-6)
        assert np.allclose(predicted.alpha_T[place], alone.alpha_BS[0].detach().numpy(), atol=1e-6)
        assert np.allclose(predicted.beta_TH[place], alone.beta_BSH[0].detach().numpy(), atol=1e-6)


def test_predictions_of_nobody():
    assert predict_next(small(), students([])).probability_TK.shape == (0, 4)
    assert predict_next(small(), students([0, 0])).probability_TK.shape == (0, 4)


def test_what_comes_after_is_what_the_longer_sequence_says():
    model, found = small(), students([5, 8])
    shorter = first_steps(found, 4)
    following = found.question[found.offsets[:-1] + 4]
    expected = predict_next(model, found).probability_TK[found.offsets[:-1] + 4]
    assert np.allclose(predict_after(model, shorter, following), expected, atol=1e-6)
    nobody_yet = predict_after(model, students([0, 0]), 3)
    assert np.allclose(nobody_yet[0], nobody_yet[1])
    assert np.allclose(nobody_yet.sum(1), 1)


def test_knowledge_is_what_would_be_read_next():
    model, found = small(), students([6])
    state = knowledge_state(model, found)
    assert state.theta_TQ.shape == state.expected_TQ.shape == (7, 7)
    assert state.theta_TN.shape == (7, 5)
    for after in (0, 3, 6):
        part = first_steps(found, after)
        for question in (0, 4):
            p_K = predict_after(model, part, question)[0]
            assert math.isclose(float(p_K @ np.arange(4)), state.expected_TQ[after, question], abs_tol=1e-5)
    read = predict_next(model, found).theta_T
    assert np.allclose(read, state.theta_TQ[np.arange(6), found.question], atol=1e-6)
    low, high = state.theta_TQ.min(1, keepdims=True), state.theta_TQ.max(1, keepdims=True)
    assert bool(((state.theta_TN >= low - 1e-6) & (state.theta_TN <= high + 1e-6)).all())
    assert knowledge_state(model, students([0])).theta_TQ.shape == (1, 7)
    with pytest.raises(InputError, match="2 students; give one"):
        knowledge_state(model, students([2, 2]))


def test_students_of_another_vocabulary():
    for wrong in (students([3], questions=8), students([3], categories=5)):
        with pytest.raises(InputError, match="the model has 7 questions and 4 categories"):
            predict_next(small(), wrong)


def test_rows_of_8_bits():
    weight = torch.randn(6, 40) * torch.logspace(-6, 6, 6)[:, None]
    weight[3] = 0
    whole, scale = quantize_rows(weight)
    assert whole.dtype == torch.int8
    assert scale.shape == (6, 1)
    assert bool(((whole * scale - weight).abs() <= scale * 0.5001).all())
    assert bool((whole[3] == 0).all())


def test_an_8_bit_model_predicts_nearly_the_same():
    torch.manual_seed(0)
    model = DeepGPCM(DeepGPCMConfig(questions=50, categories=4)).eval()
    before = copy.deepcopy(model.state_dict())
    found = students([20, 3, 40], questions=50, unknown=True)
    packed = quantize(model)
    assert packed.bytes < 0.3 * sum(weight.nbytes for weight in model.parameters())
    exact, rough = predict_next(model, found), predict_next(packed, found)
    assert 0 < np.abs(exact.probability_TK - rough.probability_TK).max() < 0.02
    assert all(torch.equal(each, model.state_dict()[name]) for name, each in before.items())
    restored = quantize(DeepGPCM(model.config))
    restored.load_state_dict(packed.state_dict())
    assert np.array_equal(predict_next(restored, found).probability_TK, rough.probability_TK)


def test_questions_as_the_model_sees_them():
    model, found = small(questions=6), students([5, 9], questions=6, unknown=True)
    seen = item_parameters(model, found, "heads")
    predicted = predict_next(model, found)
    for question in range(6):
        asked = found.question == question
        assert seen.count_Q[question] == asked.sum()
        if asked.any():
            assert math.isclose(seen.alpha_Q[question], predicted.alpha_T[asked].mean(), rel_tol=1e-5)
            assert np.allclose(seen.beta_QH[question], predicted.beta_TH[asked][0], atol=1e-6)
    for by in ("heads", "common"):
        never = item_parameters(model, students([0], questions=6), by)
        assert np.isnan(never.alpha_Q).all()
    with pytest.raises(ConfigError, match="item parameters by 'eye'; choose one of common, heads"):
        item_parameters(model, found, "eye")


def test_questions_on_the_common_scale_are_the_nearest_partial_credit_model():
    """By hand: the logits that the model gives at each student's end, regressed on the mean of what is read there."""
    model, found = small(questions=6), students([5, 9, 7, 3], questions=6)
    seen = item_parameters(model, found, steps=7)
    asked = np.unique(found.question)
    logits, theta = [], []
    for row in range(4):
        theta.append(knowledge_state(model, found.select([row])).theta_TQ[-1].mean())
        p_QK = np.concatenate([predict_after(model, found.select([row]), question) for question in range(6)])
        logits.append(np.diff(np.log(p_QK), axis=1))
    centred = np.array(theta) - np.mean(theta)
    slope_QH = np.einsum("b,bqh->qh", centred, np.array(logits)) / (centred @ centred)
    assert np.allclose(seen.alpha_Q[asked], slope_QH.mean(1)[asked], rtol=1e-3)
    expected_QH = np.mean(theta) - np.mean(logits, axis=0) / slope_QH.mean(1, keepdims=True)
    assert np.allclose(seen.beta_QH[asked], expected_QH[asked], rtol=1e-3)


def test_abilities_at_the_end():
    model, found = small(), students([5, 0, 9, 1], unknown=True)
    for steps in (1, 20, 10_000):
        ends = abilities(model, found, steps=steps)
        for row in (0, 2, 3):
            assert math.isclose(
                ends[row], knowledge_state(model, found.select([row])).theta_TQ[-1].mean(), rel_tol=1e-5
            )
        assert np.isnan(ends[1])


def test_recovery_does_not_mind_the_scale_and_compares_each_with_its_own():
    sample = synthetic(50, 20, 4)
    test = sample.dataset().test
    assert test is not None
    truth, own = sample.true_parameters, sample.true_parameters.theta_B[40:]
    stretched = ItemParameters(truth.alpha_Q / 2, truth.beta_QH * 2 + 3, np.ones(20))
    found = measure_recovery(stretched, own * 2 + 3, test, truth)
    for name in ("alpha_r", "beta_r", "theta_r"):
        assert math.isclose(getattr(found, name), 1), name
    for name in ("alpha_rmse", "beta_rmse", "theta_rmse"):
        assert getattr(found, name) < 1e-9, name
    assert (found.questions, found.students) == (20, 10)
    assert math.isclose(found.slope, 0.5)
    assert np.allclose(found.beta_r_H, 1)
    others = measure_recovery(stretched, truth.theta_B[:10], test, truth)
    assert others.theta_r < 0.9  # the abilities of other students are of no use


def test_recovery_leaves_out_what_was_never_asked():
    sample = synthetic(50, 20, 4)
    test = sample.dataset().test
    assert test is not None
    alpha, beta = sample.true_parameters.alpha_Q.copy(), sample.true_parameters.beta_QH.copy()
    alpha[3], beta[3] = np.nan, np.nan
    theta = sample.true_parameters.theta_B[40:].copy()
    theta[2] = np.nan
    found = measure_recovery(ItemParameters(alpha, beta, np.arange(20) != 3), theta, test, sample.true_parameters)
    assert (found.questions, found.students) == (19, 9)
    assert math.isclose(found.alpha_r, 1)
    nothing = measure_recovery(
        ItemParameters(alpha, beta, np.zeros(20)), np.full(10, np.nan), test, sample.true_parameters
    )
    assert math.isnan(nothing.alpha_r)
    assert math.isnan(nothing.theta_rmse)
    with pytest.raises(InputError, match="thresholds of shape"):
        measure_recovery(ItemParameters(alpha[:4], beta[:4], np.ones(4)), theta, test, sample.true_parameters)


def test_correlations_that_cannot_be_said():
    assert math.isnan(correlation(np.ones(5), np.arange(5.0)))
    assert math.isnan(correlation(np.ones(1), np.ones(1)))
    assert math.isnan(link(np.ones((3, 1)), np.ones((3, 1)))[0])
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 30))
    assert math.isclose(correlation(first, second), np.corrcoef(first, second)[0, 1])
