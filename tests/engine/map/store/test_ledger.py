"""The ledger gives back the batches that were recorded, whatever a crash left of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import StorageError
from brimful.engine.map.store.ledger import Ledger


def written(path: Path, *spans: tuple[int, int], settled: float | None = None) -> Path:
    ledger = Ledger(path)
    for start, stop in spans:
        ledger.add(start, stop)
    if settled is not None:
        ledger.record_size(settled)
    ledger.close()
    return path


def reopened(path: Path, finished: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    ledger = Ledger(path)
    ledger.close()
    return ledger.unfinished(finished)


def test_a_new_ledger_is_empty(tmp_path: Path):
    assert reopened(tmp_path / "ledger", []) == ([], 0)


def test_a_batch_that_was_not_finished_is_run_again_unchanged(tmp_path: Path):
    path = written(tmp_path / "ledger", (0, 4), (4, 8), (8, 12), settled=4.0)
    assert reopened(path, [(0, 4), (8, 12)]) == ([(4, 8)], 12)
    ledger = Ledger(path)
    ledger.close()
    assert ledger.settled == 4.0


def test_a_batch_that_was_split_is_two_from_then_on(tmp_path: Path):
    path = written(tmp_path / "ledger", (0, 8), (8, 16), (4, 8), (0, 4))
    assert reopened(path, [(8, 16)]) == ([(0, 4), (4, 8)], 16)
    assert reopened(path, [(4, 8), (8, 16)]) == ([(0, 4)], 16)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.data())
def test_finished_and_unfinished_batches_together_cover_each_position_once(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], data: st.DataObject
):
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    spans, position = [], 0
    for length in lengths:
        spans.append((position, position + length))
        position += length
    written(path, *spans)
    finished = sorted(data.draw(st.sets(st.sampled_from(spans))))
    lines = path.read_text().splitlines()
    lost = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    path.write_text("".join("?" * len(line) + "\n" if i in lost else line + "\n" for i, line in enumerate(lines)))
    pending, reached = reopened(path, finished)
    inside = sorted([*pending, *[span for span in finished if span[1] <= reached]])
    assert [start for start, _ in inside] == [0, *(stop for _, stop in inside)][:-1]
    assert all(span[1] <= reached for span in finished)
    if not lost:
        assert pending == [span for span in spans if span not in finished]
        assert reached == position


@pytest.mark.parametrize("torn", ["{", '{"start": 8, "st', "\x00\x00", '{"start": 8, "stop": 12}'])
def test_a_torn_last_line_is_as_if_it_had_not_been_written(tmp_path: Path, torn: str):
    path = written(tmp_path / "ledger", (0, 4), (4, 8))
    with path.open("a") as file:
        file.write(torn)
    assert reopened(path, [(0, 4)]) == ([(4, 8)], 8)
    written(path, (8, 11))
    assert reopened(path, []) == ([(0, 4), (4, 8), (8, 11)], 11)


@pytest.mark.parametrize(
    "line",
    ["5", "null", "[]", '{"start": null}', '{"settled": "x"}', "\\", "{}", '{"start": 1200, "stop": 1000}'],
)
def test_a_damaged_line_is_passed_over(tmp_path: Path, line: str):
    path = written(tmp_path / "ledger", (0, 4))
    with path.open("a") as file:
        file.write(line + "\n")
    written(path, (4, 8))
    assert reopened(path, []) == ([(0, 4), (4, 8)], 8)


def test_the_same_batch_is_recorded_once(tmp_path: Path):
    path = written(tmp_path / "ledger", (0, 4), (0, 4))
    written(path, (0, 4))
    assert len(path.read_text().splitlines()) == 1


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "ledger").mkdir()
    with pytest.raises(StorageError, match="ledger"):
        Ledger(tmp_path / "ledger")
