"""Results on disk: readable by anyone, and never taken when damaged."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.base.errors import BrimfulWarning, CorruptError, InputError, StorageError
from brimful.engine.map.executor import BatchResult
from brimful.engine.map.store.shards import Shards

from ..mapping import same


def done(start: int, count: int, values: Any = None, **messages: str) -> BatchResult:
    status = np.zeros(count, np.int8)
    texts = {int(name[1:]): text for name, text in messages.items()}
    status[list(texts)] = 3
    return BatchResult(start, count, values, status, texts)


def filled(folder: Path, identity: str = "me") -> Shards:
    shards = Shards(folder, identity)
    for start in (4, 0):
        x = torch.arange(start, start + 4, dtype=torch.float32) / 3
        shards.write(
            done(start, 4, {"x": x, "m": x.repeat(6, 1).T.reshape(4, 2, 3)}, p1="bad"), np.arange(start, start + 4)
        )
    return shards


def test_values_status_and_messages_read_back(tmp_path: Path):
    shards = filled(tmp_path)
    assert [span for span, _ in shards.finished()] == [(0, 4), (4, 8)]
    values = shards.values()
    assert values is not None
    assert same(values["x"], torch.arange(8, dtype=torch.float32) / 3)
    assert values["m"].shape == (8, 2, 3)
    read = [batch for _, batch in shards.finished()]
    assert [index.tolist() for index, _, _ in read] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [status.tolist() for _, status, _ in read] == [[0, 3, 0, 0]] * 2
    assert [messages for _, _, messages in read] == [{1: "bad"}, {5: "bad"}]


def test_others_read_the_folder_as_it_is(tmp_path: Path):
    filled(tmp_path)
    frame = pd.read_parquet(tmp_path).sort_values("item")
    assert list(frame.columns) == ["item", "status", "message", "x", "m"]
    assert frame["item"].tolist() == list(range(8))
    assert frame["message"].isna().tolist()[:2] == [True, False]
    assert frame["m"].iloc[3].tolist() == [np.float32(1)] * 6


def test_items_in_another_order_come_back_in_theirs(tmp_path: Path):
    shards = Shards(tmp_path, "me")
    shards.write(done(0, 3, torch.tensor([5.0, 1.0, 3.0])), np.array([5, 1, 3]))
    shards.write(done(3, 2), np.array([0, 4]))
    shards.write(done(5, 1, torch.tensor([2.0])), np.array([2]))
    values = shards.values()
    assert values is not None
    assert np.array_equal(values.numpy(), [np.nan, 1, 2, 3, np.nan, 5], equal_nan=True)


def test_no_shards_and_shards_without_values(tmp_path: Path):
    shards = Shards(tmp_path, "me")
    assert (list(shards.finished()), shards.values()) == ([], None)
    shards.write(done(0, 2), np.arange(2))
    assert shards.values() is None


def written(folder: Path, spans: list[tuple[int, int]]) -> Shards:
    folder.mkdir(exist_ok=True)
    shards = Shards(folder, "me")
    for start, stop in spans:
        shards.write(done(start, stop - start, torch.arange(start, stop) / 7, p0="bad"), np.arange(start, stop))
    return shards


@pytest.mark.parametrize("shuffled", [False, True])
def test_small_batches_are_collected_into_larger_shards(tmp_path: Path, shuffled: bool):
    spans = [(start, start + 1) for start in range(400)]
    if shuffled:
        np.random.default_rng(0).shuffle(spans)
    shards = written(tmp_path, spans)
    assert len(list(tmp_path.glob("shard-*"))) < (200 if shuffled else 50)
    for opened in (shards, Shards(tmp_path, "me")):
        read = list(opened.finished())
        assert sorted(item for _, (index, _, _) in read for item in index.tolist()) == list(range(400))
        assert sum(len(messages) for _, (_, _, messages) in read) == 400
        values: Any = opened.values(400)
        assert same(values, torch.arange(400) / 7)


def test_a_collection_that_a_crash_cut_short_counts_once(tmp_path: Path):
    parts = [(start, start + 2) for start in range(0, 64, 2)]
    written(tmp_path / "parts", parts[:-1])
    kept = list((tmp_path / "parts").glob("shard-*"))
    assert len(kept) == 31
    written(tmp_path / "whole", parts)
    assert [path.name for path in (tmp_path / "whole").glob("shard-*")] == ["shard-000000000000-000000000064.parquet"]
    for path in kept:  # as if they had not been deleted yet
        shutil.copy(path, tmp_path / "whole")
    shards = Shards(tmp_path / "whole", "me")
    values: Any = shards.values(64)
    assert same(values, torch.arange(64) / 7)
    assert [span for span, _ in shards.finished()] == [(0, 64)]
    assert len(list((tmp_path / "whole").glob("shard-*"))) == 1


def test_a_damaged_collection_gives_way_to_its_parts(tmp_path: Path):
    for name, count in (("parts", 31), ("whole", 32)):
        written(tmp_path / name, [(start, start + 1) for start in range(count)])
    for path in (tmp_path / "parts").glob("shard-*"):
        shutil.copy(path, tmp_path / "whole")
    whole = tmp_path / "whole" / "shard-000000000000-000000000032.parquet"
    whole.write_bytes(whole.read_bytes()[:-40])
    with pytest.warns(BrimfulWarning, match="is damaged"):
        assert [span for span, _ in Shards(tmp_path / "whole", "me").finished()] == [(n, n + 1) for n in range(31)]


def test_a_shard_that_is_deleted_or_copied_over_another_is_missed(tmp_path: Path):
    shards = filled(tmp_path)
    first, second = sorted(tmp_path.glob("shard-*"))
    content = first.read_bytes()
    shutil.copy(first, second)
    with pytest.raises(CorruptError, match="another place"):
        shards.values(8)
    second.unlink()
    for opened in (shards, Shards(tmp_path, "me")):
        with pytest.raises(CorruptError, match=r"does not hold every item once: 4 are missing .* item 4"):
            opened.values(8)
    with pytest.raises(StorageError, match="is gone"):
        shards.check_present()
    second.write_bytes(content)
    with pytest.warns(BrimfulWarning, match="another place"):
        assert [span for span, _ in Shards(tmp_path, "me").finished()] == [(0, 4)]


def test_a_result_of_another_form_is_refused_at_once_and_after_a_resume(tmp_path: Path):
    filled(tmp_path)
    shards = Shards(tmp_path, "me")
    assert len(list(shards.finished())) == 2
    for other in (torch.zeros(4), {"x": torch.zeros(4, dtype=torch.float64), "m": torch.zeros(4, 2, 3)}):
        with pytest.raises(InputError, match="must be the same in all"):
            shards.write(done(8, 4, other), np.arange(8, 12))


def test_a_part_with_the_name_of_a_column_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="'status'"):
        Shards(tmp_path, "me").write(done(0, 2, {"status": torch.zeros(2)}), np.arange(2))
    assert list(tmp_path.iterdir()) == []


def damaged(shards: Shards, name: str, words: str) -> None:
    with pytest.warns(BrimfulWarning, match=f"{name} is damaged.*{words}.*done again"):
        intact = [span for span, _ in shards.finished()]
    assert intact == [(4, 8)]
    assert (shards.folder / name).with_suffix(".damaged").exists()
    assert [path.name for path in shards.folder.glob("shard-*.parquet")] == ["shard-000000000004-000000000008.parquet"]


FIRST = "shard-000000000000-000000000004.parquet"


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_truncated_shard_is_set_aside(tmp_path: Path, keep: int):
    shards = filled(tmp_path)
    content = (tmp_path / FIRST).read_bytes()
    (tmp_path / FIRST).write_bytes(content[:keep])
    damaged(shards, FIRST, "")


def test_a_flipped_bit_among_the_numbers_is_found_before_the_run_goes_on(tmp_path: Path):
    shards = filled(tmp_path)
    content = bytearray((tmp_path / FIRST).read_bytes())
    offset = content.index((np.float32(1) / 3).tobytes())
    content[offset] ^= 1
    (tmp_path / FIRST).write_bytes(content)
    with pytest.raises(CorruptError, match=f"{FIRST} is damaged.*Delete it"):
        shards.values()
    damaged(shards, FIRST, "CRC")


def test_a_shard_of_another_run_is_not_taken(tmp_path: Path):
    (tmp_path / "other").mkdir()
    (tmp_path / "mine").mkdir()
    filled(tmp_path / "other", "somebody")
    shards = filled(tmp_path / "mine")
    shutil.copy(tmp_path / "other" / FIRST, tmp_path / "mine" / FIRST)
    damaged(shards, FIRST, "another run")


def test_a_shard_with_the_wrong_number_of_rows_is_not_taken(tmp_path: Path):
    shards = filled(tmp_path)
    table = pq.read_table(tmp_path / FIRST)
    pq.write_table(table.slice(0, 3), tmp_path / FIRST)
    damaged(shards, FIRST, "3 rows instead of 4")
    pq.write_table(pa.table({"x": [1, 2, 3, 4]}), tmp_path / FIRST)
    damaged(shards, FIRST, "")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return filled(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def content(whole: Shards) -> bytes:
    return (whole.folder / FIRST).read_bytes()


def flip_a_byte(whole: Shards, content: bytes, position: float, flip: int) -> None:
    """Flips bits of a byte of the first shard, and checks that it is noticed, or changes no result."""
    (whole.folder / FIRST).write_bytes(content)
    expected = whole.values()
    flipped = bytearray(content)
    flipped[int(position * len(content))] ^= flip
    (whole.folder / FIRST).write_bytes(flipped)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        finished = [span for span, _ in whole.finished()]
    if finished == [(0, 4), (4, 8)]:
        values = whole.values()
        assert values is not None
        assert expected is not None
        assert all(same(values[name], expected[name]) for name in ("x", "m"))
    else:
        assert finished == [(4, 8)]
        assert len(caught) == 1


POSITIONS, FLIPS = st.floats(0, 1, exclude_max=True), st.integers(1, 255)


@settings(max_examples=60)
@given(position=POSITIONS, flip=FLIPS)
def test_a_flipped_byte_changes_no_result(whole: Shards, content: bytes, position: float, flip: int):
    flip_a_byte(whole, content, position, flip)


@pytest.mark.soak
@settings(max_examples=2000)
@given(position=POSITIONS, flip=FLIPS)
def test_no_flipped_byte_anywhere_changes_a_result(whole: Shards, content: bytes, position: float, flip: int):
    flip_a_byte(whole, content, position, flip)
