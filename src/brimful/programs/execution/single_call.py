"""What an emitted module stands on: operations by name, defaults, and the log of failures of a call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ...core.base.errors import ConfigError
from ..language.operation import Operation, default_of
from ..language.types import constant_empty
from ..vocabulary.bound import begin, end
from ..vocabulary.choose import named
from .failures import category_of
from .sequential import unpacked

__all__ = ["Failures", "begin", "constant_empty", "default_of", "operations", "unpacked"]


def operations(vocabulary: str, names: Sequence[str]) -> dict[str, Operation]:
    """Operations of a vocabulary, and registered ones."""
    known = named(vocabulary)
    if missing := [name for name in names if name not in known]:
        raise ConfigError(
            f"this module calls {', '.join(missing)}, which {vocabulary} does not have; import the module that "
            "registers them with @brimful.programs.operation first"
        )
    return {name: known[name] for name in names}


class Failures:
    """The operations that failed in one call.

    Args:
        log_path: a file that gets one line of JSON per failure, the one that escapes from the call last, without the
            operation; None: nothing is written.
    """

    def __init__(self, log_path: str | Path | None, task_id: str) -> None:
        self._path, self._task_id = log_path, task_id
        self._lines: list[str] = []

    def default(self, node: int, operation: str, error: Exception, default: Any) -> Any:
        """Notes a failure, and gives the default."""
        if isinstance(error, MemoryError):
            raise error
        if self._path is not None:
            self._note(node, operation, error)
        return default

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Writes what failed, and what escapes."""
        end()
        if isinstance(error, Exception):
            self._note(None, None, error)
        if self._path is not None and self._lines:
            with Path(self._path).open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in self._lines))

    def _note(self, node: int | None, operation: str | None, error: Exception) -> None:
        line = {"task": self._task_id, "node": node, "operation": operation}
        self._lines.append(json.dumps(line | {"category": category_of(error).label, "message": str(error)}))
