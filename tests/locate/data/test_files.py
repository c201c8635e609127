"""Recordings in files: generated ones, and one's own."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from brimful import InputError, locate
from brimful.locate.data.files import from_long_table
from brimful.locate.data.recordings import Fault

from ..helpers import recordings


def long_table(some: locate.Recordings) -> pa.Table:
    """One row per recording and receiver, in an order that mixes recordings."""
    row, column = some.mask.nonzero(as_tuple=True)
    order = torch.randperm(len(row), generator=torch.Generator().manual_seed(0))
    order = torch.cat((torch.arange(len(some.mask[0])), order[order >= len(some.mask[0])]))
    row, column = row[order], column[order]
    columns = {
        name: getattr(some, name)[row, column].numpy() for name in ("snr_db", "psd_dbm_hz", "frequency_offset_hz")
    }
    for name, axis in (("latitude", 0), ("longitude", 1)):
        columns[name] = some.positions[row, column, axis].numpy()
        columns[f"transmitter_{name}"] = some.transmitter[row, axis].numpy()
    return pa.table({"recording": [f"r{number}" for number in row.tolist()], **columns})


def test_generated_ones_come_back_to_the_bit(tmp_path: Path):
    scenario = locate.Scenario(receivers=5, availability=1.0)
    made = locate.Dataset("five", locate.generate(50, scenario, seed=3), scenario, 3)
    again = locate.read(locate.write(made, tmp_path / "deep" / "five.parquet"))
    assert (again.name, again.scenario, again.seed) == ("five", scenario, 3)
    for name in ("positions", "mask", "detected", "snr_db", "transmitter", "gdop"):
        assert torch.equal(getattr(again.recordings, name).nan_to_num(), getattr(made.recordings, name).nan_to_num())


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ones_own_from_a_long_table(tmp_path: Path, suffix: str):
    some = recordings().select(slice(0, 40))
    path = tmp_path / f"own{suffix}"
    (pyarrow.csv.write_csv if suffix == ".csv" else pq.write_table)(long_table(some), path)
    own = locate.read(path).recordings
    assert own.names is not None
    index = torch.tensor([int(name[1:]) for name in own.names])
    expected = some.select(index)
    assert sorted(index.tolist()) == list(range(40))
    assert torch.equal(own.mask.sum(1), expected.mask.sum(1))
    assert torch.equal(own.detected.sum(1), expected.detected.sum(1))
    assert torch.allclose(own.mean_snr_db, expected.mean_snr_db)
    assert torch.allclose(own.centroid, expected.centroid)
    assert torch.allclose(own.gdop, expected.gdop, rtol=1e-3)
    assert not own.faults().any()


def test_a_column_says_what_was_detected():
    table = pa.table(
        {
            "recording": [1, 1, 1],
            "latitude": [45.0, 45.1, 45.0],
            "longitude": [8.0, 8.0, 8.1],
            "snr_db": [12.0, 3.0, 11.0],
            "psd_dbm_hz": [-150.0, -159.0, -151.0],
            "detected": [True, False, True],
        }
    )
    own = from_long_table(table)
    assert own.detected.tolist() == [[True, False, True]]
    assert own.faults().tolist() == [Fault.TOO_FEW]
    assert own.gdop.isnan().all()  # nobody knows where it was


def test_files_that_are_none(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        locate.read(tmp_path / "none.parquet")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        locate.read(tmp_path / "torn.parquet")
    (tmp_path / "some.txt").write_text("")
    with pytest.raises(InputError, match=r"neither \.csv nor \.parquet"):
        locate.read(tmp_path / "some.txt")


def test_tables_that_are_none():
    table = long_table(recordings().select(slice(0, 2)))
    with pytest.raises(InputError, match="no column snr_db, psd_dbm_hz"):
        from_long_table(table.drop_columns(["snr_db", "psd_dbm_hz"]))
    with pytest.raises(InputError, match="has no rows"):
        from_long_table(table.slice(0, 0))
    with pytest.raises(InputError, match="column latitude holds something that is no number"):
        from_long_table(table.drop_columns(["latitude"]).append_column("latitude", pa.array(["x"] * table.num_rows)))
    many = pa.concat_tables([table.slice(0, 1)] * 16)
    with pytest.raises(InputError, match="has 16 receivers; at most 15"):
        from_long_table(many)
