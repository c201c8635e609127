"""What processes did in a run: batches, and where the time of operations went.

Every process writes a file of its own into a folder, after each batch; the parent adds them up at the end, also those
of workers that died.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch

from ..batched.machine import Usage


class BatchRun(NamedTuple):
    """A batch that was run: by which executor, the kind of device, how many samples, how long it took, and whether it
    was the first of its process there, which compiles or reads the kernels."""

    executor: str
    device: str
    samples: int
    seconds: float
    first: bool


@dataclass(slots=True)
class RunUsage:
    """What one process did, or several.

    Attributes:
        operations: by name of the operation, in the batched executor.
        batches: in their order.
        began: by process, when its first batch began, in seconds since 1970.
    """

    operations: Mapping[str, Usage] = field(default_factory=dict)
    batches: list[BatchRun] = field(default_factory=list)
    began: list[float] = field(default_factory=list)

    def ran(self, executor: str, device: torch.device, samples: int, seconds: float) -> None:
        """Notes a batch."""
        where = device.type if executor == "batched" else "cpu"
        first = not any((batch.executor, batch.device) == (executor, where) for batch in self.batches)
        if not self.began:
            self.began.append(time.time() - seconds)
        self.batches.append(BatchRun(executor, where, samples, seconds, first))

    def samples(self, executor: str) -> int:
        """How many samples an executor ran."""
        return sum(batch.samples for batch in self.batches if batch.executor == executor)

    @property
    def sequential_share(self) -> float:
        """The share of the time of batched operations in which rows ran one by one; 0 where there was no batch."""
        whole = sum(used.seconds for used in self.operations.values())
        return sum(used.sequential_seconds for used in self.operations.values()) / whole if whole else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        operations = {name: asdict(used) for name, used in self.operations.items()}
        return {"operations": operations, "batches": self.batches, "began": self.began}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        operations = {name: Usage(**numbers) for name, numbers in body["operations"].items()}
        return cls(operations, [BatchRun(*batch) for batch in body["batches"]], list(body["began"]))

    def write(self, folder: Path) -> None:
        """Writes what this process did so far."""
        path = folder / f"{os.getpid()}.json"
        with contextlib.suppress(OSError):  # it is for information only
            temporary = path.with_suffix(".part")
            temporary.write_text(json.dumps(self.to_dict()))
            temporary.replace(path)


def read_usage(folder: Path) -> RunUsage:
    """What all processes of a run did."""
    operations: dict[str, Usage] = {}
    batches, began = list[BatchRun](), list[float]()
    for file in sorted(folder.glob("*.json")):
        of = RunUsage.from_dict(json.loads(file.read_text()))
        batches += of.batches
        began += of.began
        for name, used in of.operations.items():
            operations.setdefault(name, Usage()).add(used)
    return RunUsage(operations, batches, began)
