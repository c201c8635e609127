"""The directory of a job: what the server and the job's process leave there for each other.

job.json        what to run, and inside what lease; written by the server before it starts the process
run/            the run directory: results, shards, checkpoints, report
events.jsonl    what happened, appended by the process
metrics.jsonl   numbers by name and step, appended before the checkpoint that holds them
log.txt         what the process printed
result.json     how it ended
lock            held by the process: a second one waits until the first has gone
"""

import json
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Self

from ...core.base.errors import CorruptError
from ...core.runs.files import read_sealed, write_sealed

EVENTS, METRICS, LOG, RUN = "events.jsonl", "metrics.jsonl", "log.txt", "run"
_JOB, _RESULT = "job.json", "result.json"
_JOB_KIND, _RESULT_KIND = "brimful.job/1", "brimful.job-result/1"


class ExitCode(IntEnum):
    """How the process of a job ends, where nothing kills it."""

    FINISHED = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """What to run.

    Attributes:
        config: the options, paths resolved.
        device: for the option of that name; the lease's devices as the process sees them.
        budget: bytes of each device, for the option of that name; None leaves it as it is.
        cores: threads that it may use.
    """

    id: str
    workload: str
    command: str
    config: dict[str, Any] = field(default_factory=dict)
    device: str | None = None
    budget: int | None = None
    cores: int = 1

    def write(self, folder: Path) -> None:
        write_sealed(folder / _JOB, _JOB_KIND, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self:
        return cls(**read_sealed(folder / _JOB, _JOB_KIND))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """How it ended.

    Attributes:
        state: "finished", "failed" or "stopped".
        summary: of a command that has finished, in JSON values.
        message: what went wrong, in a sentence.
        error: the name of the exception.
    """

    state: str
    summary: dict[str, Any] | None = None
    message: str = ""
    error: str = ""

    def write(self, folder: Path) -> None:
        write_sealed(folder / _RESULT, _RESULT_KIND, json.loads(json.dumps(asdict(self), default=str)))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """What the process left; None where it left nothing that is whole."""
        try:
            return cls(**read_sealed(folder / _RESULT, _RESULT_KIND))
        except (CorruptError, TypeError):
            return None

    @staticmethod
    def remove(folder: Path) -> None:
        (folder / _RESULT).unlink(missing_ok=True)
