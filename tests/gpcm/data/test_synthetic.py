"""Synthetic students, their files, and the filter that knows the truth."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.bayes_filter import bayes_filter

from brimful import ConfigError, InputError
from brimful.gpcm.data import true_parameters
from brimful.gpcm.data.files import read_folder
from brimful.gpcm.data.students import Students
from brimful.gpcm.data.synthetic import synthetic, synthetic_by_name, write
from brimful.gpcm.data.true_parameters import TrueParameters
from brimful.gpcm.evaluation import metrics
from brimful.gpcm.model.partial_credit import probabilities


def same(first: Students, second: Students) -> None:
    for name in ("question", "response", "offsets", "ids", "questions"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    assert (first.categories, first.partial_credit) == (second.categories, second.partial_credit)


def test_sampling_is_repeatable():
    sample = synthetic(2000, 200, 4, seed=3)
    again, other = synthetic(2000, 200, 4, seed=3), synthetic(2000, 200, 4, seed=4)
    same(sample.students, again.students)
    assert (sample.true_parameters.theta_B == again.true_parameters.theta_B).all()
    assert not (sample.true_parameters.theta_B == other.true_parameters.theta_B).any()
    lengths = sample.students.lengths
    assert lengths.min() >= 50
    assert lengths.max() <= 200
    assert abs(lengths.mean() - 100) < 1
    assert (np.diff(sample.true_parameters.beta_QH, axis=1) >= 0).all()
    assert abs(np.log(sample.true_parameters.alpha_Q).std() - 0.3) < 0.05


def test_answers_are_as_likely_as_the_model_says():
    sample = synthetic(4000, 2, 3, seed=1)
    asked = sample.students.question
    theta = np.repeat(sample.true_parameters.theta_B, sample.students.lengths)
    p_TK = probabilities(theta, sample.true_parameters.alpha_Q[asked], sample.true_parameters.beta_QH[asked])
    for category in range(3):
        share, expected = (sample.students.response == category).mean(), p_TK[:, category].mean()
        assert abs(share - expected) < 4 * np.sqrt(expected / len(asked))


@pytest.mark.parametrize("kind", ["OC", "PC"])
def test_files_say_the_same_as_memory(tmp_path: Path, kind: str):
    sample = synthetic(40, 12, 4, kind=kind, seed=5)
    found, expected = read_folder(write(tmp_path / "folder", sample)), sample.dataset()
    assert found.test is not None
    assert expected.test is not None
    assert found.true_parameters is not None
    assert found.name == f"synthetic_{kind}_40_12_4"
    same(found.train, expected.train)
    same(found.test, expected.test)
    for name in ("theta_B", "alpha_Q", "beta_QH"):
        assert (getattr(found.true_parameters, name) == getattr(sample.true_parameters, name)).all()
    assert found.true_parameters.theta(found.test.ids).tolist() == sample.true_parameters.theta_B[32:].tolist()


def test_names_of_datasets():
    sizes = {
        "5000_20_4": ("OC", 5000, 20, 4),
        "synthetic_500_20_3": ("OC", 500, 20, 3),
        "synthetic_PC_50_20_2": ("PC", 50, 20, 2),
        "synthetic_oc": ("OC", 200, 30, 4),
        "synthetic_PC": ("PC", 200, 30, 4),
    }
    for name, (kind, *numbers) in sizes.items():
        found = synthetic_by_name(name)
        assert found.name == f"synthetic_{kind}_{'_'.join(str(each) for each in numbers)}"
    for wrong in ("", "synthetic", "5000_200", "assist2009", "synthetic_XX_1_2_3"):
        with pytest.raises(ConfigError, match="is not the name of synthetic data"):
            synthetic_by_name(wrong)
    for sizes_ in ((0, 5, 4), (5, 0, 4), (5, 5, 1)):
        with pytest.raises(ConfigError, match=r"(students|questions|categories) is"):
            synthetic(*sizes_)


def test_true_parameters_in_each_layout(tmp_path: Path):
    flat = {"theta": [1.0], "alpha": [[1.0], [2.0]], "beta": [[0.0, 1.0], [2.0, 3.0]]}
    items = {"discrimination": {"alpha": [1.0, 2.0]}, "difficulties": {"beta": flat["beta"]}}
    nested = {"student_abilities": {"theta": [1.0]}, "question_parameters": items}
    for body in (flat, nested):
        (tmp_path / true_parameters.FILE).write_text(json.dumps(body))
        found = true_parameters.read(tmp_path / true_parameters.FILE)
        assert found is not None
        assert (found.theta_B.tolist(), found.alpha_Q.tolist(), found.beta_QH.shape) == ([1.0], [1.0, 2.0], (2, 2))
    assert np.isnan(found.theta(np.array(["7", "ann"]))).all()
    for wrong in ("{}", "[]", "x", json.dumps(flat | {"alpha": [1.0]})):
        (tmp_path / true_parameters.FILE).write_text(wrong)
        with pytest.raises(InputError, match=true_parameters.FILE):
            true_parameters.read(tmp_path / true_parameters.FILE)


def test_the_filter_is_bayes_rule():
    sample = synthetic(6, 8, 3, seed=2)
    found = bayes_filter(sample.students, sample.true_parameters)
    grid = np.linspace(-6, 6, 2001)
    for student in range(6):
        start, stop = sample.students.offsets[student : student + 2]
        belief = np.exp(-0.5 * grid**2)
        for step in range(start, stop):
            asked, answer = sample.students.question[step], sample.students.response[step]
            p_GK = probabilities(
                grid, sample.true_parameters.alpha_Q[asked][None], sample.true_parameters.beta_QH[asked][None]
            )
            assert np.allclose(belief @ p_GK / belief.sum(), found.probability_TK[step], atol=1e-5)
            belief = belief * p_GK[:, answer]
        mean = (belief @ grid) / belief.sum()
        assert abs(mean - found.theta_B[student]) < 1e-4
        assert abs(np.sqrt(belief @ (grid - mean) ** 2 / belief.sum()) - found.deviation_B[student]) < 1e-4


def test_the_ceiling_of_the_usual_data():
    sample = synthetic(5000, 200, 4)
    test = sample.dataset().test
    assert test is not None
    found = bayes_filter(test, sample.true_parameters)
    by_argmax, by_mean = (metrics.score(found.probability_TK, test.response, how) for how in ("argmax", "mean"))
    assert 0.67 < by_argmax.qwk < 0.71
    assert 0.69 < by_mean.qwk < 0.73
    assert by_argmax.ece < 0.01
    assert np.corrcoef(found.theta_B, sample.true_parameters.theta(test.ids))[0, 1] > 0.98


def test_the_filter_takes_empty_students_and_refuses_unknown_questions():
    sample = synthetic(3, 8, 3)
    empty = sample.students
    none = Students(empty.question[:0], empty.response[:0], np.zeros(3, np.int64), empty.ids[:2], empty.questions, 3)
    found = bayes_filter(none, sample.true_parameters)
    assert found.probability_TK.shape == (0, 3)
    assert np.allclose(found.theta_B, 0)
    assert np.allclose(found.deviation_B, 1, atol=1e-3)
    other = TrueParameters(
        sample.true_parameters.theta_B, sample.true_parameters.alpha_Q[:4], sample.true_parameters.beta_QH[:4]
    )
    with pytest.raises(InputError, match="the true parameters are of 4 questions"):
        bayes_filter(sample.students, other)
