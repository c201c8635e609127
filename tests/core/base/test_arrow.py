"""Columns to tensors and back, to the bit."""

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base import arrow, pytree
from brimful.core.base.errors import BrimfulWarning, InputError

from ...engine.map.mapping import same

DTYPES = [
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]


def noise(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point or dtype.is_complex:
        x = torch.randn(shape, generator=generator, dtype=torch.complex128 if dtype.is_complex else torch.float64)
        x.reshape(-1)[::3] = float("nan")
        x.reshape(-1)[1::5] = float("-inf")
        return (x.float() if dtype == torch.bfloat16 else x).to(dtype)  # one NaN of many, the one float32 has
    return torch.randint(0, 100, shape, generator=generator).to(dtype)


def through_parquet(values: Any, path: Any) -> Any:
    columns, note = arrow.to_columns(values)
    pq.write_table(pa.table(columns).replace_schema_metadata(arrow.schema_note(note)), path)
    return arrow.from_columns(pq.read_table(path))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 4)], ids=str)
def test_every_dtype_and_shape_reads_back_to_the_same_bits(dtype: torch.dtype, shape: tuple[int, ...], tmp_path):
    values = noise(dtype, (11, *shape))
    assert same(through_parquet(values, tmp_path / "x.parquet"), values)


trees_of_results = st.recursive(
    st.integers(0, 5).map(lambda seed: noise(DTYPES[seed], (4, seed + 1), seed)),
    lambda inner: (
        st.dictionaries(st.text("abc", min_size=1), inner, min_size=1, max_size=3)
        | st.tuples(inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=5,
)


@given(trees_of_results)
def test_every_form_reads_back(values: Any):
    columns, note = arrow.to_columns(values)
    table = pa.table(columns).replace_schema_metadata(arrow.schema_note(note, run="me"))
    back = arrow.from_columns(table)
    assert pytree.spec(back) == pytree.spec(values)
    assert all(same(a, b) for (_, a), (_, b) in zip(pytree.leaves(back), pytree.leaves(values), strict=True))
    assert type(back) is type(values)


def test_the_names_of_columns():
    x = torch.zeros(2)
    assert list(arrow.to_columns(x)[0]) == ["value"]
    assert list(arrow.to_columns((x, x))[0]) == ["value_0", "value_1"]
    assert list(arrow.to_columns({"mean": x, "part": (x,)})[0]) == ["mean", "part.0"]


@pytest.mark.parametrize("name", ["item", "status", "message"])
def test_a_name_that_the_table_needs_is_refused(name: str):
    with pytest.raises(InputError, match=f"'{name}'.*rename"):
        arrow.to_columns({name: torch.zeros(2)})


def test_rows_that_hold_nothing_are_refused():
    with pytest.raises(InputError, match="at least one number"):
        arrow.to_columns(torch.zeros(3, 0))


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
    found, bad = arrow.to_tensors(table)
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
    found, bad = arrow.to_tensors(table)
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
    found, bad = arrow.to_tensors(pa.table({"x": pa.array(rows, kind)}))
    assert sorted(bad) == [1, 2, 3]
    assert found["x"].shape == (5, 2, 2)
    assert found["x"][0].tolist() == rows[0]
    assert found["x"][4].tolist() == rows[4]


def test_a_slice_of_a_chunked_table_has_its_own_rows():
    piece = pa.table({"x": pa.array([[i, -i] for i in range(5)], pa.list_(pa.int64(), 2)), "y": list(range(5))})
    table = pa.concat_tables([piece, piece]).slice(3, 4)
    found, _ = arrow.to_tensors(table)
    assert found["y"].tolist() == [3, 4, 0, 1]
    assert found["x"].tolist() == [[3, -3], [4, -4], [0, 0], [1, -1]]


def test_columns_that_are_not_numbers_are_left_out_with_a_warning():
    table = pa.table({"name": ["a", "b"], "x": [1, 2], "rest": [[1], [2, 3]]})
    with pytest.warns(BrimfulWarning, match="name, rest"):
        found, _ = arrow.to_tensors(table)
    assert list(found) == ["x"]


def test_a_table_without_numbers_is_refused():
    with pytest.warns(BrimfulWarning), pytest.raises(InputError, match="none of the columns name"):
        arrow.to_tensors(pa.table({"name": ["a"]}))


def test_tensors_do_not_share_memory_with_the_table():
    table = pa.table({"x": [1.0, 2.0]})
    arrow.to_tensors(table)[0]["x"].zero_()
    assert table["x"].to_pylist() == [1.0, 2.0]
