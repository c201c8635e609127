"""The forms that data comes in: all give the same fit, and what cannot be understood is named."""

import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import ConfigError, InputError, gp
from brimful.data.dates import days
from brimful.gp.data.long_table import ColumnNames, plain
from brimful.gp.data.sources import RaggedTasks, read

from ..helpers.small import fit, long, rows, same

X, Y = rows(0, 5, 9)
SHARED = X[0]


def tiled(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, (len(Y), *x.shape))


ARRAYS: dict[str, tuple[Any, Any]] = {
    "(n, d)": (SHARED, Y),
    "lists": (SHARED[:, 0].tolist(), Y.tolist()),
    "objects": (SHARED[:, 0].astype(object), Y.astype(object)),
    "big-endian": (SHARED[:, 0].astype(">f8"), Y.astype(">f8")),
    "tensors": (torch.from_numpy(SHARED), torch.from_numpy(Y).requires_grad_()),
    "reversed views": (SHARED[::-1, 0], Y[:, ::-1]),
    "not writable": (np.frombuffer(SHARED.tobytes()), np.frombuffer(Y.tobytes()).reshape(Y.shape)),
}
OWN: dict[str, tuple[Any, Any]] = {
    "(tasks, n)": (X[:, :, 0], Y),
    "(tasks, n, d)": (X, Y),
    "pairs": ([(x[:, 0], y) for x, y in zip(X, Y, strict=True)], None),
    "lists of pairs": ([[x.tolist(), y.tolist()] for x, y in zip(X, Y, strict=True)], None),
    "tensors": ([(torch.from_numpy(x), torch.from_numpy(y)) for x, y in zip(X, Y, strict=True)], None),
    "table": (pa.table(long(X, Y, list("abcde"))), None),
    "pandas": (pd.DataFrame(long(X, Y, [3, 1, 4, 11, 5])), None),
    "objects in pandas": (pd.DataFrame(long(X, Y, [3, 1, 4, 11, 5])).astype({"ds": object, "y": object}), None),
    "big-endian in pandas": (pd.DataFrame(long(X, Y, [3, 1, 4, 11, 5])).astype({"ds": ">f8", "y": ">f8"}), None),
}


@pytest.mark.parametrize("form", ARRAYS)
def test_shared_inputs_in_every_form(form: str):
    fitted = fit(*ARRAYS[form])
    assert "shared eigenbasis" in fitted.method
    same(fit(SHARED[:, 0], Y), fitted, rtol=1e-4 if form == "reversed views" else 0.0)  # what float32 may tell apart


@pytest.mark.parametrize("form", OWN)
def test_own_inputs_in_every_form(form: str):
    fitted = fit(*OWN[form])
    assert "grid of initial values" in fitted.method
    same(fit(X[:, :, 0], Y), fitted)


def test_shared_and_own_inputs_end_at_the_same_optimum():
    same(fit(SHARED, Y, tolerance=1e-10), fit(tiled(SHARED), Y, tolerance=1e-10), rtol=1e-3)


def test_a_single_row_of_targets_is_one_task():
    same(fit(SHARED, Y[2]), fit(SHARED, Y[2:3]))


@pytest.mark.parametrize("kind", ["arrow", "pandas", "parquet", "csv", "record batch", "chunks"])
@pytest.mark.parametrize("ids", [list("cabed"), [30, 10, 20, 50, 40]], ids=["texts", "numbers"])
def test_a_long_table_in_any_order_of_rows(tmp_path: Path, kind: str, ids: list[Any]):
    x, y = rows(1, 5, 7, 2)
    shuffle = np.random.default_rng(0).permutation(35)
    table = pa.table(long(x, y, ids)).take(shuffle)
    source: Any = {
        "arrow": lambda: table,
        "pandas": table.to_pandas,
        "record batch": lambda: table.to_batches()[0],
        "chunks": lambda: pa.concat_tables([table[:3], table[3:20], table[20:]]),
    }.get(kind, lambda: tmp_path / f"long.{kind}")()
    if kind == "parquet":
        pq.write_table(table, source)
    if kind == "csv":
        pyarrow.csv.write_csv(table, source)
    fitted = fit(str(source) if kind == "csv" else source)
    firsts = list(dict.fromkeys(table["unique_id"].to_pylist()))
    assert fitted.ids.to_pylist() == firsts
    expected = fit(x, y)
    order = [ids.index(item) for item in firsts]
    np.testing.assert_allclose(fitted.nlml, expected.nlml[order], rtol=1e-6)
    for name, values in fitted.params.items():
        np.testing.assert_allclose(values, expected.params[name][order], rtol=1e-3)


def moments(dates: list[datetime.datetime]) -> dict[str, Any]:
    return {
        "date": pa.array([item.date() for item in dates]),
        "timestamp": pa.array(dates),
        "nanoseconds": pa.array(dates, pa.timestamp("ns")).view(pa.int64()).cast(pa.int64()).view(pa.timestamp("ns")),
        "with a zone": pa.array(dates, pa.timestamp("s", "UTC")),
    }


@pytest.mark.parametrize("kind", ["date", "timestamp", "nanoseconds", "with a zone"])
def test_dates_are_days(kind: str):
    days = np.sort(np.random.default_rng(2).choice(60, 9, replace=False))
    dates = [datetime.datetime(2024, 2, 1) + datetime.timedelta(days=int(day)) for day in days]
    table = pa.table({"task": ["a"] * 9, "ds": moments(dates)[kind], "y": Y[0]})
    same(fit(table), fit([(days.astype(float), Y[0])]), rtol=1e-6)


def test_dates_finer_than_a_microsecond_are_taken():
    stamps = pd.date_range("2024-01-01", "2024-01-02", periods=9)
    assert (stamps.nanosecond != 0).any() or stamps.unit == "us"
    table = pa.table({"task": ["a"] * 9, "ds": pa.array(np.arange(9) * 10**9 + 1, pa.timestamp("ns")), "y": Y[0]})
    assert fit(table).status.tolist() == [0]


def test_dates_in_a_csv_are_understood(tmp_path: Path):
    path = tmp_path / "series.csv"
    rows_of = [f"a,2024-01-{day:02d},{value}" for day, value in enumerate(Y[0], start=1)]
    path.write_text("\n".join(["unique_id,ds,y", *rows_of]))
    same(fit(path), fit([(np.arange(9.0), Y[0])]), rtol=1e-6)


DATES = pd.date_range("2024-02-01", periods=9, freq="36h")
MOMENTS: dict[str, Any] = {
    "an index": DATES,
    "an index with a zone": DATES.tz_localize("UTC"),
    "a series": pd.Series(DATES),
    "an array": DATES.to_numpy(),
    "seconds": DATES.to_numpy().astype("datetime64[s]"),
    "a column": DATES.to_numpy()[:, None],
    "a list": DATES.to_pydatetime().tolist(),
    "arrow": pa.array(DATES),
}


@pytest.mark.parametrize("form", MOMENTS)
def test_dates_are_days_since_1970_wherever_inputs_go(form: str):
    days = (DATES - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    table = pa.table({"task": ["a"] * 9, "ds": pa.array(DATES), "y": Y[0]})
    fitted = fit(table)
    for mine, theirs in zip(fitted.predict(MOMENTS[form]), fitted.predict(days.to_numpy()), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    same(fit([(MOMENTS[form], Y[0])]), fitted)
    assert fit(MOMENTS[form], Y[:1]).status.tolist() == [0]


def test_a_date_that_is_none_is_a_missing_point():
    stamps = DATES.to_numpy().copy()
    stamps[3] = np.datetime64("NaT")
    assert fit([(stamps, Y[0])]).table()["points"].to_pylist() == [8]


PERIODS = pd.period_range("2020-01", periods=9, freq="M")
FORMS_OF_PERIODS: dict[str, Any] = {
    "an index": PERIODS,
    "a series": pd.Series(PERIODS),
    "a list": list(PERIODS),
    "arrow": pa.array(PERIODS),
    "chunks": pa.chunked_array([pa.array(PERIODS[:4]), pa.array(PERIODS[4:])]),
}


@pytest.mark.parametrize("form", FORMS_OF_PERIODS)
def test_a_period_is_the_day_it_starts(form: str):
    dates = PERIODS.start_time
    fitted = fit(pd.DataFrame({"task": "a", "ds": PERIODS, "y": Y[0]}))
    same(fitted, fit(pd.DataFrame({"task": "a", "ds": dates, "y": Y[0]})))
    same(fitted, fit([(FORMS_OF_PERIODS[form], Y[0])]))
    expected = fitted.predict(dates)[0]
    np.testing.assert_array_equal(fitted.predict(FORMS_OF_PERIODS[form])[0], expected)
    np.testing.assert_array_equal(fitted.predict([pd.Timestamp("2020-02-01")])[0], expected[:, 1:2])


@pytest.mark.parametrize("frequency", ["Y", "Q", "W", "D", "h"])
def test_periods_of_any_length(frequency: str):
    periods = pd.period_range("2020-01-01", periods=9, freq=frequency)
    table = pd.DataFrame({"task": "a", "ds": periods, "y": Y[0]})
    same(fit(table), fit(table.assign(ds=periods.start_time)))


def test_a_period_that_is_none_is_a_missing_point():
    periods = pd.Series(PERIODS)
    periods[3] = pd.NaT
    y = np.where(np.arange(9) == 3, np.nan, Y[0])
    expected = fit([(PERIODS, y)])
    same(fit(pd.DataFrame({"task": "a", "ds": periods, "y": Y[0]})), expected)
    same(fit([(periods, Y[0])]), expected)
    same(fit([([*DATES[:3], pd.NaT, *DATES[4:]], Y[0])]), fit([(DATES, y)]))


def test_periods_are_known_by_the_notes_of_a_file():
    notes = {"ARROW:extension:name": "pandas.period", "ARROW:extension:metadata": '{"freq": "D"}'}
    assert days(plain(pa.array([3, 4]), pa.field("ds", pa.int64(), metadata=notes))).tolist() == [3, 4]


@pytest.mark.soak
def test_the_periods_of_a_file_are_known_without_pandas(tmp_path: Path):
    pd.DataFrame({"task": "a", "ds": PERIODS, "y": Y[0]}).to_parquet(tmp_path / "long.parquet")
    program = (
        "import json, sys; from brimful.gp.data.long_table import numbers, read_table\n"
        "assert 'pandas' not in sys.modules\n"
        "print(json.dumps(numbers(read_table(sys.argv[1])['ds'], 'ds').tolist()))"
    )
    message = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "long.parquet")], check=True, capture_output=True, text=True
    )
    assert json.loads(message.stdout) == ((PERIODS.start_time - pd.Timestamp(0)) // pd.Timedelta(days=1)).tolist()


def test_periods_without_pandas_are_refused(monkeypatch: pytest.MonkeyPatch):
    table = pa.table({"task": ["a"] * 9, "ds": pa.array(PERIODS), "y": Y[0]})
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"column 'ds' holds periods of pandas, and cannot be read .*; give dates"):
        fit(table)


HIDDEN = np.random.default_rng(0).random(Y.shape) < 0.2


def masked(values: Any) -> np.ma.MaskedArray:
    """Some values masked, with others below the mask that would be noticed."""
    return np.ma.masked_array(np.where(HIDDEN, 99, values), HIDDEN)


@pytest.mark.parametrize("form", ["shared", "own", "pairs", "lists", "lists of lists", "inputs", "pairs of inputs"])
def test_what_is_masked_is_missing(form: str):
    x, y, missing = X[:, :, 0], masked(Y), np.where(HIDDEN, np.nan, Y)
    given: Any = {
        "shared": lambda: (SHARED, y),
        "own": lambda: (x, y),
        "pairs": lambda: ([*zip(x, y, strict=True)],),
        "lists": lambda: (x, list(y)),
        "lists of lists": lambda: (x, [[item if item is np.ma.masked else float(item) for item in row] for row in y]),
        "inputs": lambda: (masked(x), Y),
        "pairs of inputs": lambda: ([*zip(masked(x), Y, strict=True)],),
    }[form]()
    fitted = fit(*given)
    same(fitted, fit(SHARED if form == "shared" else x, missing))
    assert fitted.table()["points"].to_pylist() == (~HIDDEN).sum(1).tolist()


def test_masks_of_whole_numbers_and_dates():
    y, hidden = np.round(Y[0] * 4), np.arange(9) == 4
    expected = fit([(SHARED, np.where(hidden, np.nan, y))])
    same(expected, fit([(SHARED, np.ma.masked_array(y.astype(int), hidden))]))
    same(expected, fit([(SHARED, np.ma.masked_array(y, hidden).astype(np.float32))]))
    dates = fit([(DATES, np.where(hidden, np.nan, y))])
    for stamps in (DATES.to_numpy(), np.array(DATES.to_pydatetime())):
        same(dates, fit([(np.ma.masked_array(stamps, hidden), y)]))


def test_a_mask_that_hides_nothing_changes_nothing():
    same(fit(SHARED, np.ma.masked_array(Y)), fit(SHARED, Y))
    with pytest.raises(InputError, match="y holds bool; give real numbers"):
        fit(SHARED, np.ma.masked_array(Y > 0, HIDDEN))


def test_a_point_whose_noise_is_masked_is_missing():
    missing = np.where(HIDDEN, np.nan, Y)
    expected = fit(X, missing, noise=0.05)
    noise = np.ma.masked_invalid(np.where(HIDDEN, np.nan, 0.05))
    for fitted in (
        fit(X, Y, noise=noise),
        fit(X, masked(Y), noise=noise),
        fit(X, Y, noise=list(noise)),
        fit([*zip(X, Y, noise, strict=True)]),
    ):
        same(fitted, expected)
        np.testing.assert_array_equal(fitted.predict([0.5], noise=True)[1], expected.predict([0.5], noise=True)[1])
    assert (fit(X, Y, noise=np.where(HIDDEN, np.nan, 0.05)).status == gp.TaskStatus.INVALID)[HIDDEN.any(1)].all()


def test_only_categories_that_occur_are_tasks():
    table = pd.DataFrame(long(X, Y, list("abcde")))
    expected = fit(table[table["unique_id"].isin(["b", "d"])])
    categories = table.assign(unique_id=pd.Categorical(table["unique_id"], categories=list("zedcba")))
    fitted = fit(categories[categories["unique_id"].isin(["b", "d"])])
    assert fitted.ids.to_pylist() == ["b", "d"]
    same(fitted, expected)


def polars_frame(polars: Any) -> Any:
    columns = long(X, Y, list("cabed"))
    dates = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(100 * item)) for item in columns["ds"]]
    y = [None if position in (2, 11) else float(value) for position, value in enumerate(columns["y"])]
    return polars.DataFrame({"unique_id": columns["unique_id"], "ds": dates, "y": y})


@pytest.mark.parametrize("kind", ["frame", "lazy", "categories", "enumeration", "datetimes", "one null date"])
def test_frames_of_polars(tmp_path: Path, kind: str):
    polars = pytest.importorskip("polars")
    frame = polars_frame(polars)
    ids, ds = polars.col("unique_id"), polars.col("ds")
    source = {
        "frame": lambda: frame,
        "lazy": lambda: frame.lazy().filter(ids != "z"),
        "categories": lambda: frame.with_columns(ids.cast(polars.Categorical)),
        "enumeration": lambda: frame.with_columns(ids.cast(polars.Enum(list("zedcba")))),
        "datetimes": lambda: frame.with_columns(ds.cast(polars.Datetime("ms"))),
        "one null date": lambda: frame.with_columns(
            ds=polars.when(polars.int_range(polars.len()) == 20).then(None).otherwise(ds)
        ),
    }[kind]()
    y = Y.copy()
    y.reshape(-1)[[2, 11, *([20] if kind == "one null date" else [])]] = np.nan
    days = np.array([(item - datetime.date(1970, 1, 1)).days for item in frame["ds"]], float).reshape(5, 9)
    fitted = fit(source, out=tmp_path / "models")
    expected = fit(days, y, out=tmp_path / "expected")
    assert fitted.ids.to_pylist() == list("cabed")
    same(fitted, expected)
    assert gp.load(tmp_path / "models").ids.take(pa.array([3])).to_pylist() == ["e"]


def test_series_of_polars():
    polars = pytest.importorskip("polars")
    y = polars.Series([None, *Y[0, 1:]])
    dates = polars.Series(DATES.to_pydatetime().tolist())
    same(fit([(dates, y)]), fit([(DATES, np.where(np.arange(9) == 0, np.nan, Y[0]))]))


def test_texts_of_polars_are_no_numbers():
    polars = pytest.importorskip("polars")
    frame = polars_frame(polars).with_columns(polars.col("y").cast(polars.String))
    with pytest.raises(InputError, match=r"column 'y' is large_string, and must hold numbers or dates: it holds texts"):
        fit(frame.lazy())


@pytest.mark.parametrize("kind", ["arrow", "pandas", "parquet", "csv"])
def test_the_numbers_of_pandas_rows_are_no_input(tmp_path: Path, kind: str):
    columns = long(X, Y, list("abcde"))
    plain = pd.DataFrame({"unique_id": columns["unique_id"], "depth": columns["ds"], "y": columns["y"]})
    shuffled = plain.sample(frac=1.0, random_state=0)
    source: Any = {"arrow": lambda: pa.Table.from_pandas(shuffled), "pandas": lambda: shuffled}.get(
        kind, lambda: tmp_path / f"long.{kind}"
    )()
    if kind == "parquet":
        shuffled.to_parquet(source)
    if kind == "csv":
        shuffled.to_csv(source)
    fitted = fit(source)
    assert fitted.data is not None
    assert (fitted.data.dimensions, fitted.data.inputs) == (1, ("depth",))


@pytest.mark.parametrize("name", ["a.CSV", "a.tsv", "a.csv.gz", "a.TSV"])
def test_tables_of_text_in_every_form(tmp_path: Path, name: str):
    table = pd.DataFrame(long(X, Y, list("abcde")))
    table.to_csv(tmp_path / name, sep="\t" if "tsv" in name.lower() else ",", index=False)
    same(fit(tmp_path / name), fit(X, Y))


def test_the_inputs_of_a_table_in_a_list():
    x, y = rows(1, 2, 8, 2)
    table = pa.table(long(x, y, list("ab")))
    same(fit(table, columns=gp.ColumnNames(x=["x_1", "x_0"])), fit(table, columns=gp.ColumnNames(x="x_1, x_0")))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (lambda: {"x": "ds"}, r"columns is a dict; give gp.ColumnNames\(id=..., x=..., y=...\)"),
        (lambda: gp.ColumnNames(x=[1]), r"columns has x=\[1\]; give the name of a column"),  # pyright: ignore[reportArgumentType]
        (lambda: gp.ColumnNames(id=["a"]), r"columns has id=\['a'\]; give the name"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_columns_that_are_no_names(columns: Callable[[], Any], words: str):
    with pytest.raises(ConfigError, match=words):
        fit(table_of(), columns=columns())


@pytest.mark.parametrize(
    "more", [{"y": Y}, {"noise": 0.01}, {"task_ids": list("abc")}, {"columns": gp.ColumnNames(noise="v")}]
)
def test_nothing_is_given_beside_data_that_has_it_all(more: dict[str, Any]):
    with pytest.raises(InputError, match=r"leave .*out"):
        fit(gp.synthetic(3), **more)


@pytest.mark.parametrize("count", [-1, 2.5, "3"])
def test_synthetic_tasks_are_counted(count: Any):
    with pytest.raises(ConfigError, match=r"count is .*; give a whole number from 0 on"):
        gp.synthetic(count)


def test_nulls_are_missing_points():
    columns = long(X, Y, list("abcde"))
    columns["y"] = pa.array([None if position in (2, 11) else value for position, value in enumerate(columns["y"])])
    columns["ds"] = pa.array([None if position == 20 else value for position, value in enumerate(columns["ds"])])
    fitted = fit(pa.table(columns))
    missing = Y.copy()
    missing.reshape(-1)[[2, 11, 20]] = np.nan
    same(fitted, fit(X, missing), rtol=1e-6)
    assert fitted.table()["points"].to_pylist() == [8, 8, 8, 9, 9]


@pytest.mark.parametrize("kind", [pa.float32(), pa.int64(), pa.decimal128(12, 6)])
def test_numbers_of_any_kind(kind: pa.DataType):
    y = np.round(Y[0] * 4)
    table = pa.table({"task": ["a"] * 9, "x": X[0, :, 0], "y": pa.array(y).cast(kind)})
    same(fit(table), fit([(X[0], y)]))


def test_usual_names_and_others():
    plain = {"unique_id": ["a"] * 9, "ds": X[0, :, 0], "y": Y[0]}
    expected = fit(pa.table(plain))
    for names in (("task", "t", "value"), ("series", "x", "target"), ("id", "depth", "y")):
        same(expected, fit(pa.table(dict(zip(names, plain.values(), strict=True)))))
    odd = pa.table({"t": ["a"] * 9, "when": X[0, :, 0], "x": Y[0], "ds": Y[1]})
    same(expected, fit(odd, columns=gp.ColumnNames(id="t", x="when", y="x")))


def test_the_target_is_never_taken_for_an_input():
    table = pa.table({"task": ["a"] * 9, "t": X[0, :, 0], "x": Y[0]})
    same(fit(table, columns=gp.ColumnNames(y="x")), fit([(X[0], Y[0])]))


def test_a_column_of_noise():
    variances = np.linspace(0.01, 0.3, 45)
    table = pa.table(long(X, Y, list("abcde")) | {"var": variances})
    fitted = fit(table, columns=gp.ColumnNames(noise="var"))
    same(fitted, fit(X, Y, noise=variances.reshape(5, 9)))
    same(fitted, fit([(x, y, v) for x, y, v in zip(X, Y, variances.reshape(5, 9), strict=True)]))
    assert fitted.params["noise"].tolist() == [0.0] * 5


def table_of(**changes: Any) -> pa.Table:
    columns = {name: item for name, item in (long(X, Y, list("abcde")) | changes).items() if item is not None}
    return pa.table(columns)


BAD_TABLES: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "no id": (lambda: table_of(unique_id=None), {}, "no column of ds, y is called unique_id or .*id option"),
    "no target": (lambda: table_of(y=None), {}, "no column of unique_id, ds is called y or value or target"),
    "no input": (lambda: table_of(ds=None), {}, "no input column beside 'unique_id' and 'y'"),
    "no such column": (lambda: table_of(), {"columns": ColumnNames(x="ds, depth")},
    "no column 'depth'; it has unique_id"),
    "texts": (lambda: table_of(y=[str(item) for item in range(45)]), {}, "column 'y' is string.*numbers or dates"),
    "mixed": (lambda: pd.DataFrame({"task": [1, 1], "x": [1, 2], "y": [1, "two"]}), {}, "cannot be read as a table"),
    "lists": (lambda: table_of(ds=[[1.0]] * 45), {}, "column 'ds' is list<.*numbers or dates"),
    "ids of lists": (lambda: table_of(unique_id=[[1]] * 45), {}, "column 'unique_id' is list<.*texts or whole numbers"),
    "null ids": (lambda: table_of(unique_id=[None, *["a"] * 44]), {}, "'unique_id' has 1 nulls; every row needs"),
    "noise": (lambda: table_of(), {"noise": 0.1}, r"noise and ids in columns.*gp.ColumnNames\(noise="),
    "task_ids": (lambda: table_of(), {"task_ids": list("vwxyz")}, r"noise and ids in columns"),
    "texts as inputs": (lambda: table_of(ds=["soon"] * 45), {}, "'ds' holds texts that are not dates.*2024-01-31"),
    "vast": (lambda: table_of(ds=np.arange(45) + 1_700_000_000_000_000_000), {}, "divide .*, or give datetimes"),
    "twice": (lambda: table_of().append_column("y", [Y.reshape(-1)]), {}, "2 columns called 'y'; rename all but one"),
    "twice in pandas": (lambda: pd.DataFrame(np.zeros((3, 2)), columns=["y", "y"]), {}, "cannot be read as a table"),
    "no file": (lambda: "nowhere/long.parquet", {}, "nowhere/long.parquet does not exist; check the path"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_table_that_cannot_be_understood(case: str):
    make, options, words = BAD_TABLES[case]
    with pytest.raises(InputError, match=words):
        fit(make(), **options)


def test_a_file_that_is_no_table(tmp_path: Path):
    for name, content in (("a.parquet", b"PAR1 no"), ("b.csv", b"x,y\n1,2,3\n"), ("c.parquet", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name} cannot be read as a table"):
            fit(tmp_path / name)


BAD_ARRAYS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "lengths": (SHARED[:5], Y, {}, r"x has shape \(5, 1\) and y \(5, 9\); give x as \(9,\) or \(9, d\) shared"),
    "three axes": (SHARED, Y[None], {}, r"y has shape \(1, 5, 9\); give \(tasks, points\)"),
    "no columns": (np.zeros((9, 0)), Y, {}, "x has no dimensions; give at least one column"),
    "complex": (SHARED, Y + 0j, {}, "y holds complex128; give real numbers"),
    "complex tensor": (SHARED, torch.zeros(5, 9, dtype=torch.complex64), {}, "y holds torch.complex64; give real"),
    "bool": (SHARED, Y > 0, {}, "y holds bool; give real numbers"),
    "object": (np.array([[object()]] * 9), Y, {}, "x holds object; give real numbers"),
    "objects that are bools": (SHARED, (Y > 0).astype(object), {}, "y holds object; give real numbers"),
    "texts that are no dates": ([f"day {day}" for day in range(9)], Y, {}, "x holds <U5; give real numbers"),
    "text": (SHARED, [["a"] * 9], {}, "y holds <U1; give real numbers"),
    "unequal": (SHARED, [[1.0, 2.0], [3.0]], {}, "y is a list that is not an array of numbers"),
    "not finite": ([0, 1, np.nan, 3, 4, 5, 6, 7, 8], Y, {}, "x holds NaN or infinities, and all tasks share it"),
    "noise": (SHARED, Y, {"noise": np.ones(4)}, r"noise has shape \(4,\); give .* \(9,\), or .* \(5, 9\)"),
    "negative noise": (SHARED, Y, {"noise": -0.1}, "noise is -0.1; it is a variance: give 0 or more"),
    "negative NumPy noise": (SHARED, Y, {"noise": np.float32(-2)}, "noise is -2.0; it is a variance: give 0 or more"),
    "ids": (SHARED, Y, {"task_ids": ["a"]}, "task_ids has 1 names for 5 tasks; give one per task"),
    "mixed ids": (SHARED, Y, {"task_ids": ["a", 1, 2, 3, 4]}, "task_ids is a list of names .* one kind"),
    "an id": (SHARED, Y, {"task_ids": "abcde"}, "task_ids is a str .* give a list of texts or of whole numbers"),
    "a number": (SHARED, Y, {"task_ids": 5}, "task_ids is a int"),
    "a set": (SHARED, Y, {"task_ids": set("abcde")}, "task_ids is a set"),
    "ids in rows": (SHARED, Y, {"task_ids": np.zeros((5, 2))}, "task_ids is a ndarray"),
    "ids in lists": (SHARED, Y, {"task_ids": [["a"]] * 5}, "task_ids holds list"),
    "pair noise": ([(X[0], Y[0], np.ones(4))], None, {}, r"task 0 has noise of shape \(4,\) and 9 targets; give one"),
    "columns": (SHARED, Y, {"columns": ColumnNames(x="ds")}, "columns= names the columns of a long table"),
    "dates": (SHARED, pd.date_range("2024-01-01", periods=9), {}, r"y holds datetime64\[.*; give real numbers"),
    "no y": (SHARED, None, {}, "x is a ndarray and there is no y; give arrays x and y, a list of"),
    "nothing": (None, None, {}, "x is a NoneType and there is no y"),
    "not pairs": ([1.0, 2.0], None, {}, "task 0 is float; each must be a pair"),
    "pair lengths": ([(X[0], Y[0]), (X[1], Y[1, :4])], None, {}, r"task 1 has x of shape \(9, 1\) and 4 targets"),
    "pair widths": ([(X[0], Y[0]), (np.ones((9, 2)), Y[1])], None, {}, "task 1 has 2 input dimensions, others have 1"),
    "some noise": ([(X[0], Y[0], 0.1), (X[1], Y[1])], None, {}, "some tasks have a known noise and some do not"),
    "noise of pairs": ([(X[0], Y[0])], None, {"noise": 0.1}, r"give \(x, y, noise\) for each task"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_arrays_that_cannot_be_understood(case: str):
    x, y, options, words = BAD_ARRAYS[case]
    with pytest.raises(InputError, match=words):
        fit(x, y, **options)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.data())
def test_ragged_tasks_are_padded(counts: list[int], chosen: st.DataObject):
    generator = np.random.default_rng(0)
    tasks = [(generator.normal(size=(count, 2)), generator.normal(size=count), count + 0.5) for count in counts]
    source = read(tasks, None, None, None, ColumnNames()).items
    assert isinstance(source, RaggedTasks)
    start = chosen.draw(st.integers(0, len(counts) - 1))
    stop = chosen.draw(st.integers(start + 1, len(counts)))
    loaded = source.load(start, stop)
    tree: Any = loaded.tree
    index = source.index(start, stop)
    assert sorted(source.index(0, len(counts)).tolist()) == list(range(len(counts)))
    assert tree["y"].shape == (stop - start, max(counts[task] for task in index))
    for row, task in enumerate(index):
        x, y, noise = tasks[task]
        there = ~torch.isnan(tree["y"][row])
        assert int(there.sum()) == counts[task]
        assert np.array_equal(tree["y"][row][there].numpy(), y)
        assert np.array_equal(tree["x"][row][there].numpy(), x)
        assert (tree["noise"][row][there] == noise).all()
    assert (np.diff(np.maximum(source.counts(0, len(counts)), 1)) <= 0).all()  # the longest come first


def test_ragged_tasks_keep_their_order_whatever_the_order_of_work():
    x, y = rows(3, 6, 12)
    counts = [3, 12, 7, 0, 12, 5]
    fitted = fit([(x[task, :count], y[task, :count]) for task, count in enumerate(counts)], task_ids=list("abcdef"))
    assert fitted.table()["points"].to_pylist() == counts
    assert fitted.ids.to_pylist() == list("abcdef")
    assert fitted.status.tolist() == [0, 0, 0, gp.TaskStatus.EMPTY, 0, 0]
    for task in (0, 2, 5):
        alone = fit([(x[task, : counts[task]], y[task, : counts[task]])])
        assert fitted.nlml[task] == pytest.approx(alone.nlml[0], rel=1e-9)


@pytest.mark.parametrize("scale", [1e31, 1e-31])
def test_inputs_beyond_what_can_be_scaled_are_flagged(scale: float):
    x, y = rows(0, 2, 8)
    fitted = fit([(x[0], y[0]), (x[1] * scale, y[1])])
    assert fitted.status.tolist() == [0, gp.TaskStatus.INVALID]
    assert fitted.messages[1].startswith(f"the inputs reach over {'more' if scale > 1 else 'less'} than 1e")
