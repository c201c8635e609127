"""Bytes of chunks and of rows: what is written is what is read, to the bit."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import InputError
from brimful.data.database import chunk_format
from brimful.data.database.column_types import ROW, columns_of, from_rows, row_type, to_rows
from brimful.data.database.xxhash import xxh64
from brimful.data.dataset import Field, Fields

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
]  # fmt: skip
fields_strategy = st.dictionaries(
    st.sampled_from(["x", "y.z", "Größe", "with space", 'quo"te']),
    st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(1, 4), max_size=2).map(tuple)),
    min_size=1,
)


def random_values(forms: dict[str, Any], rows: int, seed: int) -> tuple[dict[str, Field], Fields]:
    chance = np.random.default_rng(seed)
    fields = {name: Field(*form) for name, form in forms.items()}
    values = {}
    for name, field in fields.items():
        size = rows * field.unit_bytes
        raw = torch.from_numpy(chance.integers(0, 2 if field.dtype == torch.bool else 256, size, dtype=np.uint8))
        values[name] = raw.view(field.dtype).reshape(rows, *field.shape)
    return fields, values


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


@given(forms=fields_strategy, rows=st.integers(1, 9), seed=st.integers(0, 99))
def test_a_chunk_is_its_fields(forms: dict[str, Any], rows: int, seed: int):
    fields, values = random_values(forms, rows, seed)
    content = chunk_format.encode(fields, values)
    assert len(content) == chunk_format.chunk_bytes(fields, rows)
    decoded = chunk_format.decode(fields, content, rows)
    assert {name: bits(part) for name, part in decoded.items()} == {name: bits(part) for name, part in values.items()}
    assert all(span.start % chunk_format.ALIGNMENT == 0 for span in chunk_format.spans(fields, rows))


@given(forms=fields_strategy, rows=st.integers(1, 9), seed=st.integers(0, 99))
def test_rows_in_binary_format_are_their_fields(forms: dict[str, Any], rows: int, seed: int):
    fields, values = random_values(forms, rows, seed)
    columns = columns_of(fields)
    written: Any = to_rows(columns, values, 5)
    assert written[f"v {ROW}"].tolist() == list(range(5, 5 + rows))
    kept: Any = np.empty(rows, row_type(columns))  # what a query without the numbers gives
    for name in kept.dtype.names or ():
        kept[name] = written[name]
    read = from_rows(columns, kept.tobytes(), rows, 0, "it")
    for name, field in fields.items():
        if field.dtype in (torch.float16, torch.bfloat16):  # a NaN may become another NaN on the way through float32
            assert torch.equal(read[name].nan_to_num(), values[name].nan_to_num())
        else:
            assert bits(read[name]) == bits(values[name])


def test_a_row_of_another_form_is_named():
    columns = columns_of({"x": Field(torch.float32, (3,))})
    rows: Any = to_rows(columns, {"x": torch.zeros(4, 3)}, 0)
    kept: Any = np.empty(4, row_type(columns))
    for name in kept.dtype.names or ():
        kept[name] = rows[name]
    kept["v_x"]["l"][2, 1] = -1  # a NULL in an array
    with pytest.raises(InputError, match="row 12 has a NULL"):
        from_rows(columns, kept.tobytes(), 4, 10, "dataset 'd'")
    with pytest.raises(InputError, match="row 13 has a NULL"):
        kept["v_x"]["l"] = 4
        from_rows(columns, kept.tobytes()[:-7], 4, 10, "dataset 'd'")


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("z", Field(torch.complex64, ()), "complex64, for which there is no column"),
        ("z", Field(torch.float32, (0,)), "holds nothing"),
        ("z", Field(torch.float32, (), np.array([1, 2])), "unequal length"),
        (ROW, Field(torch.float32, ()), "cannot be the name of a column"),
        ("x" * 64, Field(torch.float32, ()), "cannot be the name of a column"),
    ],
)
def test_fields_without_a_column_are_refused(name: str, field: Field, message: str):
    with pytest.raises(InputError, match=message):
        columns_of({name: field})


@given(sizes=st.lists(st.integers(0, 7), max_size=8), size=st.integers(1, 9))
def test_regrouped_rows_are_the_same_rows(sizes: list[int], size: int):
    numbers = iter(range(100))
    parts = [{"k": torch.tensor([next(numbers) for _ in range(count)], dtype=torch.int64)} for count in sizes]
    regrouped = [part["k"].tolist() for part in chunk_format.regroup(parts, size)]
    assert [number for part in regrouped for number in part] == list(range(sum(sizes)))
    assert all(len(part) == size for part in regrouped[:-1])
    assert all(1 <= len(part) <= size for part in regrouped)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_checksum_is_xxh64(content: bytes, expected: int):
    assert xxh64(content) == expected
    assert chunk_format.checksum(content) % 2**64 == expected


@given(content=st.binary(min_size=1, max_size=100), place=st.integers(0, 799))
def test_a_flipped_bit_or_two_bytes_that_change_places_change_the_checksum(content: bytes, place: int):
    before = xxh64(content)
    flipped = bytearray(content)
    flipped[place // 8 % len(content)] ^= 1 << place % 8
    assert xxh64(flipped) != before
    if content[::-1] != content:
        assert xxh64(content[::-1]) != before


def test_a_chunk_has_about_a_megabyte_and_at_least_a_row():
    assert chunk_format.rows_per_chunk({"x": Field(torch.float32, (25_000,))}) == 10
    assert chunk_format.rows_per_chunk({"x": Field(torch.float32, (2**20,))}) == 1
