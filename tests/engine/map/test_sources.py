"""ItemSource of every kind, read as runs of positions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base import pytree
from brimful.core.base.errors import InputError
from brimful.engine.map.sources import LoadedBatch, item_source


def made(data: Any, weight: Any = None) -> Any:
    return item_source(data, weight)


def parquet(path: Path, first: int, count: int, group: int, **more: Any) -> Path:
    table = pa.table({"x": np.arange(first, first + count), "y": np.arange(count) / 2, **more})
    pq.write_table(table, path, row_group_size=group)
    return path


def test_arrays_are_read_in_their_order_without_a_copy():
    x = torch.arange(12.0).reshape(6, 2)
    items = made((x, np.arange(6)))
    assert (items.length, items.weights, items.forward) == (6, None, False)
    loaded = items.load(2, 5)
    assert (loaded.start, loaded.count, loaded.bad) == (2, 3, {})
    assert loaded.tree[0].data_ptr() == x[2:].data_ptr()
    assert loaded.tree[1].tolist() == [2, 3, 4]
    assert items.index(2, 5).tolist() == [2, 3, 4]


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=20))
def test_weighed_arrays_are_worked_heaviest_first_and_each_item_keeps_its_index(weights: list[float]):
    items = made({"x": torch.arange(len(weights)), "w": torch.tensor(weights, dtype=torch.float64)}, weight="w")
    loaded, index = items.load(0, len(weights)), items.index(0, len(weights))
    assert sorted(index.tolist()) == list(range(len(weights)))
    assert loaded.tree["x"].tolist() == index.tolist()
    if items.weights is None:
        assert weights == [1.0] * len(weights)
        return
    assert loaded.weights is not None
    assert loaded.weights.tolist() == [weights[i] for i in index]
    assert (np.diff(items.weights) <= 0).all()


def test_a_part_of_a_batch_keeps_its_places():
    loaded = LoadedBatch(10, 4, torch.arange(4), {1: "one", 3: "three"}, np.array([4.0, 3, 2, 1]))
    part: Any = loaded.slice(1, 4)
    assert (part.start, part.count, part.bad) == (11, 3, {0: "one", 2: "three"})
    assert part.tree.tolist() == [1, 2, 3]
    assert part.weights is not None
    assert part.weights.tolist() == [3, 2, 1]


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, 2], "shape .2,. for 3 items"),
        ([1, 2, 0], "above 0"),
        ([1, 2, float("nan")], "finite"),
        ("z", "column 'z'"),
        (lambda x: 1, "only for a stream"),
    ],
)
def test_wrong_weights_are_refused(weight: Any, words: str):
    with pytest.raises(InputError, match=words):
        made({"x": torch.zeros(3)}, weight)


def test_weights_of_one_are_no_weights():
    assert made(torch.zeros(3), [1, 1, 1]).weights is None
    assert made(torch.zeros(3), [2, 2, 2]).weights is not None


@pytest.mark.parametrize("wrong", [5, None, object()])
def test_what_is_no_items_is_refused(wrong: Any):
    with pytest.raises(InputError, match="give a tensor"):
        made(wrong)


def test_a_table_is_a_dict_of_columns_with_its_nulls_flagged():
    items = made(pa.table({"x": [1, None, 3], "y": [0.5, 1.5, None]}))
    loaded = items.load(1, 3)
    assert loaded.bad == {0: "column 'x' is null"}
    assert loaded.tree["x"][1] == 3
    assert loaded.tree["y"][1].isnan()


def test_a_record_batch_is_taken_too():
    batch = pa.RecordBatch.from_pydict({"x": [1, 2, 3]})
    assert made(batch).load(0, 3).tree["x"].tolist() == [1, 2, 3]


@given(st.integers(0, 23), st.integers(0, 23))
def test_any_rows_of_a_folder_of_parquet_files(start: int, stop: int):
    start, stop = min(start, stop), max(start, stop)
    items = _folder()
    loaded = items.load(start, stop)
    assert loaded.tree["x"].tolist() == list(range(start, stop))
    assert (loaded.start, loaded.count) == (start, stop - start)


_cached: list[Any] = []


def _folder() -> Any:
    if not _cached:
        import tempfile

        folder = Path(tempfile.mkdtemp())
        (folder / "deep").mkdir()
        parquet(folder / "a.parquet", 0, 10, 3)
        parquet(folder / "deep" / "b.parquet", 10, 0, 3)
        parquet(folder / "deep" / "c.parquet", 10, 13, 5)
        _cached.append(made(folder))
    return _cached[0]


def test_a_folder_of_parquet_files_is_one_run_of_rows():
    assert _folder().length == 23


def test_weights_from_a_parquet_column(tmp_path: Path):
    path = parquet(tmp_path / "a.parquet", 1, 6, 2)
    items = made(str(path), weight="x")
    assert items.weights is not None
    assert items.weights.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(InputError, match=r"'z'.*x, y"):
        made(path, weight="z")


def test_parquet_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        made(tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"no \.parquet files"):
        made(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and so on")
    with pytest.raises(InputError, match=r"a\.parquet cannot be read"):
        made(tmp_path)


def test_parquet_files_that_differ_are_refused(tmp_path: Path):
    parquet(tmp_path / "a.parquet", 0, 3, 3)
    parquet(tmp_path / "b.parquet", 0, 3, 3, z=[1, 2, 3])
    with pytest.raises(InputError, match=r"b\.parquet has other columns"):
        made(tmp_path)


def counted(count: int, taken: list[int]) -> Iterator[dict[str, Any]]:
    for i in range(count):
        taken.append(i)
        yield {"x": np.float32(i), "y": [i, -i]}


def test_a_stream_is_read_no_further_than_asked():
    taken: list[int] = []
    items = made(counted(100, taken))
    assert (items.length, items.forward) == (None, True)
    first, second = items.load(-1, 4), items.load(-1, 2)
    assert (first.start, first.count, second.start, second.count) == (0, 5, 5, 3)
    assert second.tree["x"].tolist() == [5, 6, 7]
    assert second.tree["y"].tolist() == [[5, -5], [6, -6], [7, -7]]
    assert len(taken) == 8


def test_a_stream_goes_on_from_a_position_and_says_when_it_ends():
    items = made(counted(10, []))
    assert items.load(6, 8).tree["x"].tolist() == [6, 7]
    last = items.load(-1, 99)
    assert (last.start, last.count) == (8, 2)
    assert items.load(-1, 5).count == 0
    with pytest.raises(InputError, match="cannot go back"):
        items.load(3, 5)
    with pytest.raises(InputError, match="ended after 10 items, but 12"):
        made(counted(10, [])).load(12, 13)


@given(st.lists(st.floats(0.5, 20), min_size=1, max_size=30), st.floats(0.5, 30))
def test_a_weighed_stream_fills_to_capacity_and_loses_nothing(weights: list[float], capacity: float):
    items = made(iter(weights), weight=lambda item: item)
    loaded_weights: list[float] = []
    while (loaded := items.load(-1, 1000, capacity)).count:
        assert loaded.weights is not None
        assert loaded.start == len(loaded_weights)
        assert loaded.count == 1 or loaded.weights.sum() <= capacity
        loaded_weights += loaded.tree.tolist()
    assert loaded_weights == weights


def test_a_list_is_a_stream_of_known_length():
    items = made([np.zeros(2)] * 7)
    assert (items.length, items.forward) == (7, True)


def ragged() -> list[Any]:
    return [np.zeros(2), np.ones(2), np.ones(3), "text", {"x": np.ones(2)}, np.ones(2, np.int64), np.full(2, 5.0)]


def test_items_of_another_form_are_flagged_and_the_others_read():
    loaded = made(ragged()).load(-1, 20)
    assert sorted(loaded.bad) == [2, 3, 4, 5]
    assert "(3,)" in loaded.bad[2]
    assert "str" in loaded.bad[3]
    good = [item for item in range(7) if item not in loaded.bad]
    assert loaded.tree[good].tolist() == [[0, 0], [1, 1], [5, 5]]


def test_the_first_item_decides_the_form_even_if_it_was_read_by_an_earlier_run():
    items = made(iter(ragged()))
    loaded = items.load(2, 7)
    assert sorted(loaded.bad) == [0, 1, 2, 3]
    assert loaded.tree[4].tolist() == [5, 5]


def test_a_batch_with_nothing_readable_has_no_tree():
    items = made(iter([1.0, "a", "b"]))
    assert items.load(-1, 0).tree is not None
    loaded = items.load(-1, 5)
    assert loaded.tree is None
    assert sorted(loaded.bad) == [0, 1]


def test_a_stream_of_what_cannot_be_read_is_refused():
    with pytest.raises(InputError, match="item 0 is a str"):
        made(iter(["a", "b"])).load(-1, 5)


def test_fingerprints_know_the_data_and_streams_have_none():
    x = torch.arange(6.0)
    assert made(x).fingerprint() == made(x.clone()).fingerprint()
    assert made(x).fingerprint() != made(x + 1).fingerprint()
    assert made([1.0, 2.0]).fingerprint() != made([1.0, 3.0]).fingerprint()
    assert made(iter([1.0])).fingerprint() is None


def test_a_stream_takes_weights_only_as_a_function():
    with pytest.raises(InputError, match="function of one item"):
        made(iter([1.0]), weight=[1.0])


def test_the_form_of_an_item_is_told():
    spec = made({"x": torch.zeros(3, 2), "n": torch.zeros(3, dtype=torch.int8)}).spec()
    assert "float32" in spec
    assert "int8" in spec
    assert pytree.rows(made(torch.zeros(3, 2)).load(0, 2).tree) == 2
