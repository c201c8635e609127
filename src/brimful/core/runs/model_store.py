"""A trained model on disk: a folder that is whole or is not a model, and never runs code when it is read.

    model.json          kind, version, meta data, and a checksum of every other file; sealed, and written last
    NAME.safetensors    a group of tensors
    NAME.parquet        a table

A workload's `store.py` says which groups and tables there are. A folder of another kind, or of a later version, is
refused with a sentence. A file that a workload calls optional may be taken away before a model is passed on.
"""

import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from ..base.arguments import as_path
from ..base.errors import CorruptError, InputError
from ..base.version import __version__
from .files import digest, read_sealed, storage_error, write_atomic, write_sealed
from .parquet import DAMAGE, write_tables
from .tensor_files import save_tensors

MODEL = "model.json"
_SEAL = "brimful.model/1"
_OF_WORKLOAD = re.compile(r"brimful\.(\w+)\.")


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model that was read: its meta data, and its files by name, checked when they are asked for."""

    folder: Path
    meta: dict[str, Any]
    checksums: dict[str, str]

    def tensors(self, name: str, optional: bool = False) -> dict[str, Tensor] | None:
        """A group of tensors, on the CPU; None where an optional one is not there."""
        return self._read(f"{name}.safetensors", safetensors.torch.load_file, optional)

    def table(self, name: str, optional: bool = False) -> pa.Table | None:
        """A table; None where an optional one is not there."""
        return self._read(f"{name}.parquet", pq.read_table, optional)

    def damaged(self, error: object) -> CorruptError:
        """The error to raise where what was read makes no sense."""
        return CorruptError(f"{self.folder} is damaged or incomplete: {error}; train again into a new folder")

    def _read(self, name: str, read: Callable[[Path], Any], optional: bool) -> Any:
        path = self.folder / name
        if optional and not path.exists():
            return None
        try:
            if digest(path) == self.checksums.get(name):
                return read(path)
        except (SafetensorError, *DAMAGE) as error:
            raise self.damaged(error) from error
        raise self.damaged(f"the checksum of {name} does not match its content")


def save(
    folder: str | Path,
    *,
    kind: str,
    version: int,
    meta: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, Tensor]],
    tables: Mapping[str, pa.Table | Iterator[pa.Table]] | None = None,
) -> Path:
    """Writes a model, over one that was there.

    Args:
        kind: what it is, such as "gpcm".
        version: of what is written; a later one is refused by `load`.
        meta: JSON values.
        tensors, tables: each a file of its own, by name; a table whole, or in parts.
    """
    folder = as_path(folder, "give a folder to write to")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MODEL).unlink(missing_ok=True)  # without it the folder holds no model
    except OSError as error:
        raise storage_error(folder, error) from error
    writers = {f"{name}.safetensors": functools.partial(save_tensors, group) for name, group in tensors.items()}
    writers |= {f"{name}.parquet": functools.partial(_write_table, table) for name, table in (tables or {}).items()}
    checksums = {}
    for name, write in writers.items():
        write_atomic(folder / name, write)
        checksums[name] = digest(folder / name)
    body = {"kind": kind, "version": version, "brimful": __version__, "meta": dict(meta), "checksums": checksums}
    write_sealed(folder / MODEL, _SEAL, body)
    return folder


def _write_table(table: pa.Table | Iterator[pa.Table], path: Path) -> None:
    write_tables([table] if isinstance(table, pa.Table) else table, path)


def is_model(folder: str | Path) -> bool:
    """Whether the folder holds a model of any kind."""
    return os.path.lexists(Path(folder) / MODEL)


def workload_of(folder: Path) -> str | None:
    """The name of the workload whose result is stored in a folder: the kind of its model, or of another sealed file,
    such as "brimful.gpcm.folds/2". None where there is none.

    Raises:
        CorruptError: the model is damaged.
    """
    if is_model(folder):
        return str(_body(folder)["kind"])
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            if match := _OF_WORKLOAD.match(json.loads(path.read_bytes())["kind"]):
                return match[1]
    return None


def _body(folder: Path) -> dict[str, Any]:
    body = read_sealed(folder / MODEL, _SEAL)
    expected = {"kind": str, "version": int, "brimful": str, "meta": dict, "checksums": dict}
    if not isinstance(body, dict) or not all(isinstance(body.get(name), of) for name, of in expected.items()):
        raise CorruptError(f"{folder / MODEL} is damaged: it lacks what every model has")
    return body


def load(folder: str | Path, *, kind: str, version: int, command: str = "", what: str = "trained model") -> StoredModel:
    """Reads a model; its tensors and tables when they are asked for.

    Args:
        kind: what it must be.
        version: the latest that the caller can read.
        command: the command that makes such a folder, for the message where there is none.
        what: what it is, likewise.

    Raises:
        InputError: the folder holds no model, one of another kind, or one that a later version wrote.
        CorruptError: it is damaged.
    """
    folder = as_path(folder, f"give the folder of a {what}")
    if not is_model(folder):
        advice = f"; `{command} --out {folder}` makes one" if command else ""
        raise InputError(f"{folder} holds no {what} (check the path{advice})")
    body = _body(folder)
    if body["kind"] != kind:
        raise InputError(
            f"{folder} holds a model of {body['kind']}, not of {kind}; load it with brimful.{body['kind']}"
        )
    if body["version"] > version:
        raise InputError(
            f"{folder} was written by brimful {body['brimful']} in version {body['version']} of its format; this one "
            f"reads up to version {version}. Install that brimful, or a later one"
        )
    return StoredModel(folder, body["meta"], body["checksums"])
