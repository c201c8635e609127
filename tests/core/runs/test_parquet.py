"""Parquet files of measured numbers: what is compressed, and that it is read back as it was."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brimful.core.runs import parquet


@pytest.mark.parametrize(
    ("column", "codec"),
    [
        (pa.array([b"\x00\x01" * 9_000, b"", None, b"\x05" * 400]), "LZ4"),
        (pa.array([np.random.default_rng(0).bytes(20_000)] * 3), "UNCOMPRESSED"),
        (pa.array([b"\x00" * 100]), "UNCOMPRESSED"),  # too few to matter
        (pa.array([], pa.binary()), "UNCOMPRESSED"),
        (pa.array([b"\x00" * 9_000], pa.large_binary()), "LZ4"),
        (pa.array(np.zeros(9_000)), "UNCOMPRESSED"),
    ],
)
def test_bytes_that_get_much_smaller_are_compressed(tmp_path: Path, column: pa.Array, codec: str):
    table = pa.table({"numbers": np.arange(len(column)), "values": column})
    parquet.write(table, tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet", page_checksum_verification=True).equals(table)
    groups = pq.read_metadata(tmp_path / "a.parquet")
    if len(column):
        assert groups.row_group(0).column(1).compression == codec
        assert groups.row_group(0).column(0).compression == "UNCOMPRESSED"


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_slice_is_looked_at_where_it_lies(tmp_path: Path, kind: pa.DataType):
    noise = np.random.default_rng(0).bytes(90_000)
    whole = pa.table({"values": pa.array([noise, b"\x00" * 9_000, noise], kind)})
    for row, codec in ((0, "UNCOMPRESSED"), (1, "LZ4"), (2, "UNCOMPRESSED")):
        table = whole.slice(row, 1)
        parquet.write(table, tmp_path / "a.parquet")
        assert pq.read_table(tmp_path / "a.parquet").equals(table)
        assert pq.read_metadata(tmp_path / "a.parquet").row_group(0).column(0).compression == codec
