"""Values of all samples as bytes, as they are encoded one by one."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import programs
from brimful.programs.batched import compiled
from brimful.programs.batched.columns import Tuples
from brimful.programs.batched.convert import encode as columns_of
from brimful.programs.batched.evaluation.executor import Batched
from brimful.programs.batched.flags import Step
from brimful.programs.batched.results import copied_rows, on_device, on_host
from brimful.programs.batched.results.on_host import value_bytes
from brimful.programs.batched.results.sample_batch import run_batch
from brimful.programs.batched.results.template import Part
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.encoded import Encoded
from brimful.programs.execution.encoding import decode, encode

from .helpers import GRIDS, _step

CPU = torch.device("cpu")
WIDE = tuple(tuple(range(200)) for _ in range(3))
HIGH = ((7,),) * 20_000
CELLS_OF_A_BATT = st.frozensets(
    st.tuples(st.integers(-70, 70), st.integers(-3, 9), st.sampled_from([0, 9, 131_070, math.nan])), max_size=4
)
VALUES = st.one_of(
    GRIDS,
    st.sampled_from([math.nan, ((math.nan, 1),), ((1, 2), (3, math.nan)), (math.nan, (1, math.nan))]),
    st.sampled_from([WIDE, HIGH, (), ((),), ((300, 1),), ((-1,),), frozenset(), frozenset({(1, 2)}), "text", None]),
    st.integers(-300, 300),
    CELLS_OF_A_BATT,
    st.tuples(st.sampled_from([3, 2**61]), CELLS_OF_A_BATT),
    st.tuples(st.booleans(), st.tuples(st.integers(0, 200), CELLS_OF_A_BATT)),
    st.sampled_from([2**60, -(2**60), 2**60 - 1, 2**70]),
    st.booleans(),
    st.tuples(st.integers(-5, 200), st.integers(-5, 200)),
)


def compare(values, failed):
    step = _step(values)
    step = Step(step.column, torch.tensor(failed, dtype=torch.int8) if any(failed) else None, step.boxed)
    written = value_bytes(step, len(values))
    offsets = np.cumsum([0, *written.lengths])
    flat = np.empty(offsets[-1], np.uint8)
    written.write(flat, offsets[:-1])
    for row, value in enumerate(values):
        data = flat[offsets[row] : offsets[row + 1]].tobytes()
        assert data == (b"" if failed[row] else encode(value))
        assert failed[row] or encode(decode(data)) == data
    some = np.arange(len(values)) % 3 != 1
    parts: list[Part] = [(b"first", None), (4, None), (b"", None), (b"between", some), (4, some), (b"end", ~some)]
    here = on_host.record_bytes(parts, {4: written}, len(values))
    there = on_device.record_bytes(parts, {(4,): on_device.value_bytes(step, len(values), CPU)}, len(values), CPU)
    assert np.array_equal(here.offsets, there.offsets) and np.array_equal(here.flat, there.flat)


@given(st.lists(st.tuples(VALUES, st.sampled_from([0, 0, 0, 3])), min_size=1, max_size=8))
def test_bytes_are_those_of_single_values(rows):
    compare(*map(list, zip(*rows, strict=True)))


@given(st.lists(st.tuples(st.one_of(GRIDS, st.just(WIDE)), st.sampled_from([0, 0, 3])), min_size=1, max_size=8))
def test_grids(rows):
    compare(*map(list, zip(*rows, strict=True)))


ANY_COLORS = st.lists(st.sampled_from([0, 1, 255, 256, -1, 5000]), min_size=1, max_size=3).map(
    lambda row: (tuple(row),) * 2
)
WITHOUT_CELLS = st.sampled_from([(), ((),), ((), ())])


@given(st.lists(st.tuples(ANY_COLORS | WITHOUT_CELLS, st.sampled_from([0, 0, 3])), min_size=1))
def test_grids_of_any_colors_and_without_cells(rows):
    compare(*map(list, zip(*rows, strict=True)))


ROWS = st.lists(st.lists(st.integers(-3, 300), max_size=3).map(tuple), max_size=3).map(tuple)


@given(st.lists(st.tuples(st.one_of(ROWS, st.just(((2**61, 1), (3,)))), st.sampled_from([0, 0, 3])), min_size=1))
def test_tuples_of_tuples(rows):
    uneven = (((1, 2), (3,)), 0)
    compare(*map(list, zip(*rows, uneven, strict=True)))


def test_columns_of_numbers():
    for values in ([3, 3, -700, 128], [True, False, True, True], [(1, 2), (1, 2), (-3, 500), (0, 0)]):
        assert columns_of(values, torch.device("cpu"))[0].rows == 4
        compare(values, [0, 0, 0, 0])
        compare(values, [0, 2, 0, 2])
        compare(values, [2, 2, 2, 2])


@given(st.lists(st.tuples(st.one_of(VALUES, ROWS), st.sampled_from([0, 0, 3])), min_size=1, max_size=8))
def test_python_writes_the_same_bytes(rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "compiles", lambda: False)
        compare(*map(list, zip(*rows, strict=True)))


def test_a_tuple_of_tuples_that_is_a_grid():
    rows, numbers = columns_of([(1, 2, 3), (4, 5, 6)], CPU)[0], columns_of([(7, 8, 9), (1, 2)], CPU, "tuple of int")[0]
    written = value_bytes(Step(Tuples((rows, numbers))), 2)
    flat = np.empty(written.lengths.sum(), np.uint8)
    written.write(flat, np.cumsum([0, written.lengths[0]]))
    assert flat.tobytes() == encode(((1, 2, 3), (7, 8, 9))) + encode(((4, 5, 6), (1, 2)))


def test_results_of_many_samples():
    some, more = Encoded.of([b"ab", b"", b"c"]), Encoded.of([b"d"])
    whole = Encoded.joined([some, more])
    assert list(whole) == [b"ab", b"", b"c", b"d"]
    assert (len(whole), whole[3]) == (4, b"d")
    assert list(Encoded.of([])) == []


def test_large_values_are_written_in_shares(monkeypatch: pytest.MonkeyPatch):
    """However the bytes are shared out among the threads, they are the same."""
    batt = programs.loads("def solve_big(I):\n    x1 = upscale(I, 9)\n    O = hconcat(x1, x1)\n    return O")
    grids = [((row % 3, 1),) * (1 + row % 5) for row in range(40)] + [()]
    samples = [Arguments("big", (), grid, grid) for grid in grids]
    executor = Batched(batt.merge())
    whole = run_batch(executor, samples, [None] * len(samples))[4]
    monkeypatch.setattr(on_host, "_SHARE", 700)
    shared = run_batch(executor, samples, [None] * len(samples))[4]
    assert len(whole.flat) > 20 * 700
    assert np.array_equal(whole.flat, shared.flat) and np.array_equal(whole.offsets, shared.offsets)


@given(st.lists(st.integers(0, 3_000), max_size=30))
def test_shares_have_all_samples_once(lengths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_host, "_SHARE", 1_000)
        shares = on_host._shares(np.array(lengths, np.int64))
    if shares != [None]:
        covered = [at for share in shares if share is not None for at in range(len(lengths))[share]]
        assert covered == list(range(len(lengths)))
    assert (shares == [None]) == (sum(lengths) <= 1_000)


@given(st.lists(st.tuples(st.lists(st.integers(0, 255), max_size=5), st.booleans()), min_size=1))
def test_rows_are_copied_to_their_places(rows):
    offsets = torch.tensor(np.cumsum([0, *(len(row) for row, _ in rows)]))
    source = torch.tensor([number for row, _ in rows for number in row], dtype=torch.int32)
    at = torch.where(torch.tensor([wanted for _, wanted in rows]), offsets[:-1] + 1, 0)
    out, expected = torch.full((2, len(source) + 1), 7, dtype=torch.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copied_rows, "_AT_ONCE", 3)
        copied_rows.copy_rows(out, at, source, offsets)
    for (row, wanted), start in zip(rows, offsets.tolist(), strict=False):
        if wanted:
            expected[start + 1 : start + 1 + len(row)] = torch.tensor(row, dtype=torch.uint8)
    assert torch.equal(out[1:], expected[1:])


def test_fixed_bytes_are_written_in_groups(monkeypatch: pytest.MonkeyPatch):
    values = {(0,): on_device.value_bytes(_step([1, 2, 3]), 3, CPU)}
    parts: list[Part] = [(b"text", None), (0, None), (b"more", None), (0, None), (b"end", None)]
    whole = on_device.record_bytes(parts, values, 3, CPU)
    monkeypatch.setattr(on_device, "_AT_ONCE", 5)
    assert np.array_equal(on_device.record_bytes(parts, values, 3, CPU).flat, whole.flat)
    assert whole[1] == b"text" + encode(2) + b"more" + encode(2) + b"end"
