"""The model is its own definition, computed at once; and nothing is seen before its time."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import ConfigError
from brimful.gpcm.data.students import batch
from brimful.gpcm.model import dropout, embedding
from brimful.gpcm.model.deep_gpcm import DeepGPCM, DeepGPCMConfig, ModelOutput
from brimful.gpcm.model.embedding import EMBEDDINGS
from brimful.gpcm.model.heads import ALPHA_OF, ALPHAS, BETAS
from brimful.gpcm.model.losses import Loss
from brimful.gpcm.model.stepwise import baseline, one_hot

from ..helpers.students import small, students

pytestmark = pytest.mark.usefixtures("one_thread")


def gradients(model: DeepGPCM, output: ModelOutput, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradients of a loss that every output goes into, by parameter."""
    real_BS = tensors["response_BS"] >= 0
    parts = (output.logits_BSK, output.theta_BS, output.alpha_BS, output.beta_BSH)
    total = torch.zeros((), dtype=torch.float64)
    for number, part in enumerate(parts):
        wave = torch.cos(torch.arange(part.numel(), dtype=part.dtype) + number).view_as(part)
        mask = real_BS.view(*real_BS.shape, *([1] * (part.ndim - 2)))
        total = total + torch.where(mask, part * wave, 0).sum()
    names, weights = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(total, weights, allow_unused=True)
    return {name: torch.zeros(()) if each is None else each for name, each in zip(names, found, strict=True)}


def same(model: DeepGPCM, tensors: dict[str, torch.Tensor], **options: Any) -> None:
    """Model and baseline agree in every output of real steps, and in every gradient."""
    real_BS = tensors["response_BS"] >= 0
    ours, theirs = model(**tensors, **options), baseline(model, **tensors, **options)
    for name in ("logits_BSK", "theta_BS", "alpha_BS", "beta_BSH"):
        first, second = getattr(ours, name)[real_BS], getattr(theirs, name)[real_BS]
        assert torch.allclose(first, second, rtol=1e-10, atol=1e-12), name
    if not bool(real_BS.any()):
        return
    expected = gradients(model, theirs, tensors)
    for name, found in gradients(model, ours, tensors).items():
        # Sums over thousands of steps cancel; what is compared is the error by the size of the whole tensor.
        size = float(expected[name].abs().max())
        assert float((found - expected[name]).abs().max()) <= 1e-10 * max(size, 1e-3), name


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_the_model_is_the_baseline(data: st.DataObject):
    draw = data.draw
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    questions, categories = draw(st.integers(1, 30)), draw(st.integers(2, 6))
    torch.manual_seed(draw(st.integers(0, 99)))
    model = small(
        questions,
        categories,
        slots=draw(st.integers(1, 9)),
        value_size=draw(st.integers(1, 17)),
        embedding=draw(st.sampled_from(EMBEDDINGS)),
        alpha=draw(st.sampled_from(ALPHAS)),
        alpha_of=draw(st.sampled_from(ALPHA_OF)),
        beta=draw(st.sampled_from(BETAS)),
        dropout=0.3,
        unknown=0.2,
    )
    found = students(lengths, questions, categories, seed=draw(st.integers(0, 99)), unknown=draw(st.booleans()))
    tensors = batch(found, np.arange(len(lengths)))
    same(model, tensors)
    model.train()
    same(model, tensors, seed_B=torch.arange(len(lengths)))


@pytest.mark.parametrize("engine", ["loop", "scan", "native"])
def test_every_engine(engine: str):
    torch.manual_seed(0)
    model = small(slots=4, value_size=8)
    tensors = batch(students([12, 0, 7, 1], unknown=True), np.arange(4))
    real_BS = tensors["response_BS"] >= 0
    found, expected = model(**tensors, engine=engine), baseline(model, **tensors)
    assert torch.allclose(found.logits_BSK[real_BS], expected.logits_BSK[real_BS], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_rows_of_an_embedding_are_its_definition(kind: str):
    model = small(5, 4, embedding=kind)
    every = torch.arange(24)
    expected_RD = one_hot(model, every // 4, every % 4) @ model.value.flatten(0, 1)
    assert torch.allclose(embedding.all_rows(model.value, model.mix_KC), expected_RD)
    some = torch.tensor([3, 23, 0, 3])
    assert torch.allclose(embedding.some_rows(model.value, model.mix_KC, some), expected_RD[some])


def test_the_four_embeddings_by_hand():
    expected = {
        "linear_decay": [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]],
        "unordered": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "ordered": [[0, 0], [1, 0.5], [1, 1]],
        "adjacent": [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]],
    }
    for kind, rows in expected.items():
        assert embedding.mixing_weights(kind, 3).tolist() == rows
    assert embedding.mixing_weights("adjacent", 4)[0].tolist() == [1, 0.5, 0, 0]
    with pytest.raises(ConfigError, match="embedding is 'sine'"):
        embedding.mixing_weights("sine", 3)


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(0, 11), st.booleans())
def test_nothing_is_seen_before_its_time(seed: int, step: int, training: bool):
    torch.manual_seed(seed)
    # So few questions that the tables are of all of them: with others, rounding would depend on their size.
    model = small(questions=4, dropout=0.3, unknown=0.1).train(training)
    tensors = batch(students([12, 12], questions=4, seed=seed), np.arange(2))
    before = model(**tensors, seed_B=torch.arange(2))
    changed = {name: each.clone() for name, each in tensors.items()}
    changed["response_BS"][0, step] = (changed["response_BS"][0, step] + 1) % 4
    changed["response_BS"][0, step + 1 :] = 0
    changed["question_BS"][0, step + 1 :] = 3
    after = model(**changed, seed_B=torch.arange(2))
    assert torch.equal(before.logits_BSK[0, : step + 1], after.logits_BSK[0, : step + 1])
    assert torch.equal(before.logits_BSK[1], after.logits_BSK[1])
    if step < 11:
        later = model(**changed | {"question_BS": tensors["question_BS"]}, seed_B=torch.arange(2))
        assert not torch.equal(before.theta_BS[0, step + 1 :], later.theta_BS[0, step + 1 :])


def test_gradients_reach_only_the_past():
    model = small()
    tensors = batch(students([9]), np.arange(1))
    output = model(**tensors)
    rows = torch.autograd.grad(output.theta_BS[0, 4], model.value)[0].abs().sum((1, 2)) > 0
    written = set(tensors["question_BS"][0, :4].tolist())
    assert set(torch.nonzero(rows)[:, 0].tolist()) == written


def test_padding_and_neighbors_change_nothing():
    model = small(dropout=0.3, unknown=0.1).train()
    found = students([5, 9, 0, 2], questions=3)  # few questions, so that alone and together all tables are full
    together = model(**batch(found, np.arange(4)), seed_B=torch.tensor([10, 11, 12, 13]))
    for row, length in enumerate(found.lengths):
        alone = model(**batch(found, [row]), seed_B=torch.tensor([10 + row]))
        assert torch.allclose(alone.logits_BSK[0, :length], together.logits_BSK[row, :length], rtol=1e-12, atol=1e-14)


def test_a_batch_in_parts_gives_the_same_gradient():
    model = small(dropout=0.3, unknown=0.1).train()
    found, loss = students([5, 9, 0, 2, 7, 7]), Loss()
    seed_B = dropout.student_seeds(1, 2, torch.arange(6))

    def gradient(*parts: list[int]) -> torch.Tensor:
        model.zero_grad()
        for part in parts:
            tensors = batch(found, part)
            output = model(**tensors, seed_B=seed_B[part])
            (loss(output.logits_BSK, tensors["response_BS"], tensors["length_B"]).sum / found.steps).backward()
        return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])

    whole = gradient([0, 1, 2, 3, 4, 5])
    assert torch.allclose(whole, gradient([0, 1], [2, 3, 4], [5]), rtol=1e-10, atol=1e-14)
    assert torch.allclose(whole, gradient([4, 1, 0], [5, 2, 3]), rtol=1e-10, atol=1e-14)


def test_few_steps_make_small_tables():
    """With many questions, only those of the batch are computed; the result is the same."""
    many = small(2000, 4)
    found = students([6, 3], questions=2000)
    seen: list[int] = []
    many.query.register_forward_hook(lambda _, inputs, output: seen.append(len(output)))
    same(many, batch(found, np.arange(2)))
    assert max(seen) <= 10


def test_masks():
    seed_B = dropout.student_seeds(7, 3, torch.arange(300))
    assert len(set(seed_B.tolist())) == 300
    mask = dropout.random_mask(seed_B, 40, 20, 0.05, 1)
    assert abs(float(mask.double().mean()) - 0.05) < 0.002
    for axis in ((0, 1), (0, 2), (1, 2)):  # even along every axis, so nothing is kept or dropped more than others
        shares = mask.double().mean(axis)
        expected = (0.05 * 0.95 / (mask.numel() / len(shares))) ** 0.5
        assert float((shares - 0.05).abs().max()) < 5 * expected
    assert torch.equal(dropout.random_mask(seed_B, 55, 20, 0.05, 1)[:, :40], mask)
    assert not torch.equal(dropout.random_mask(seed_B, 40, 20, 0.05, 2), mask)
    assert not torch.equal(dropout.student_seeds(7, 4, torch.arange(300)), seed_B)
    assert not bool(dropout.random_mask(seed_B, 4, 2, 0.0, 1).any())


def test_the_parameters_mean_what_they_say():
    model = small(questions=30, categories=5)
    output = model(**batch(students([20, 20], 30, 5), np.arange(2)))
    assert bool((output.alpha_BS > 0).all())
    assert bool((output.beta_BSH.diff(dim=-1) > 0).all())
    assert bool((output.logits_BSK[..., 0] == 0).all())
    steps = output.logits_BSK.diff(dim=-1)
    expected = output.alpha_BS[..., None] * (output.theta_BS[..., None] - output.beta_BSH)
    assert torch.allclose(steps, expected)


def test_autocast_keeps_single_precision_at_the_end():
    model = DeepGPCM(DeepGPCMConfig(questions=9, categories=4, slots=4, key_size=8, value_size=8, hidden=5))
    tensors = batch(students([6, 9], 9), np.arange(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(**tensors, seed_B=torch.arange(2))
        loss = Loss()(output.logits_BSK, tensors["response_BS"], tensors["length_B"])
    loss.mean.backward()
    assert output.logits_BSK.dtype == loss.sum.dtype == torch.float32
    exact = model(**tensors, seed_B=torch.arange(2))
    assert torch.allclose(output.logits_BSK, exact.logits_BSK, atol=0.05)
    assert all(bool(each.grad.isfinite().all()) for each in model.parameters() if each.grad is not None)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1]])
def test_batches_with_little_in_them(lengths: list[int]):
    output = small()(**batch(students(lengths), np.arange(len(lengths))))
    assert output.logits_BSK.shape == (len(lengths), max(lengths, default=0), 4)


def test_a_vocabulary_of_nothing_has_the_unknown_question():
    model = small(questions=0)
    same(model, batch(students([4], questions=0, unknown=True), np.arange(1)))


def test_a_few_steps_of_training_help():
    torch.manual_seed(0)
    found = students([30] * 8, questions=5, categories=3)
    found = found.select(np.arange(8))
    answers = (found.question % 3).astype(np.int32)  # what is answered depends on the question alone
    found = type(found)(found.question, answers, found.offsets, found.ids, found.questions, 3)
    model, loss = small(5, 3).train(), Loss("cross_entropy")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    tensors, values = batch(found, np.arange(8)), []
    for _ in range(30):
        optimizer.zero_grad()
        value = loss(model(**tensors).logits_BSK, tensors["response_BS"]).mean
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    assert values[-1] < 0.6 * values[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"categories": 1}, "categories is 1; it must be at least 2"),
        ({"slots": 0}, "slots is 0"),
        ({"value_size": 0}, "value_size is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"unknown": -0.1}, "unknown is -0.1"),
        ({"embedding": "sine"}, "embedding is 'sine'"),
        ({"alpha": "square"}, "alpha is 'square'; choose one of exp, softplus"),
        ({"beta": "random"}, "beta is 'random'"),
    ],
)
def test_configs_that_cannot_be(wrong: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        DeepGPCM(DeepGPCMConfig(**{"questions": 5, "categories": 4, **wrong}))
