"""Chunks are the rows, whatever they are read from, in any order and from several threads."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import InputError, data
from brimful.core.base.ragged import Ragged
from brimful.data.chunked import ChunkedSource, chunk_slice, chunked, chunks_of

ROWS = 23


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Any]:
    x = np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3)
    np.save(tmp_path / "x.npy", x)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 3)})
    (tmp_path / "groups").mkdir()
    pq.write_table(table.slice(0, 9), tmp_path / "groups" / "a.parquet", row_group_size=4)  # groups of 4, 4 and 1
    pq.write_table(table.slice(9), tmp_path / "groups" / "b.parquet", row_group_size=5)
    return {"memory": {"x": x}, "mapped": tmp_path / "x.npy", "parquet": tmp_path / "groups"}


def values(fields: dict[str, Any]) -> np.ndarray:
    return next(iter(fields.values())).numpy()


@given(rows=st.none() | st.integers(1, 30), order=st.randoms(use_true_random=False))
def test_the_chunks_are_the_rows(sources: dict[str, Any], rows: int | None, order: Any):
    x = sources["memory"]["x"]
    for name, what in sources.items():
        source = chunked(data.source(what), rows)
        assert isinstance(source, ChunkedSource)
        numbers = list(range(chunks_of(source)))
        order.shuffle(numbers)
        with ThreadPoolExecutor(4) as pool:
            for number, part in zip(numbers, pool.map(source.read, numbers), strict=True):
                expected = x[chunk_slice(source, number)]
                assert values(part).tolist() == expected.tolist(), name
                assert len(expected) == source.chunk_rows or number == chunks_of(source) - 1


def test_a_chunk_is_the_callers_own(sources: dict[str, Any]):
    source = chunked(data.source(sources["memory"]), 4)
    assert source is not None
    part = source.read(0)["x"]
    part.zero_()
    assert sources["memory"]["x"][3, 2] == 11


def test_a_row_group_is_a_chunk_and_an_archive_has_none(sources: dict[str, Any], tmp_path: Path):
    source = chunked(data.source(sources["parquet"]))
    assert source is not None
    assert source.chunk_rows == 5
    assert list(source.schema()) == ["x"]
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    assert chunked(data.source(tmp_path / "x.npz")) is None


def test_ragged_fields_and_the_fingerprint_are_the_datasets():
    samples = [torch.arange(n) for n in (3, 0, 2, 5, 1)]
    rows = data.source({"words": Ragged.of(samples)})
    source = chunked(rows, 2)
    assert source is not None
    parts = [source.read(chunk)["words"] for chunk in range(3)]
    assert [part.lengths.tolist() for part in parts] == [[3, 0], [2, 5], [1]]
    assert torch.equal(torch.cat([part.values for part in parts]), torch.cat(samples))
    assert source.fingerprint() == rows.fingerprint()


def test_a_null_names_its_row(tmp_path: Path):
    pq.write_table(pa.table({"k": pa.array([1, 2, 3, None, 5])}), tmp_path / "k.parquet", row_group_size=2)
    source = chunked(data.source(tmp_path / "k.parquet"))
    assert source is not None
    with pytest.raises(InputError, match="column 'k' is null in row 3"):
        source.read(1)
