"""Archives: nothing in one can be a link, lead out of its folder, or be larger than it says."""

import stat
import struct
import zipfile
from pathlib import Path

import pytest

from brimful.service.errors import Invalid
from brimful.service.security.uploads import unpack

LIMIT = 10**6


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def pack(path: Path, **files: bytes | str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def refused(path: Path, match: str) -> None:
    folder = path.with_name("unpacked")
    with pytest.raises(Invalid, match=match):
        unpack(path, "a.zip", folder, LIMIT)
    assert not folder.exists()


def test_plain_files_are_unpacked(tmp_path: Path):
    path = pack(tmp_path / "a.zip", **{"model/": "", "model/model.json": "{}", "model/sub/x.csv": "x\n1\n"})
    folder = tmp_path / "unpacked"
    assert unpack(path, "a.zip", folder, LIMIT) == 2 + 4
    assert (folder / "model" / "sub" / "x.csv").read_text() == "x\n1\n"


def test_a_symbolic_link_is_refused(tmp_path: Path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.csv", "x\n")
        archive.writestr(link("y.csv"), "/etc/passwd")
    refused(path, "link")


@pytest.mark.parametrize(
    "name",
    [
        "../x.csv",
        "a/../../x.csv",
        "/x.csv",
        "a\\x.csv",
        "C:\\x.csv",
        ".x.csv",
        "a/.git/x.csv",
        "x\n.csv",
        "d/" * 20 + "x.csv",
    ],
)
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str):
    refused(pack(tmp_path / "a.zip", **{name: "x\n"}), "no name for a file")


def test_kinds_that_are_not_taken_are_refused_inside_too(tmp_path: Path):
    refused(pack(tmp_path / "a.zip", **{"x.csv": "x\n", "weights.pkl": "x"}), "not taken")
    refused(pack(tmp_path / "a.zip", **{"inner.zip": "x"}), "not taken")
    refused(pack(tmp_path / "a.zip", **{"x.npy": "not an array"}), "header")


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path):
    path = pack(tmp_path / "a.zip", **{"x.csv": b"1\n" * 10**6})
    assert path.stat().st_size < 10**4
    refused(path, "more than")


def test_a_size_that_lies_is_refused(tmp_path: Path):
    path = pack(tmp_path / "a.zip", **{"x.csv": b"1\n" * 10**6})
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.index(mark) + place
        content[start : start + 4] = struct.pack("<I", 10)
    path.write_bytes(content)
    refused(path, "refused")


def test_the_same_name_twice_is_refused(tmp_path: Path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.csv", "1\n")
        archive.writestr("X.csv", "2\n")
    refused(path, "twice")


def test_a_directory_that_lies_is_refused(tmp_path: Path):
    path = pack(tmp_path / "a.zip", **{"x.csv": "1\n"})
    content = bytearray(path.read_bytes())
    end = content.index(b"PK\x05\x06")
    content[end + 10 : end + 12] = struct.pack("<H", 65535)
    path.write_bytes(content)
    refused(path, "more than 10000 files")
    path.write_bytes(bytes(content[:end]) + b"PK\x06\x07" + bytes(16) + path.read_bytes()[end:])
    refused(path, "more than 10000 files")


def test_what_is_no_archive_is_refused(tmp_path: Path):
    path = tmp_path / "a.zip"
    for content in (b"", b"PK", b"PK\x03\x04" + bytes(200), b"PK\x05\x06" + b"\xff" * 18):
        path.write_bytes(content)
        refused(path, "refused")
    refused(pack(path, **{"empty/": ""}), "no files")
