"""Calls to a process that has the workloads imported; see `child.rpc`."""

import json
from collections.abc import Mapping
from typing import Any

from ...core.base.errors import BrimfulError, ConfigError, WorkerError
from ..errors import Conflict, FieldProblem, Invalid, NotFound, Unavailable
from .processes import Spawner

_ERRORS: dict[str, type[BrimfulError]] = {
    "NotFound": NotFound,
    "Conflict": Conflict,
    "Unavailable": Unavailable,
    "StorageError": Unavailable,
    "unexpected": WorkerError,
}


class CallTimeout(WorkerError):
    """There was no answer in time."""


class ProcessDied(WorkerError):
    """There will be no answer."""


class RpcProcess:
    """One such process, which answers one call at a time. It is killed where it does not answer in time."""

    def __init__(self, spawner: Spawner, environment: Mapping[str, str]) -> None:
        self._child, self._connection = spawner.connect(environment)
        self._lines = self._connection.makefile("rb")

    def call(self, method: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        """What a method gives.

        Raises:
            CallTimeout: there was no answer within that time.
            ProcessDied: it has died.
            WorkerError: something unexpected; its message is in the server's log.
        """
        message = json.dumps({"method": method, "arguments": dict(arguments)}, default=str).encode() + b"\n"
        self._connection.settimeout(seconds)
        try:
            self._connection.sendall(message)
            line = self._lines.readline()
        except TimeoutError as error:
            self.close()
            raise CallTimeout(f"there was no answer to {method!r} within {seconds:.0f} seconds") from error
        except OSError:
            line = b""
        if not line:
            self.close()
            raise ProcessDied(f"the process that was to answer {method!r} has died; see the server's log")
        return _result(json.loads(line))

    def close(self) -> None:
        self._child.kill()
        self._lines.close()
        self._connection.close()


def _result(answer: dict[str, Any]) -> Any:
    if "error" not in answer:
        return answer["result"]
    if answer["error"] == "Invalid":
        raise Invalid(*(FieldProblem(**problem) for problem in answer["problems"]))
    error = _ERRORS.get(answer["error"], ConfigError)(answer["message"])
    error.option = answer.get("option")
    raise error
