"""Files of tensors: what is read is what was written, and nothing else of the file."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from brimful.core.base.errors import CorruptError
from brimful.core.runs.tensor_files import TensorFile, save_tensors

TENSORS = {
    "weight": torch.arange(12.0).view(3, 4),
    "half": torch.arange(5.0).to(torch.bfloat16),
    "flags": torch.tensor([True, False]),
    "step": torch.tensor(7.0, dtype=torch.float64),
    "empty": torch.empty(0, 3),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_tensors(TENSORS, path := tmp_path / "some.safetensors")
    return path


def test_what_is_written_is_read_here_and_by_the_library(path: Path):
    stored, library = TensorFile(path), safetensors.torch.load_file(path)
    assert set(stored) == set(library) == set(TENSORS) and len(stored) == len(TENSORS)
    for name, tensor in TENSORS.items():
        for read in (stored[name], library[name]):
            assert read.dtype == tensor.dtype and read.shape == tensor.shape and torch.equal(read, tensor)


def test_every_tensor_has_memory_of_its_own(path: Path):
    tensor = TensorFile(path)["weight"]
    assert tensor.untyped_storage().nbytes() == 48  # a mapped file would be kept whole
    assert tensor.untyped_storage().data_ptr() != TensorFile(path)["weight"].untyped_storage().data_ptr()


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"[]", b"\x02" + b"\0" * 7 + b"{"])
def test_what_is_no_such_file_is_said(content: bytes, tmp_path: Path):
    (damaged := tmp_path / "damaged").write_bytes(content)
    with pytest.raises(CorruptError, match="damaged cannot be read"):
        TensorFile(damaged)


def test_a_file_cut_short_is_said(path: Path):
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CorruptError, match="cannot be read"):
        for name in (stored := TensorFile(path)):
            stored[name]
