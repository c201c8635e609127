"""Files that are taken, and malicious ones that are not: the check runs and unpickles nothing, and trusts no header."""

import io
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.service.errors import Invalid
from brimful.service.security.uploads import KINDS, check_file

LIMIT = 10**6


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("it was unpickled",))


def npy(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def parquet(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def tensors(header: dict[str, Any] | bytes, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def check(folder: Path, name: str, content: bytes) -> None:
    path = folder / "sent"
    path.write_bytes(content)
    check_file(path, name, LIMIT)


GOOD = {
    "a.npy": npy(np.arange(6.0).reshape(2, 3)),
    "empty.npy": npy(np.zeros((0, 3), np.float32)),
    "a.npz": npz(x=np.arange(3), y=np.zeros((2, 2), bool)),
    "a.parquet": parquet(pa.table({"x": [1, 2], "s": ["a", "b"], "l": [[1.0], []]})),
    "a.safetensors": safetensors.torch.save({"w": torch.zeros(2, 3), "b": torch.ones(3, dtype=torch.bfloat16)}),
    "a.csv": "x,ä\n1,2\n".encode(),
    "a.json": b'{"x": [1, 2]}',
    "a.jsonl": b"{}\n{}\n",
    "a.py": b"import os\nos.abort()\n",
    "a.txt": b"",
    "UPPER.NPY": npy(np.arange(3)),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_files_of_every_kind_are_taken(tmp_path: Path, name: str):
    check(tmp_path, name, GOOD[name])


def test_every_kind_has_a_good_file():
    assert {Path(name).suffix.lower() for name in GOOD} == set(KINDS)


@pytest.mark.parametrize("name", ["a.pkl", "a.pt", "a.pth", "a.exe", "a.so", "a", "a.npy.sh", "a.html", "a.joblib"])
def test_other_kinds_are_refused(tmp_path: Path, name: str):
    with pytest.raises(Invalid, match="not taken"):
        check(tmp_path, name, b"")


_SHAPE = "{'descr': '<f8', 'fortran_order': False, 'shape': SHAPE, }"


def raw_npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


BAD_NPY = {
    "objects": npy(np.array([Bomb()], object), allow_pickle=True),
    "a pickle": pickle.dumps(Bomb()),
    "cut short": npy(np.arange(9))[:-1],
    "too long": npy(np.arange(9)) + b"x",
    "a shape beyond the file": raw_npy(_SHAPE.replace("SHAPE", "(9999999999, 9999999999)")),
    "a negative shape": raw_npy(_SHAPE.replace("SHAPE", "(-1,)")),
    "a shape that is code": raw_npy(_SHAPE.replace("SHAPE", "__import__('os').abort()")),
    "texts": npy(np.array(["a", "b"])),
    "records": npy(np.zeros(2, [("x", "<f8"), ("o", "<i4")])),
    "times": npy(np.zeros(2, "datetime64[s]")),
    "a header without an end": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{",
    "nested": raw_npy("(" * 100),
    "nothing": b"",
}


@pytest.mark.parametrize("kind", BAD_NPY)
def test_a_malicious_npy_is_refused(tmp_path: Path, kind: str):
    with pytest.raises(Invalid, match="refused"):
        check(tmp_path, "a.npy", BAD_NPY[kind])


def test_a_malicious_npz_is_refused(tmp_path: Path):
    bad = {
        "objects": npz(x=np.array([{}], object)),
        "bomb": npz(x=np.zeros(10**6)),  # of a few kB
        "no zip": b"PK\x03\x04" + b"x" * 100,
        "cut short": npz(x=np.arange(9))[:-30],
        "nothing": b"",
    }
    for content in bad.values():
        with pytest.raises(Invalid, match="refused"):
            check(tmp_path, "a.npz", content)
    assert len(bad["bomb"]) < 10**4


BAD_TENSORS = {
    "a header beyond the file": struct.pack("<Q", 2**63) + b"{}",
    "no header": b"\x02\0\0",
    "no object": tensors(b"[]", b""),
    "no JSON": tensors(b"{'x'", b""),
    "nested": tensors(b"[" * 10**5, b""),
    "beyond the file": tensors({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, b"x" * 8),
    "overlap": tensors(
        {
            "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
            "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
        },
        b"x" * 6,
    ),
    "a hole": tensors({"a": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}}, b"x" * 6),
    "hidden bytes": tensors({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, b"x" * 9),
    "a shape that lies": tensors({"a": {"dtype": "F64", "shape": [4], "data_offsets": [0, 4]}}, b"x" * 4),
    "backwards": tensors({"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 0]}}, b"x" * 4),
    "negative": tensors({"a": {"dtype": "U8", "shape": [-4], "data_offsets": [0, 4]}}, b"x" * 4),
    "true": tensors({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, b"x"),
    "an unknown type": tensors({"a": {"dtype": "PICKLE", "shape": [4], "data_offsets": [0, 4]}}, b"x" * 4),
    "twice": tensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{}}', b"x"),
}


@pytest.mark.parametrize("kind", BAD_TENSORS)
def test_a_malicious_safetensors_is_refused(tmp_path: Path, kind: str):
    with pytest.raises(Invalid, match="refused"):
        check(tmp_path, "a.safetensors", BAD_TENSORS[kind])


def test_a_malicious_parquet_is_refused(tmp_path: Path):
    good = GOOD["a.parquet"]
    length = int.from_bytes(good[-8:-4], "little")
    zeros = pa.table({"x": np.zeros(10**6)})
    bad = {
        "cut short": good[:-1],
        "a footer beyond the file": good[:-8] + struct.pack("<I", 2**32 - 1) + b"PAR1",
        "no footer": good[:-8] + struct.pack("<I", 0) + b"PAR1",
        "a footer of noise": good[: -8 - length] + b"\xff" * length + good[-8:],
        "encrypted": good[:-4] + b"PARE",
        "only its marks": b"PAR1" + b"\0" * 8 + b"PAR1",
        "nothing": b"",
        "columns beyond the file": good[:4] + good[-8 - length :],
        "bomb": parquet(zeros, use_dictionary=False, compression="zstd"),
    }
    for kind, content in bad.items():
        with pytest.raises(Invalid, match="refused"):
            check(tmp_path, "a.parquet", content)
            pytest.fail(kind)
    assert len(bad["bomb"]) < 10**4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"x\0y"),
        ("a.csv", b"\xff\xfe"),
        ("a.csv", "ä".encode()[:1]),
        ("a.py", b"\x7fELF\0\0"),
        ("a.json", b"{"),
        ("a.json", b"[" * 10**6),
        ("a.json", b"\xff"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, name: str, content: bytes):
    with pytest.raises(Invalid, match="refused"):
        check(tmp_path, name, content)


@given(st.sampled_from([name for name in GOOD if not name.endswith(("txt", "csv", "py", "jsonl"))]), st.data())
def test_damaged_files_are_taken_or_refused_and_never_crash(tmp_path: Path, name: str, data: st.DataObject):
    content = bytearray(GOOD[name])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        check(tmp_path, name, bytes(content))
    except Invalid as error:
        assert error.problems[0].path == "file"
