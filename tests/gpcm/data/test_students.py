"""Selections, segments, batches and splits of students."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import ConfigError
from brimful.gpcm.data.splits import folds, split
from brimful.gpcm.data.students import PADDING, Students, batch, flatten

from ..helpers.students import students

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=12)


def rows(found: Students) -> list[tuple[str, list[int], list[int]]]:
    cuts = zip(found.ids.tolist(), found.offsets[:-1], found.offsets[1:], strict=True)
    return [(name, found.question[a:b].tolist(), found.response[a:b].tolist()) for name, a, b in cuts]


@given(LENGTHS, st.randoms(use_true_random=False))
def test_a_selection_is_those_sequences_in_that_order(lengths: list[int], random):
    found = students(lengths)
    index = [random.randrange(len(lengths)) for _ in range(5)]
    assert rows(found.select(index)) == [rows(found)[each] for each in index]
    mask = np.array([random.random() < 0.5 for _ in lengths], dtype=bool)
    assert rows(found.select(mask)) == [each for each, kept in zip(rows(found), mask, strict=True) if kept]


@given(LENGTHS, st.integers(1, 10))
def test_pieces_put_together_are_the_whole(lengths: list[int], length: int):
    found = students(lengths)
    cut = found.segments(length)
    assert cut.lengths.max(initial=0) <= length
    assert cut.question.tolist() == found.question.tolist()
    assert cut.response.tolist() == found.response.tolist()
    owners = [name for name, each in zip(found.ids, lengths, strict=True) for _ in range(max(1, -(-each // length)))]
    assert cut.ids.tolist() == owners


@given(LENGTHS)
def test_a_batch_is_padded_and_padding_is_no_question(lengths: list[int]):
    found = students(lengths)
    index = np.arange(len(lengths))[::-1]
    tensors = batch(found, index)
    assert tensors["question_BS"].shape == (len(lengths), max(lengths))
    assert tensors["length_B"].tolist() == lengths[::-1]
    for name in ("question", "response"):
        padded = tensors[f"{name}_BS"]
        assert padded.dtype == torch.int64
        real = torch.arange(padded.shape[1]) < tensors["length_B"][:, None]
        assert bool((padded[~real] == PADDING).all())
        assert bool((padded[real] >= 0).all())
        assert flatten(padded, tensors["length_B"]).tolist() == getattr(found.select(index), name).tolist()


def test_an_empty_batch():
    assert batch(students([2, 3]), np.zeros(0, np.int64))["question_BS"].shape == (0, 0)


@given(LENGTHS, st.integers(1, 4), st.integers(0, 9))
def test_no_student_is_in_two_parts(lengths: list[int], length: int, seed: int):
    found = students(lengths).segments(length)
    parts = split(found, (0.6, 0.2, 0.2), seed)
    names = [set(part.ids.tolist()) for part in parts]
    assert sum(len(each) for each in names) == len(lengths)
    assert sorted(each for part in parts for each in rows(part)) == sorted(rows(found))
    assert abs(len(names[0]) - 0.6 * len(lengths)) <= 0.5
    again = split(found, (0.6, 0.2, 0.2), seed)
    assert [rows(part) for part in again] == [rows(part) for part in parts]


@given(st.lists(st.integers(0, 9), min_size=3, max_size=12), st.integers(0, 9))
def test_each_student_is_tested_in_one_fold(lengths: list[int], seed: int):
    found = students(lengths)
    parts = folds(found, 3, seed)
    assert sorted(name for _, test in parts for name in test.ids.tolist()) == sorted(found.ids.tolist())
    for train, test in parts:
        assert not set(train.ids.tolist()) & set(test.ids.tolist())
        assert len(train) + len(test) == len(found)
        assert abs(len(test) - len(found) / 3) < 1


def test_a_split_does_not_depend_on_the_order_of_the_students():
    found = students([3] * 20)
    mixed = found.select(np.random.default_rng(0).permutation(20))
    ours, theirs = split(found, (0.5, 0.5), 3), split(mixed, (0.5, 0.5), 3)
    assert [set(part.ids) for part in ours] == [set(part.ids) for part in theirs]
    assert [set(part.ids) for part in ours] != [set(part.ids) for part in split(found, (0.5, 0.5), 4)]


def test_splits_that_cannot_be():
    found = students([1, 2])
    for wrong in ((0.5, 0.4), (1.2, -0.2), (), (0.5, float("nan"))):
        with pytest.raises(ConfigError, match="positive numbers that sum to 1"):
            split(found, wrong)
    for count in (1, 3):
        with pytest.raises(ConfigError, match=f"{count} folds of 2 students"):
            folds(found, count)
    with pytest.raises(ConfigError, match="segments of -1 steps"):
        found.segments(-1)
    assert found.segments(0) is found


def test_questions_that_were_never_trained_on_are_made_unknown():
    train, test = students([9], questions=20, seed=1), students([30], questions=20, seed=2)
    masked = test.mask_unseen(train.question)
    learned = set(train.question.tolist())
    expected = [each if each in learned else 20 for each in test.question.tolist()]
    assert masked.question.tolist() == expected
    assert masked.unknown == expected.count(20) > 0
