"""Results keep the names and types of the data's columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brimful import gp
from brimful.core.runs.context import RunContext
from brimful.gp.commands import run_predict
from brimful.gp.data.labels import Labels, dated
from brimful.gp.options import PredictConfig

from ..helpers.small import fit, rows, same

Y = rows(0, 2, 9)[1]
DAYS = pd.date_range("2024-01-01", periods=9)
TYPES = {
    "date": pa.date32(),
    "milliseconds": pa.timestamp("ms"),
    "nanoseconds": pa.timestamp("ns"),
    "in a zone": pa.timestamp("us", "Europe/Rome"),
}


def table_of(kind: pa.DataType, shop: Any = None) -> pa.Table:
    texts = pa.array([*DAYS.strftime("%Y-%m-%d")] * 2)
    days = texts if pa.types.is_string(kind) else pa.array(np.tile(DAYS.to_numpy(), 2)).cast(kind)
    return pa.table({"shop": ["b"] * 9 + ["a"] * 9 if shop is None else shop, "day": days, "sold": Y.reshape(-1)})


NAMES = gp.ColumnNames(id="shop", x="day", y="sold")


@pytest.mark.parametrize("kind", TYPES)
def test_predictions_keep_names_and_types(tmp_path: Path, kind: str):
    shop = pd.Categorical(["b"] * 9 + ["a"] * 9)
    table = table_of(TYPES[kind], pa.array(shop))
    fitted = fit(table, columns=NAMES, out=tmp_path / "models")
    assert fitted.table().column_names[0] == "shop"
    config = PredictConfig(directory=tmp_path / "models", at="2024-01-02:2024-01-04:3", out=tmp_path / "new.parquet")
    run_predict(config, RunContext())
    new = pq.read_table(tmp_path / "new.parquet")
    assert new.column_names == ["shop", "day", "mean", "variance"]
    assert pa.types.is_dictionary(new["shop"].type) and new["shop"].to_pylist() == ["b", "a"]
    assert new["day"].type.value_type == TYPES[kind]
    dates = new["day"][0].as_py()
    assert [getattr(date, "date", lambda date=date: date)().isoformat()[:10] for date in dates][1:] == [
        "2024-01-03",
        "2024-01-04",
    ]


def test_dates_as_texts_are_dates(tmp_path: Path):
    fitted = fit(table_of(pa.string()), columns=NAMES)
    same(fitted, fit(table_of(pa.date32()), columns=NAMES))
    same(fit([*DAYS.strftime("%Y-%m-%d")], Y), fit(DAYS.to_numpy(), Y))
    fitted.predict_to(tmp_path / "new", ["2024-01-02", "2024-01-03T12:00"], progress=False)
    points = pq.read_table(tmp_path / "new" / "points.parquet")
    assert [str(date) for date in points["day"].to_pylist()] == ["2024-01-02 00:00:00", "2024-01-03 12:00:00"]


def test_texts_with_an_offset_are_in_utc():
    texts = [f"2024-01-0{day}T02:00+02:00" for day in range(1, 10)]
    same(fit(texts, Y), fit(DAYS.to_numpy(), Y))


def test_points_of_their_own_are_written_by_task(tmp_path: Path):
    new = np.array([[19_723.0, 19_724.0], [19_730.0, 19_731.5]])
    fit(table_of(pa.date32()), columns=NAMES).predict_to(tmp_path / "new", new[:, :, None], progress=False)
    assert pq.read_table(tmp_path / "new" / "points.parquet")["day"].to_pylist() == new.tolist()


def test_kept_predictions_have_their_points(tmp_path: Path):
    fit(table_of(pa.date32()), columns=NAMES, out=tmp_path, keep="predictions", at=DAYS[:2].to_numpy())
    points = pq.read_table(tmp_path / "points.parquet")
    assert [str(date) for date in points["day"].to_pylist()] == ["2024-01-01", "2024-01-02"]
    assert gp.load(tmp_path).table().column_names[0] == "shop"


def test_a_name_that_a_result_has_gives_way():
    labels = Labels(id="status", inputs=("mean",))
    assert labels.input_names(1) == ("x",) and labels.id_name(("status", "nlml")) == "task"


def test_a_coarse_unit_loses_nothing():
    half = np.array([19_723.0 + 0.5e-6 / 86.4])  # half a millisecond past midnight
    assert dated(half, "timestamp[s]").type == pa.timestamp("us")
    assert dated(np.array([19_723.0]), "timestamp[s]").type == pa.timestamp("s")
