"""Values of all samples as bytes, as they are encoded one by one."""

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched import records
from brimful.programs.batched.columns import Grids
from brimful.programs.batched.convert import encode as columns_of
from brimful.programs.batched.flags import Step
from brimful.programs.batched.loops import records as loops
from brimful.programs.batched.records import value_bytes
from brimful.programs.execution.encoding import decode, encode

from .helpers import GRIDS, _step

WIDE = tuple(tuple(range(200)) for _ in range(3))
HIGH = ((7,),) * 20_000
VALUES = st.one_of(
    GRIDS,
    st.sampled_from([WIDE, HIGH, (), ((),), ((300, 1),), ((-1,),), frozenset(), frozenset({(1, 2)}), "text", None]),
    st.integers(-300, 300),
    st.booleans(),
    st.tuples(st.integers(-5, 200), st.integers(-5, 200)),
)


def compare(values, failed):
    step = _step(values)
    step = Step(step.column, torch.tensor(failed, dtype=torch.int8) if any(failed) else None, step.boxed)
    flat, offsets = value_bytes(step, len(values))
    for row, value in enumerate(values):
        data = flat[offsets[row] : offsets[row + 1]].tobytes()
        assert data == (b"" if failed[row] else encode(value))
        assert failed[row] or decode(data) == value


@given(st.lists(st.tuples(VALUES, st.sampled_from([0, 0, 0, 3])), min_size=1, max_size=8))
def test_bytes_are_those_of_single_values(rows):
    compare(*map(list, zip(*rows, strict=True)))


@given(st.lists(st.tuples(st.one_of(GRIDS, st.just(WIDE)), st.sampled_from([0, 0, 3])), min_size=1, max_size=8))
def test_grids(rows):
    compare(*map(list, zip(*rows, strict=True)))


def test_columns_of_numbers():
    for values in ([3, 3, -700, 128], [True, False, True, True], [(1, 2), (1, 2), (-3, 500), (0, 0)]):
        assert columns_of(values, torch.device("cpu"))[0].rows == 4
        compare(values, [0, 0, 0, 0])
        compare(values, [0, 2, 0, 2])
        compare(values, [2, 2, 2, 2])


@given(st.lists(st.tuples(st.one_of(GRIDS, st.sampled_from([WIDE, ((300, 1),), ()])), st.booleans()), min_size=1))
def test_the_bytes_of_grids_have_a_plain_twin(rows):
    column, wanted = _step([grid for grid, _ in rows]).column, torch.tensor([wanted for _, wanted in rows])
    assert isinstance(column, Grids)
    compiled, plain = records.grids_as_bytes(column, wanted), records.grids_as_bytes_plain(column, wanted)
    assert all(map(np.array_equal, compiled, plain))


@given(st.integers(0, 2**32))
def test_parts_of_samples_are_joined_by_a_plain_twin_too(seed):
    rng = random.Random(seed)
    programs, samples, nodes = rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 3)
    count = rng.randint(1, 9)
    fixed = [rng.randbytes(rng.randint(0, 3)) for _ in range(count)]
    program = np.array([rng.randint(-1 - programs, programs - 1) for _ in range(count)])
    node = np.array([rng.randint(-1, nodes - 1) for _ in range(count)])
    lengths = np.array([rng.randint(0, 4) for _ in range(nodes * samples)])
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    starts = np.stack([bounds[at * samples : (at + 1) * samples + 1] for at in range(nodes)])
    ended = np.array([[rng.random() < 0.5 for _ in range(samples)] for _ in range(programs)])
    values = np.frombuffer(rng.randbytes(int(bounds[-1])), np.uint8)
    fixed_starts = np.concatenate([[0], np.cumsum(list(map(len, fixed)))])
    given_parts = (np.frombuffer(b"".join(fixed), np.uint8), fixed_starts, program, node, ended, values, starts)
    assert all(map(np.array_equal, loops.joined(*given_parts), records.joined_plain(*given_parts)))
