"""Names of jobs and files, and paths that must stay in a folder."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.service.security.names import fault_of, file_name_fault, inside


@pytest.mark.parametrize("name", ["night run 3", "UHF - gemischt (ä)", "夜", "👨‍👩‍👧", "'; DROP TABLE jobs; --"])
def test_names_that_people_give_are_good(name: str):
    assert fault_of(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a" * 201, "201"),
        ("two\nlines", "U+000A"),
        ("\x1b[31mred", "U+001B"),
        ("nul\0", "U+0000"),
        ("bell\x07", "U+0007"),
        ("gpj.exe\u202e", "U+202E"),
        ("half\ud800", "U+D800"),
        ("line\u2028separator", "U+2028"),
    ],
)
def test_what_cannot_be_seen_is_refused_by_name(name: str, reason: str):
    assert reason in (fault_of(name) or "")


@pytest.mark.parametrize(
    "name", ["../x.npy", "a/b.npy", "a\\b.npy", "..", ".hidden", "-rf", "~x", " x.npy", "x.", "é" * 101]
)
def test_names_of_files_that_lead_elsewhere_are_refused(name: str):
    assert file_name_fault(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "job"
    (inner / "sub").mkdir(parents=True)
    (inner / "a.txt").write_text("a")
    (inner / "sub" / "b.txt").write_text("b")
    (inner / ".hidden").write_text("h")
    (tmp_path / "secret.txt").write_text("s")
    (inner / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inner / "near.txt").symlink_to(inner / "a.txt")
    (inner / "out").symlink_to(tmp_path)
    return inner


@pytest.mark.parametrize("name", ["a.txt", "sub/b.txt", "./a.txt"])
def test_a_file_inside_is_given(folder: Path, name: str):
    path = inside(folder, name)
    assert path is not None
    assert path.read_text() == path.stem


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "sub",
        "../secret.txt",
        "sub/../../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "link.txt",
        "near.txt",
        "out/secret.txt",
        "..\\secret.txt",
        "a.txt\0",
        ".hidden",
        "absent.txt",
        "a" * 5000,
    ],
)
def test_nothing_outside_is_given(folder: Path, name: str):
    assert inside(folder, name) is None


@given(st.lists(st.sampled_from(["..", ".", "sub", "a.txt", "out", "link.txt", "", "job", "/"]), max_size=6))
def test_whatever_the_path_it_stays_inside(folder: Path, parts: list[str]):
    path = inside(folder, "/".join(parts))
    assert path is None or path.resolve().is_relative_to(folder.resolve())
