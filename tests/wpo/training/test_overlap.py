"""Centers, training rows and held-out rows that overlap are found, left out and reported, or refused."""

import warnings

import pytest
import torch

from brimful import BrimfulWarning, InputError, wpo

pytestmark = pytest.mark.usefixtures("one_thread")
OPTIONS = {"steps": 2, "batch_size": 16, "device": "cpu", "progress": False, "calibrate": False}


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))


def test_training_on_the_centers_themselves_is_refused():
    x = rows(60)
    with pytest.raises(InputError, match=r"54 of 54 training rows equal a center.*wpo.dataset\(rows\)"):
        wpo.train(wpo.ScoreModel(x), x, **OPTIONS)


def test_training_rows_that_are_centers_are_left_out():
    x, held_out = rows(60), rows(20, 1)
    with pytest.warns(BrimfulWarning, match=r"10 of 60 training rows equal a center.*not trained on"):
        found = wpo.train(wpo.ScoreModel(x[:10], hidden=4), x, held_out=held_out, **OPTIONS)
    expected = wpo.train(wpo.ScoreModel(x[:10], hidden=4), x[10:], held_out=held_out, **OPTIONS)
    assert found.settings["overlap"] == {"train": 10, "held_out": 0}
    assert found.scores.log_likelihood == expected.scores.log_likelihood


@pytest.mark.parametrize("known", ["centers", "training rows"])
def test_held_out_rows_that_are_known_are_not_scored(known: str):
    x, held_out = rows(60), rows(20, 1)
    more = torch.cat((x[:5] if known == "centers" else x[-5:], held_out))
    with pytest.warns(BrimfulWarning, match=r"5 of 25 held-out rows equal a center or a training row"):
        found = wpo.train(wpo.ScoreModel(x[:10], hidden=4), x[10:], held_out=more, **OPTIONS)
    expected = wpo.train(wpo.ScoreModel(x[:10], hidden=4), x[10:], held_out=held_out, **OPTIONS)
    assert found.settings["overlap"] == {"train": 0, "held_out": 5}
    assert found.scores.log_likelihood == expected.scores.log_likelihood
    with pytest.raises(InputError, match="no row is left to evaluate on"):
        wpo.train(wpo.ScoreModel(x[:10], hidden=4), x[10:], held_out=x[:10], **OPTIONS)


def test_duplicates_that_a_split_tears_apart_and_negative_zeros():
    x = rows(40)
    with pytest.warns(BrimfulWarning, match="held-out rows equal a center or a training row"):
        found = wpo.train(wpo.ScoreModel(rows(9, 2), hidden=4), torch.cat((x, x[:20])), held_out=0.5, **OPTIONS)
    assert found.settings["overlap"]["held_out"] > 0
    centers = torch.tensor([[0.0, 1.0], [2.0, 3.0], [-1.0, -2.0]])
    with pytest.warns(BrimfulWarning, match="1 of 41 training rows"):
        wpo.train(
            wpo.ScoreModel(centers, hidden=4),
            torch.cat((x, centers[:1] * torch.tensor([-1.0, 1.0]))),
            held_out=rows(9, 3),
            **OPTIONS,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_data_set_has_no_overlap(dtype: torch.dtype):
    data = wpo.dataset(torch.cat((rows(50), rows(50))), 10).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = wpo.train(wpo.ScoreModel(data.centers_Kd), data.train_Nd, held_out=data.held_out_Md, **OPTIONS)
    assert found.settings["overlap"] == {"train": 0, "held_out": 0}
