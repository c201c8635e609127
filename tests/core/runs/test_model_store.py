"""Models on disk: read back as they were written, refused where they are of another kind, damaged or unfinished."""

from pathlib import Path

import pyarrow as pa
import pytest
import torch

from brimful.core.base.errors import CorruptError, InputError, StorageError
from brimful.core.runs import model_store
from brimful.core.runs.model_store import MODEL, load, save

WEIGHTS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3)}
TABLE = pa.table({"item": [1, 2], "name": ["x", "y"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tensors = {"weights": WEIGHTS, "extra": {"c": torch.ones(2)}}
    return save(tmp_path / "model", kind="made", version=2, meta={"d": 3}, tensors=tensors, tables={"items": TABLE})


def test_what_was_saved_is_loaded(folder: Path):
    stored = load(folder, kind="made", version=2)
    weights = stored.tensors("weights")
    assert stored.meta == {"d": 3} and weights is not None
    assert all(torch.equal(weights[name], WEIGHTS[name]) for name in WEIGHTS)
    assert stored.table("items") == TABLE


def test_a_model_over_a_model_leaves_nothing_of_the_old_one(folder: Path):
    save(folder, kind="made", version=2, meta={"d": 4}, tensors={"weights": {"a": torch.zeros(1)}})
    stored = load(folder, kind="made", version=2)
    assert stored.meta == {"d": 4} and set(stored.tensors("weights") or {}) == {"a"}


def test_another_kind_and_a_later_version_are_refused(folder: Path):
    with pytest.raises(InputError, match="holds a model of made, not of other"):
        load(folder, kind="other", version=2)
    with pytest.raises(InputError, match="in version 2 of its format; this one reads up to version 1"):
        load(folder, kind="made", version=1)
    assert load(folder, kind="made", version=3).meta == {"d": 3}


def test_a_folder_without_a_model_says_what_makes_one(tmp_path: Path):
    with pytest.raises(InputError, match=r"holds no trained model \(check the path; `brimful made train --out"):
        load(tmp_path, kind="made", version=1, command="brimful made train")


def test_an_optional_file_may_be_taken_away_and_no_other(folder: Path):
    (folder / "extra.safetensors").unlink()
    (folder / "items.parquet").unlink()
    stored = load(folder, kind="made", version=2)
    assert stored.tensors("extra", optional=True) is None and stored.table("items", optional=True) is None
    with pytest.raises(CorruptError, match="damaged or incomplete"):
        stored.tensors("extra")


@pytest.mark.parametrize("name", ["weights.safetensors", "items.parquet", MODEL])
def test_a_flipped_byte_is_noticed(folder: Path, name: str):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(CorruptError):
        stored = load(folder, kind="made", version=2)
        stored.tensors("weights")
        stored.table("items")


def test_a_save_that_fails_leaves_no_model(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_store, "save_tensors", full)
    with pytest.raises(StorageError, match="the disk is full"):
        save(folder, kind="made", version=2, meta={}, tensors={"weights": WEIGHTS})
    assert not model_store.is_model(folder)
