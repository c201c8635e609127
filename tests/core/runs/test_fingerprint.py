"""A digest that is equal exactly when the data is."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import InputError
from brimful.core.runs import fingerprint

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
nested = st.recursive(plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))


def exact(value: object) -> object:
    """What must be equal for two values to be the same data: 1, 1.0 and True are not."""
    if isinstance(value, dict):
        return frozenset((exact(key), exact(part)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(exact(part) for part in value)
    return type(value).__name__, repr(value)


@given(nested, nested)
def test_equal_exactly_when_the_data_is(one, other):
    assert (fingerprint.of(one) == fingerprint.of(other)) == (exact(one) == exact(other))
    assert fingerprint.of(one) == fingerprint.of(one)


def test_the_order_of_a_dict_does_not_matter_nor_the_kind_of_its_keys():
    assert fingerprint.of({"a": 1, "b": 2}) == fingerprint.of({"b": 2, "a": 1})
    assert fingerprint.of({1: "x", "a": 2}) == fingerprint.of({"a": 2, 1: "x"})
    assert fingerprint.of({"a": 1}) != fingerprint.of({"a": 2})


def test_a_nesting_is_not_its_flattening():
    assert len({fingerprint.of(each) for each in (["a", "b"], ["ab"], [["a"], "b"], [["a", "b"]], "ab")}) == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_a_tensor_is_its_content_shape_and_type(dtype: torch.dtype):
    tensor = torch.arange(24).reshape(4, 6).to(dtype)
    same = fingerprint.of(tensor)
    assert fingerprint.of(tensor.clone()) == same
    assert fingerprint.of(tensor.T.contiguous().T) == same
    assert fingerprint.of(tensor.reshape(6, 4)) != same
    changed = tensor.clone()
    changed[3, 5] = 0
    assert fingerprint.of(changed) != same
    if dtype is not torch.float32:
        assert fingerprint.of(tensor.float() if dtype is not torch.complex64 else tensor.real) != same


def test_tensors_of_every_shape():
    shapes = [(), (0,), (1,), (0, 3), (3, 0), (1, 1)]
    assert len({fingerprint.of(torch.zeros(shape)) for shape in shapes}) == len(shapes)
    assert fingerprint.of(torch.zeros(3, requires_grad=True)) == fingerprint.of(torch.zeros(3))
    lazy = torch.tensor([1 + 2j]).conj()
    assert fingerprint.of(lazy) == fingerprint.of(torch.tensor([1 - 2j]))


def test_an_array_is_its_content_shape_and_type():
    array = np.arange(24.0).reshape(4, 6)
    same = fingerprint.of(array)
    assert fingerprint.of(np.asfortranarray(array)) == same
    assert fingerprint.of(array[::-1][::-1]) == same
    assert fingerprint.of(array.reshape(6, 4)) != same
    assert fingerprint.of(array.astype(np.float32)) != same
    assert fingerprint.of(array.astype(">f8")) != same
    assert fingerprint.of(array + (array == 23)) != same
    assert fingerprint.of(np.float64(3)) != fingerprint.of(np.float64(4))


def test_the_fields_of_a_structured_array_count():
    data = np.zeros(3, dtype=[("a", "i4"), ("b", "i4")])
    assert fingerprint.of(data) != fingerprint.of(data.view([("b", "i4"), ("a", "i4")]))


def test_large_data_is_hashed_in_pieces_without_losing_any(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fingerprint, "_BLOCK", 64)
    tensor = torch.arange(1000)
    prints = {fingerprint.of(tensor)}
    for place in (0, 7, 8, 500, 999):
        changed = tensor.clone()
        changed[place] = -1
        prints |= {fingerprint.of(changed), fingerprint.of(changed.numpy())}
    assert len(prints) == 11


def table() -> pa.Table:
    return pa.table({"a": pa.array([1, None, 3] * 50), "b": pa.array(["x", "yy", None] * 50)})


@pytest.mark.parametrize("piece", [200, 32 * 2**20])
def test_a_table_is_its_content_however_it_is_chunked(monkeypatch: pytest.MonkeyPatch, piece: int):
    monkeypatch.setattr(fingerprint, "_BLOCK", piece)
    whole = table()
    same = fingerprint.of(whole)
    chunked = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 100), whole.slice(107)])
    assert fingerprint.of(chunked) == same
    assert fingerprint.of(chunked.combine_chunks().to_batches()[0]) == same
    longer = pa.concat_tables([whole, whole])
    assert fingerprint.of(longer.slice(150)) == same
    assert fingerprint.of(whole.slice(0, 149)) != same
    masked = pa.array(np.array([1, 9, 3] * 50), mask=np.array([False, True, False] * 50))
    assert fingerprint.of(pa.table({"a": masked, "b": whole["b"]})) == same
    assert fingerprint.of(whole.rename_columns(["a", "c"])) != same
    assert fingerprint.of(pa.table({"a": whole["a"].combine_chunks().fill_null(0), "b": whole["b"]})) != same


def test_an_empty_table_has_a_fingerprint():
    assert fingerprint.of(table().slice(0, 0)) != fingerprint.of(table().slice(0, 1))


def test_a_file_is_its_content_not_its_name_or_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fingerprint, "_BLOCK", 10)
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"x" * 95)
    same = fingerprint.of(one)
    other.write_bytes(b"x" * 95)
    assert fingerprint.of(other) == same
    other.write_bytes(b"x" * 94 + b"y")
    assert fingerprint.of(other) != same
    assert fingerprint.of(str(one)) != same


def test_a_folder_is_its_files_and_their_names(tmp_path: Path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x").write_bytes(b"1")
    (tmp_path / "a" / "b" / "y").write_bytes(b"2")
    same = fingerprint.of(tmp_path / "a")
    (tmp_path / "a" / "_SUCCESS").touch()
    (tmp_path / "a" / ".crc").touch()
    assert fingerprint.of(tmp_path / "a") == same
    (tmp_path / "a" / "b" / "y").rename(tmp_path / "a" / "b" / "z")
    assert fingerprint.of(tmp_path / "a") != same


@pytest.mark.parametrize(
    "value", [object(), iter([1]), {1, 2}, np.array([object()]), [1, object()], {"a": iter("b")}], ids=lambda v: type(v)
)
def test_what_has_no_fingerprint_says_what_to_do(value: object):
    with pytest.raises(InputError, match="fingerprint="):
        fingerprint.of(value)


def test_a_path_that_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        fingerprint.of(tmp_path / "nothing")


@pytest.mark.gpu
def test_a_tensor_is_the_same_on_every_device():
    tensor = torch.randn(1000)
    assert fingerprint.of(tensor.cuda()) == fingerprint.of(tensor)
