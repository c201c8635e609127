"""Checkpoints: all that a run needs to go on, saved and restored; on disk whole or absent.

    checkpoints/0000012/weights.safetensors    the model's weights, by the names that `load_state_dict` knows
    checkpoints/0000012/tensors.safetensors    optimizer state, moving average, curve
    checkpoints/0000012/state.json             everything else, and the tensors' checksums; sealed
    checkpoints/last, checkpoints/best         the numbers of two of them, for people and other programs

A checkpoint is written under another name and renamed when it is on disk, so that killing the writer at any instant
leaves the one before. It says itself which one is the best so far; the two small files are not read here, and do no
harm when one is torn. The last two are kept, and the best of each.
"""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from ...core.base.errors import CorruptError
from ...core.memory import devices
from ...core.runs.files import digest, read_sealed, storage_error, sync, write_atomic, write_sealed
from ...core.runs.log_state import LogState
from ...core.runs.tensor_files import TensorFile, save_tensors
from ...data.loading import Loader
from ..distributed.collectives import Group
from .optim import optimizers
from .optim.ema import MovingAverage
from .state import TrainState
from .step.precision import LossScale

_KIND = "brimful.checkpoint/3"
_WEIGHTS, _TENSORS, _STATE, _NEW = "weights.safetensors", "tensors.safetensors", "state.json", ".new"
_MODEL = "model/"  # what the names of weights begin with, in memory


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a checkpoint holds: tensors by name, which are read when they are asked for, and JSON values."""

    tensors: Mapping[str, Tensor]
    metadata: dict[str, Any]

    def under(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, without it."""
        return {name[len(prefix) :]: self.tensors[name] for name in self.tensors if name.startswith(prefix)}

    def weights(self, trainable: list[str]) -> dict[str, Tensor]:
        """The model's weights by name, with the moving average in place of those that were trained, where there is one;
        it has them in that order."""
        average = {trainable[int(index)]: value for index, value in self.under("ema/").items() if index.isdigit()}
        return self.under(_MODEL) | average


class CheckpointDir:
    """The checkpoints of one run.

    Attributes:
        run: the open run directory that they are in.
        identity: of the run; a checkpoint of another is skipped.
        before: what the log said of earlier parts of the run.
        best: the number of the best so far, of those that were read or saved here.
    """

    def __init__(self, run: Path, identity: str, before: LogState | None = None) -> None:
        self.run, self.identity, self._folder = run, identity, run / "checkpoints"
        self.before = before or LogState()
        self.best: int | None = None
        self._best_at: dict[int, int | None] = {}  # the best so far when a checkpoint was written

    def save(self, checkpoint: Checkpoint, is_best: bool = False) -> None:
        """Writes a checkpoint, and the number of the best into it; on disk when this returns."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for unfinished in self._folder.glob(f"*{_NEW}"):
                shutil.rmtree(unfinished)
            number = max(self._numbers(), default=0) + 1
            best = number if is_best else self.best
            self._write(number, checkpoint, best)
        except OSError as error:
            raise storage_error(self._folder, error) from error
        self.best = self._best_at[number] = best
        write_atomic(self._folder / "last", f"{number:07d}\n".encode())
        if is_best:
            write_atomic(self._folder / "best", f"{number:07d}\n".encode())
        self._prune()

    def last(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The newest that is whole; warns of damaged ones."""
        for number in sorted(self._numbers(), reverse=True):
            try:
                checkpoint = self.read(number)
            except CorruptError as error:
                warn(f"checkpoint {number} is skipped: {error}")
                continue
            self.best = self._best_at[number] = checkpoint.metadata["best"]
            return checkpoint
        return None

    def read(self, number: int) -> Checkpoint:
        """A checkpoint, if it is whole."""
        folder = self._folder / f"{number:07d}"
        body = read_sealed(folder / _STATE, _KIND)
        if body["identity"] != self.identity:
            raise CorruptError(f"{folder} is of another run")
        try:
            files = (_open(folder, name, body["digests"]) for name in (_WEIGHTS, _TENSORS))
            tensors = _StoredTensors(*files)
            checkpoint = Checkpoint(tensors, body["metadata"] | {"best": body["best"]})
            TrainState.from_json(checkpoint.metadata["state"], tensors["curve"])
        except (TypeError, KeyError, ValueError) as error:
            raise CorruptError(f"{folder / _STATE} holds no state of a run: {error!r}") from error
        return checkpoint

    def _write(self, number: int, checkpoint: Checkpoint, best: int | None) -> None:
        final = self._folder / f"{number:07d}"
        new = final.with_suffix(_NEW)
        new.mkdir()
        try:
            others = {name: value for name, value in checkpoint.tensors.items() if not name.startswith(_MODEL)}
            save_tensors(checkpoint.under(_MODEL), new / _WEIGHTS)
            save_tensors(others, new / _TENSORS)
            body = {
                "identity": self.identity,
                "digests": {name: digest(new / name) for name in (_WEIGHTS, _TENSORS)},
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
        kept = {*numbers[:2], *(self._best_at.get(number) for number in numbers[:2])}
        if any(number not in self._best_at for number in numbers[:2]):
            return  # one that was not read, so its best is not known
        for number in numbers:
            if number not in kept:
                with contextlib.suppress(OSError):
                    shutil.rmtree(self._folder / f"{number:07d}")


class _StoredTensors(Mapping[str, Tensor]):
    """All tensors of a stored checkpoint, under the names that they have in memory."""

    def __init__(self, weights: TensorFile, others: TensorFile) -> None:
        self._weights, self._others = weights, others

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[name[len(_MODEL) :]] if name.startswith(_MODEL) else self._others[name]

    def __iter__(self) -> Iterator[str]:
        yield from (f"{_MODEL}{name}" for name in self._weights)
        yield from self._others

    def __len__(self) -> int:
        return len(self._weights) + len(self._others)


def _open(folder: Path, name: str, digests: dict[str, str]) -> TensorFile:
    """The tensors of a file, if it is what was written."""
    try:
        if digest(folder / name) != digests[name]:
            raise CorruptError(f"{folder / name} is damaged: its checksum does not match")
    except OSError as error:
        raise CorruptError(f"{folder / name} cannot be read: {error}") from error
    return TensorFile(folder / name)


@dataclass(slots=True, eq=False)
class Checkpointer:
    """Saves and restores on the first rank; the others are given what it has.

    Attributes:
        model, optimizer, average, scale, loader: what changes, beside the `TrainState`.
        directory: where checkpoints are written; without one only the best weights are kept, in memory.
        group: the ranks.
        keep_best: whether the best weights are wanted at the end.
        warn: warns the user.
        best_weights: those that are kept in memory; None where there are none.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: MovingAverage
    scale: LossScale | None
    loader: Loader
    directory: CheckpointDir | None
    group: Group
    keep_best: bool
    warn: Callable[[str], None]
    best_weights: dict[str, Tensor] | None = None

    def resume(self) -> tuple[TrainState, dict[str, Any]] | None:
        """Restores the last checkpoint on all ranks: the state, and the metadata that it was saved with. Without one,
        all ranks have the first one's weights."""
        checkpoint = self.directory.last(self.warn) if self.directory is not None else None
        if self.group.ranks > 1:
            checkpoint = _broadcast(self.group, checkpoint)
            self._share_weights()
            self.average.restore({})
        if checkpoint is None:
            return None
        state = TrainState.from_json(checkpoint.metadata["state"], checkpoint.tensors["curve"])
        self._load(checkpoint.under(_MODEL))
        self.average.restore(checkpoint.under("ema/"))
        # Last, since these tensors stay: weights and average were copied, into the place of gradients to come.
        optimizers.restore(self.optimizer, checkpoint.under("optimizer/"), checkpoint.metadata["optimizer"])
        if self.scale is not None:
            self.scale.restore(checkpoint.under("loss_scale/"))
        if state.batch < len(self.loader):
            self.loader.restore(checkpoint.metadata["loader"])
        return state, checkpoint.metadata

    def save(self, state: TrainState, metadata: dict[str, Any], is_best: bool = False) -> None:
        """A checkpoint, where there is a directory; otherwise the weights, if they are the best."""
        if self.directory is not None:
            self.directory.save(self._capture(state, metadata), is_best)
        elif is_best and self.keep_best and self.group.is_first:
            with self.average.in_place():
                weights = {name: value.detach() for name, value in self.model.state_dict().items()}
                if self.best_weights is None:
                    devices.trim_heap()  # their place may be what the C library keeps of freed gradients
                    empty = {name: torch.empty_like(value, device="cpu") for name, value in weights.items()}
                    self.best_weights = empty
                for name, value in weights.items():  # in place: there is never a third copy
                    self.best_weights[name].copy_(value)

    def finish(self) -> bool:
        """Leaves the model with the weights that were asked for, on every rank; whether they are the best. Gradients
        are cleared first: the best weights, where they are read from a file, take no more memory than they did."""
        self.optimizer.zero_grad(set_to_none=True)
        if self.group.device.type == "cpu":
            devices.trim_heap()
        best = False
        if self.keep_best and self.best_weights is not None:
            self._load(self.best_weights)
            best = True
        else:
            if self.keep_best and self.directory is not None and self.directory.best is not None:
                best = self._load_best(self.directory, self.directory.best)
            self.average.apply()
        self._share_weights()
        return best

    def _capture(self, state: TrainState, metadata: dict[str, Any]) -> Checkpoint:
        moments, optimizer = optimizers.capture(self.optimizer)
        parts = {"model": self.model.state_dict(), "optimizer": moments, "ema": self.average.state()}
        parts["loss_scale"] = self.scale.state() if self.scale is not None else {}
        tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
        tensors["curve"] = state.curve_tensor()
        own = {"state": state.to_json(), "optimizer": optimizer, "loader": self.loader.state()}
        return Checkpoint(tensors, {**own, **metadata})

    def _load_best(self, directory: CheckpointDir, number: int) -> bool:
        try:
            checkpoint = directory.read(number)
        except CorruptError as error:
            self.warn(f"the best checkpoint cannot be read, so the model has its last weights: {error}")
            return False
        self._load(checkpoint.under(_MODEL))
        self.average.restore(checkpoint.under("ema/"))
        return True

    def _load(self, weights: Mapping[str, Tensor]) -> None:
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            raise CorruptError(f"the checkpoint does not fit the model: {error}") from error

    def _share_weights(self) -> None:
        """The first rank's weights, on all."""
        if self.group.ranks > 1:
            shared = _broadcast(self.group, Checkpoint(self.model.state_dict(), {}) if self.group.is_first else None)
            assert shared is not None
            self._load(shared.tensors)


def _broadcast(group: Group, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """The first rank's, on all."""
    tensors = b""
    if checkpoint is not None:
        plain = {name: value.detach().cpu().clone().contiguous() for name, value in checkpoint.tensors.items()}
        tensors = safetensors.torch.save(plain)
    tensors = group.broadcast_bytes(tensors)
    metadata = group.broadcast_bytes(json.dumps(checkpoint.metadata).encode() if checkpoint is not None else b"")
    if not tensors:
        return None
    return checkpoint or Checkpoint(safetensors.torch.load(tensors), json.loads(metadata))
