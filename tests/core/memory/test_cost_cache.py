"""Costs remembered from one run to the next; whatever happened to the file, never a wrong one."""

import warnings
from dataclasses import asdict
from pathlib import Path

import pytest

from brimful.core.base.directories import cache_directory
from brimful.core.base.errors import BrimfulWarning
from brimful.core.memory.cost import Cost
from brimful.core.memory.cost_cache import Key, recall, remember
from brimful.core.runs.files import write_sealed

KEY = Key("nets train hidden=8", "CPU x86_64", "float32", "2.13.0")
COST = Cost(1_234_567, 89.5, 0.2, "probe")


def saved(folder: Path) -> Path:
    remember(KEY, COST, folder)
    return folder / KEY.filename


def test_nothing_is_remembered_at_first(tmp_path: Path):
    assert recall(KEY, tmp_path) is None
    assert recall(KEY, tmp_path / "not" / "there") is None


def test_a_measured_cost_comes_back(tmp_path: Path):
    saved(tmp_path)
    found = recall(KEY, tmp_path)
    assert found == Cost(COST.fixed, COST.per_unit, COST.margin, "remembered")


@pytest.mark.parametrize("field", ["signature", "device", "dtype", "torch"])
def test_each_part_of_the_key_counts(tmp_path: Path, field: str):
    saved(tmp_path)
    values = {name: getattr(KEY, name) for name in ("signature", "device", "dtype", "torch")}
    assert recall(Key(**{**values, field: "other"}), tmp_path) is None


def test_the_user_says_where(tmp_path: Path, cache_dir: Path):
    assert cache_directory() == cache_dir
    assert cache_directory({"XDG_CACHE_HOME": "/x"}) == Path("/x/brimful")
    assert cache_directory({"BRIMFUL_CACHE_DIR": "/y", "XDG_CACHE_HOME": "/x"}) == Path("/y")
    assert cache_directory({}) == Path.home() / ".cache" / "brimful"
    remember(KEY, COST)
    assert [each.name for each in cache_dir.iterdir()] == [KEY.filename]


def never_misread(folder: Path) -> bool:
    """True when the cost came back whole; otherwise there was a warning and nothing else."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = recall(KEY, folder)
    if found is None:
        assert [each.category for each in caught] == [BrimfulWarning]
        assert "measured again" in str(caught[0].message)
        return False
    assert (found.fixed, found.per_unit, found.margin) == (COST.fixed, COST.per_unit, COST.margin)
    return True


def test_a_bit_flipped_at_any_offset_is_never_misread(tmp_path: Path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    survived = 0
    for offset in range(len(whole)):
        for mask in (0x01, 0x20, 0x80, 0xFF):
            path.write_bytes(whole[:offset] + bytes([whole[offset] ^ mask]) + whole[offset + 1 :])
            survived += never_misread(tmp_path)
    assert survived < len(whole)  # spaces and letter case in a number, at most


def test_a_file_cut_at_any_offset_is_never_misread(tmp_path: Path):
    path = saved(tmp_path)
    whole = path.read_bytes()
    for offset in range(len(whole)):
        path.write_bytes(whole[:offset])
        assert not never_misread(tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"key": None, "cost": {}},
        {"key": {"signature": "other"}, "cost": asdict(COST)},
        {"key": {name: getattr(KEY, name) for name in KEY.__slots__}, "cost": {"fixed": -1, "per_unit": 1}},
        {"key": {name: getattr(KEY, name) for name in KEY.__slots__}, "cost": {"fixed": "a", "per_unit": 1}},
        {"key": {name: getattr(KEY, name) for name in KEY.__slots__}, "cost": {"other": 1}},
        {"key": {name: getattr(KEY, name) for name in KEY.__slots__}, "cost": None},
    ],
    ids=range(7),
)
def test_a_whole_file_with_foreign_content_is_passed_over(tmp_path: Path, body: dict):
    write_sealed(tmp_path / KEY.filename, "brimful.cost/1", body)
    assert not never_misread(tmp_path)


def test_a_file_of_another_version_is_passed_over(tmp_path: Path):
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"brimful.cost/1", b"brimful.cost/2"))
    assert not never_misread(tmp_path)


def test_a_folder_in_its_place_is_passed_over(tmp_path: Path):
    (tmp_path / KEY.filename).mkdir()
    assert not never_misread(tmp_path)


def test_a_cache_that_cannot_be_looked_into_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(self: Path, **_: object):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refuse)
    assert not never_misread(tmp_path)


def test_a_cache_that_cannot_be_written_only_warns(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(BrimfulWarning, match="could not be remembered"):
        remember(KEY, COST, tmp_path / "file" / "cache")
    (tmp_path / KEY.filename).mkdir()
    with pytest.warns(BrimfulWarning, match="could not be remembered"):
        remember(KEY, COST, tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["file", KEY.filename])


def test_a_newer_cost_replaces_the_older(tmp_path: Path):
    saved(tmp_path)
    remember(KEY, Cost(1, 2), tmp_path)
    assert recall(KEY, tmp_path) == Cost(1, 2, source="remembered")


def test_a_cost_as_good_as_the_remembered_one_is_not_written(tmp_path: Path):
    path = saved(tmp_path)
    before = path.stat().st_ino  # a file that is written is a new one
    remember(KEY, Cost(COST.fixed * 1.01, COST.per_unit * 0.99, COST.margin, "probe"), tmp_path)
    assert path.stat().st_ino == before
    assert recall(KEY, tmp_path) == Cost(COST.fixed, COST.per_unit, COST.margin, "remembered")
    for other in (
        Cost(COST.fixed * 1.03, COST.per_unit, 0.2),
        Cost(COST.fixed * 1.03, COST.per_unit, 0.2, growing=True),
    ):
        remember(KEY, other, tmp_path)
        found = recall(KEY, tmp_path)
        assert found is not None and (found.fixed, found.growing) == (other.fixed, other.growing)
    path.write_bytes(b"damaged")
    remember(KEY, COST, tmp_path)
    assert never_misread(tmp_path)
