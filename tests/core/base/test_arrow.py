"""Columns to tensors and back, to the bit."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base import arrow, pytree
from brimful.core.base.errors import InputError
from brimful.core.base.ragged import Ragged

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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (2, 1, 4)], ids=str)
@pytest.mark.parametrize("lengths", [[3, 0, 5, 1], [0, 0], [7]], ids=str)
def test_samples_of_unequal_length_read_back_to_the_same_bits(
    dtype: torch.dtype, shape: tuple[int, ...], lengths: list[int], tmp_path
):
    values = Ragged(noise(dtype, (sum(lengths), *shape)), torch.tensor([0, *lengths]).cumsum(0))
    back = through_parquet({"text": values}, tmp_path / "x.parquet")["text"]
    assert same(back.values, values.values)
    assert same(back.offsets, values.offsets)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.complex64], ids=str)
def test_a_slice_of_a_table_reads_back(dtype: torch.dtype):
    values = Ragged(noise(dtype, (9, 2) if dtype == torch.int32 else (9,)), torch.tensor([0, 3, 3, 8, 9]))
    columns, note = arrow.to_columns(values)
    table = pa.table(columns).replace_schema_metadata(arrow.schema_note(note)).slice(1, 2)
    back = arrow.from_columns(table)
    assert same(back.values, values.values[3:8])
    assert back.offsets.tolist() == [0, 0, 5]


def test_bytes_are_shown_as_bytes(tmp_path):
    texts = Ragged.of([torch.tensor(list(text)).to(torch.uint8) for text in (b"one", b"three", b"of")])
    columns, _ = arrow.to_columns({"text": texts, "list": Ragged.of([[1.5], [], [2.5, 3.5]])})
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["text"].tolist() == [b"one", b"three", b"of"]
    assert [row.tolist() for row in frame["list"]] == [[1.5], [], [2.5, 3.5]]


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
    with pytest.raises(InputError, match="at least one number"):
        arrow.to_columns(Ragged(torch.zeros(3, 0), torch.tensor([0, 3])))


@given(st.sampled_from([torch.float16, torch.float64, torch.bool, torch.int8, torch.int64, torch.uint32]), st.data())
def test_numbers_become_a_column_and_back_as_pyarrow_makes_them(dtype: torch.dtype, data: st.DataObject):
    values = noise(dtype, (data.draw(st.integers(0, 70)),)).numpy()
    column = arrow.array_of(values[::-1])
    expected = pa.array(values[::-1].copy())
    assert (column.type, len(column), column.null_count) == (expected.type, len(expected), 0)
    start = data.draw(st.integers(0, len(values)))
    part = column.slice(start, data.draw(st.integers(0, len(values) - start)))
    read = arrow.numpy_of(part)
    assert read.dtype == values.dtype
    assert read.tobytes() == values[::-1][start : start + len(part)].tobytes()
    assert not read.flags.writeable


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), max_size=20))
def test_texts_become_a_column(texts: list[str | None]):
    column = arrow.text_array(texts)
    column.validate(full=True)
    assert column.type == pa.string()
    assert column.to_pylist() == texts


def test_a_null_among_numbers():
    assert arrow.numpy_of(pa.array([1.0, None])).tolist() == pytest.approx([1.0, float("nan")], nan_ok=True)
    assert arrow.numpy_of(pa.array([True, None, False])).tolist() == [True, None, False]
    assert arrow.numpy_of(pa.array(["a"])).tolist() == ["a"]
