"""Arrow tables and frames as datasets: for a loader, and for `map`, which flags nulls."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from brimful import BrimfulWarning, InputError
from brimful.data import Padded
from brimful.data.sources import open_dataset
from brimful.engine.map.sources import item_source

from .datasets import run, same


def to_tensors(table: Any) -> tuple[dict[str, Any], dict[int, str]]:
    return open_dataset(table).load(slice(0, len(table)))


def forms(folder: Path) -> dict[str, Any]:
    """The same rows in every form that has columns."""
    table = pa.table({"x": np.arange(20.0), "n": np.arange(20) % 3})
    columns = {name: table[name].to_numpy() for name in table.column_names}
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    np.savez(folder / "a.npz", **columns)
    return {
        "dict": columns,
        "table": table,
        "record batch": table.to_batches()[0],
        "frame": table.to_pandas(),
        "parquet": folder / "a.parquet",
        "npz": str(folder / "a.npz"),
    }


def test_a_loader_and_map_read_the_same_forms(tmp_path: Path):
    given = forms(tmp_path)
    expected = list(run(given["dict"]).epoch(0))
    for name, form in given.items():
        assert same(list(run(form).epoch(0)), expected), name
        tree: Any = item_source(form).load(3, 9).tree
        assert {key: part.tolist() for key, part in tree.items()} == {
            "x": [3, 4, 5, 6, 7, 8],
            "n": [0, 1, 2, 0, 1, 2],
        }, name
    np.save(tmp_path / "x.npy", np.arange(6.0))
    assert item_source(tmp_path / "x.npy").load(2, 4).tree.tolist() == [2, 3]  # type: ignore[union-attr]
    assert isinstance(given["frame"], pd.DataFrame)


def test_a_function_gets_lists_of_unequal_length_padded():
    source = item_source(pa.table({"w": [[1, 2], [], None, [3]]}))
    loaded = source.load(0, 4)
    tree: Any = loaded.tree
    assert isinstance(tree["w"], Padded)
    assert tree["w"].values.tolist() == [[1, 2], [0, 0], [0, 0], [3, 0]] and tree["w"].lengths.tolist() == [2, 0, 0, 1]
    assert loaded.bad == {2: "column 'w' is null"}


def test_a_nested_dataset_keeps_its_form():
    batch = next(run({"a": (torch.arange(4), {"b": torch.ones(4)})}, shuffle=False).epoch(0))
    assert batch["a"][0].tolist() == [0, 1, 2, 3] and batch["a"][1]["b"].tolist() == [1] * 4


def test_a_dataset_in_a_file_is_sent_as_its_path(tmp_path: Path):
    import pickle

    np.save(tmp_path / "x.npy", np.arange(60_000.0).reshape(-1, 2))
    np.save(tmp_path / "f.npy", np.asfortranarray(np.arange(60_000.0).reshape(-1, 2)))
    pq.write_table(pa.table({"x": np.arange(30_000)}), tmp_path / "a.parquet")
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for form in (tmp_path / "x.npy", tmp_path / "f.npy", tmp_path / "a.parquet", {"x": mapped}):
        dataset = open_dataset(form)
        sent = pickle.dumps(dataset)
        assert dataset.on_disk and len(sent) < 2000
        assert same(pickle.loads(sent).take([5, 20_000]), dataset.take([5, 20_000]))
    assert not open_dataset(mapped[10:20]).on_disk


def test_numbers_of_every_kind_become_tensors():
    table = pa.table(
        {
            "int": pa.array([1, 2, 3], pa.int16()),
            "float": [0.5, 1.5, 2.5],
            "bool": [True, False, True],
            "time": pa.array([datetime.datetime(1970, 1, 1, 0, 0, s) for s in range(3)], pa.timestamp("s")),
            "day": pa.array([datetime.date(1970, 1, d) for d in (1, 2, 3)]),
            "price": pa.array([decimal.Decimal("1.50")] * 3),
            "list": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
            "matrix": pa.array([[[1.0], [2.0]]] * 3, pa.list_(pa.list_(pa.float32(), 1), 2)),
        }
    )
    found, bad = open_dataset(table, table.column_names).load(slice(0, 3))
    assert not bad
    assert {name: (tensor.dtype, tuple(tensor.shape[1:])) for name, tensor in found.items()} == {
        "int": (torch.int16, ()),
        "float": (torch.float64, ()),
        "bool": (torch.bool, ()),
        "time": (torch.int64, ()),
        "day": (torch.int32, ()),
        "price": (torch.float64, ()),
        "list": (torch.int32, (2,)),
        "matrix": (torch.float32, (2, 1)),
    }
    assert found["list"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found["day"].tolist() == found["time"].tolist() == [0, 1, 2]
    assert found["price"].tolist() == [1.5] * 3


def test_a_null_is_nan_among_floats_and_a_reason_elsewhere():
    table = pa.table(
        {
            "f": [1.0, None, 3.0, 4.0, 5.0],
            "n": pa.array([1, 2, None, 4, 5]),
            "l": pa.array([[1, 2], [3, 4], [5, 6], None, [7, None]], pa.list_(pa.int64(), 2)),
            "m": pa.array([[1.0], None, [3.0], [None], [5.0]], pa.list_(pa.float64(), 1)),
        }
    )
    found, bad = to_tensors(table)
    assert bad == {
        1: "column 'm' is null",
        2: "column 'n' is null",
        3: "column 'l' is null",
        4: "column 'l' is null",
    }
    assert np.isnan(found["f"][1].item())
    assert np.isnan(found["m"][3].item())
    assert found["l"].shape == (5, 2)
    assert found["l"][:3].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_null_inside_nested_lists_is_one_bad_row():
    kind = pa.list_(pa.list_(pa.int64(), 2), 2)
    rows = [[[1, 2], [3, 4]], [None, [5, 6]], None, [[7, 8], [9, None]], [[1, 1], [2, 2]]]
    found, bad = to_tensors(pa.table({"x": pa.array(rows, kind)}))
    assert sorted(bad) == [1, 2, 3]
    assert found["x"].shape == (5, 2, 2)
    assert found["x"][0].tolist() == rows[0]
    assert found["x"][4].tolist() == rows[4]


def test_a_slice_of_a_chunked_table_has_its_own_rows():
    piece = pa.table({"x": pa.array([[i, -i] for i in range(5)], pa.list_(pa.int64(), 2)), "y": list(range(5))})
    table = pa.concat_tables([piece, piece]).slice(3, 4)
    found, _ = to_tensors(table)
    assert found["y"].tolist() == [3, 4, 0, 1]
    assert found["x"].tolist() == [[3, -3], [4, -4], [0, 0], [1, -1]]


def test_columns_that_are_not_numbers_are_left_out_with_a_warning():
    table = pa.table({"name": ["a", "b"], "x": [1, 2], "rest": [["a"], ["b"]]})
    with pytest.warns(BrimfulWarning, match="name, rest"):
        found, _ = to_tensors(table)
    assert list(found) == ["x"]


def test_a_table_without_numbers_is_refused():
    with pytest.raises(InputError, match="none of the columns name"):
        to_tensors(pa.table({"name": ["a"]}))


def test_tensors_do_not_share_memory_with_the_table():
    table = pa.table({"x": [1.0, 2.0]})
    to_tensors(table)[0]["x"].zero_()
    assert table["x"].to_pylist() == [1.0, 2.0]
