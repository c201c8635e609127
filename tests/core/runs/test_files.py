"""Files that are whole or absent."""

import errno
import json
import os
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.core.base.errors import CorruptError, InputError, StorageError
from brimful.core.runs import files
from brimful.core.runs.files import read_sealed, write_atomic, write_sealed
from brimful.core.runs.tensor_files import save_tensors

FAULTS = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO]


def failing(code: int):
    def fail(*_: object, **__: object):
        raise OSError(code, os.strerror(code))

    return fail


def test_bytes_land_whole(tmp_path: Path):
    write_atomic(tmp_path / "a", b"old")
    write_atomic(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_function_writes_to_a_temporary_name(tmp_path: Path):
    seen: list[Path] = []

    def content(path: Path) -> None:
        seen.append(path)
        path.write_bytes(b"made")
        assert not (tmp_path / "a").exists()

    write_atomic(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == b"made"
    assert seen[0].parent == tmp_path
    assert files.is_temporary(seen[0])
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_only_names_this_module_gives_are_temporary():
    assert files.is_temporary(Path("shard-0.parquet.0123abcd.part"))
    for name in ("movie.part", "a.part", "x.0123abcd.part.bak", "x.0123ABCD.part", "x.0123abcd"):
        assert not files.is_temporary(Path(name))


@pytest.mark.parametrize("code", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("stage", ["write", "sync", "rename", "function"])
def test_a_refused_write_keeps_the_old_file_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, stage: str
):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def half(where: Path, data: bytes = b"") -> None:
        with where.open("wb") as file:
            file.write(b"ne")
        raise OSError(code, os.strerror(code))

    content = half if stage == "function" else b"new"
    with monkeypatch.context() as patch:
        if stage == "write":
            patch.setattr(Path, "write_bytes", half)
        if stage == "sync":
            patch.setattr(os, "fsync", failing(code))
        if stage == "rename":
            patch.setattr(Path, "rename", failing(code))
        with pytest.raises(StorageError) as caught:
            write_atomic(path, content)
    assert str(path) in str(caught.value)
    expected = {errno.ENOSPC: "disk is full", errno.EDQUOT: "disk is full", errno.EIO: os.strerror(errno.EIO)}
    assert expected.get(code, "not allowed") in str(caught.value)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_function_that_fails_otherwise_passes_its_error_and_leaves_nothing_behind(tmp_path: Path):
    def content(path: Path) -> None:
        path.write_bytes(b"half")
        raise KeyError("column")

    with pytest.raises(KeyError):
        write_atomic(tmp_path / "a", content)
    assert list(tmp_path.iterdir()) == []


def test_no_folder_is_a_storage_error(tmp_path: Path):
    with pytest.raises(StorageError, match="No such file"):
        write_atomic(tmp_path / "not" / "there", b"")


values = st.none() | st.integers() | st.floats(allow_nan=False) | st.text()


@settings(max_examples=30)
@given(st.dictionaries(st.text(), values | st.lists(values)))
def test_a_sealed_body_comes_back(tmp_path: Path, body: dict):
    write_sealed(tmp_path / "a", "kind/1", body)
    assert read_sealed(tmp_path / "a", "kind/1") == body


def test_another_kind_is_refused(tmp_path: Path):
    write_sealed(tmp_path / "a", "kind/1", {"x": 1})
    with pytest.raises(CorruptError, match=r"not kind/2"):
        read_sealed(tmp_path / "a", "kind/2")


def test_an_edited_body_is_refused(tmp_path: Path):
    write_sealed(tmp_path / "a", "kind/1", {"x": 1})
    outer = json.loads((tmp_path / "a").read_text())
    outer["body"]["x"] = 2
    (tmp_path / "a").write_text(json.dumps(outer))
    with pytest.raises(CorruptError, match="checksum"):
        read_sealed(tmp_path / "a", "kind/1")


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"3", b'"kind"', b"{}", b'{"kind": "kind/1"}', b"\xff", b"[" * 100_000, b"\x00"]
)
def test_what_is_no_sealed_file_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CorruptError, match=str(tmp_path / "a")):
        read_sealed(tmp_path / "a", "kind/1")


def test_an_absent_sealed_file_is_refused(tmp_path: Path):
    with pytest.raises(CorruptError, match="cannot be read"):
        read_sealed(tmp_path / "a", "kind/1")


def test_tensors_are_written_as_the_library_reads_them(tmp_path: Path):
    shared = torch.arange(6.0)
    tensors = {
        "plain": torch.randn(3, 4),
        "double": torch.randn(2, dtype=torch.float64),
        "half": torch.randn(5).to(torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "number": torch.tensor(7),
        "empty": torch.zeros(0, 3),
        "turned": torch.randn(3, 4).T,
        "one": shared[:3],
        "other": shared[:3],
    }
    save_tensors(tensors, tmp_path / "t.safetensors")
    read = safetensors.torch.load_file(tmp_path / "t.safetensors")
    assert read.keys() == tensors.keys()
    assert all(read[name].dtype == value.dtype and torch.equal(read[name], value) for name, value in tensors.items())
    with pytest.raises(InputError, match="complex128, which cannot be stored"):
        save_tensors({"z": torch.zeros(2, dtype=torch.complex128)}, tmp_path / "z.safetensors")
