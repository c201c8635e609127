"""The checkpoint directory: checkpoints that are whole or absent, each with all that a run needs to go on.

    checkpoints/0000012/tensors.safetensors    weights, optimizer state, moving average, curve
    checkpoints/0000012/state.json             everything else, and the tensors' checksum; sealed
    checkpoints/last, checkpoints/best         the numbers of two of them, for people and other programs

A checkpoint is written under another name and renamed when it is on disk, so that killing the writer at any instant
leaves the one before. It says itself which one is the best so far; the two small files are not read here, and do no
harm when one is torn. The last two are kept, and the best of each.
"""

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from ...core.base.errors import CorruptError
from ...core.runs.files import read_sealed, storage_error, sync, write_atomic, write_sealed
from ...core.runs.tensor_file import digest, save_tensors

_KIND = "brimful.checkpoint/2"
_TENSORS, _STATE, _NEW = "tensors.safetensors", "state.json", ".new"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a checkpoint holds: tensors by name, and JSON values."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, without it."""
        return {name[len(prefix) :]: value for name, value in self.tensors.items() if name.startswith(prefix)}


class CheckpointDir:
    """The checkpoints of one run.

    Args:
        folder: where they are.
        identity: of the run; a checkpoint of another is skipped.
        warn: warns of a damaged one.
    """

    def __init__(self, folder: Path, identity: str, warn: Callable[[str], None]) -> None:
        self._folder, self._identity, self._warn = folder, identity, warn
        self._best: dict[int, int | None] = {}

    def save(self, checkpoint: Checkpoint, best: int | None = None, is_best: bool = False) -> int:
        """Writes a checkpoint, and its number into it; on disk when this returns.

        Args:
            best: the number of the best so far.
            is_best: whether it is this one.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for unfinished in self._folder.glob(f"*{_NEW}"):
                shutil.rmtree(unfinished)
            number = max(self._numbers(), default=0) + 1
            best = number if is_best else best
            self._write(number, checkpoint, best)
        except OSError as error:
            raise storage_error(self._folder, error) from error
        self._best[number] = best
        write_atomic(self._folder / "last", f"{number:07d}\n".encode())
        if is_best:
            write_atomic(self._folder / "best", f"{number:07d}\n".encode())
        self._prune()
        return number

    def last(self) -> Checkpoint | None:
        """The newest that is whole; `metadata["best"]` is the number of the best."""
        for number in sorted(self._numbers(), reverse=True):
            try:
                checkpoint = self.read(number)
            except CorruptError as error:
                self._warn(f"checkpoint {number} is skipped: {error}")
                continue
            self._best[number] = checkpoint.metadata["best"]
            return checkpoint
        return None

    def read(self, number: int) -> Checkpoint:
        """A checkpoint, if it is whole."""
        folder = self._folder / f"{number:07d}"
        body = read_sealed(folder / _STATE, _KIND)
        if body["identity"] != self._identity:
            raise CorruptError(f"{folder} is of another run")
        try:
            if digest(folder / _TENSORS) != body["digest"]:
                raise CorruptError(f"{folder / _TENSORS} is damaged: its checksum does not match")
            tensors = safetensors.torch.load_file(folder / _TENSORS)
        except (OSError, SafetensorError) as error:
            raise CorruptError(f"{folder / _TENSORS} cannot be read: {error}") from error
        return Checkpoint(tensors, body["metadata"] | {"best": body["best"], "number": number})

    def _write(self, number: int, checkpoint: Checkpoint, best: int | None) -> None:
        final = self._folder / f"{number:07d}"
        new = final.with_suffix(_NEW)
        new.mkdir()
        try:
            save_tensors(checkpoint.tensors, new / _TENSORS)
            body = {
                "identity": self._identity,
                "digest": digest(new / _TENSORS),
                "metadata": checkpoint.metadata,
                "best": best,
            }
            write_sealed(new / _STATE, _KIND, body)
            new.rename(final)
            sync(self._folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)  # the disk may be full
            raise

    def _numbers(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return [int(path.name) for path in self._folder.iterdir() if path.is_dir() and path.name.isdigit()]

    def _prune(self) -> None:
        numbers = sorted(self._numbers(), reverse=True)
        kept = {*numbers[:2], *(self._best.get(number) for number in numbers[:2])}
        if any(number not in self._best for number in numbers[:2]):
            return  # one that was not read, so its best is not known
        for number in numbers:
            if number not in kept:
                with contextlib.suppress(OSError):
                    shutil.rmtree(self._folder / f"{number:07d}")
