"""What the server knows of the workloads: by processes that have them imported, so that it imports none itself.

One process is kept for what takes milliseconds. A plan may use a device and take long, so it gets a process of its own,
which is forked with all imports done and killed where it takes too long.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...core.base.errors import ConfigError, WorkerError
from ..errors import Unavailable
from ..jobs.description import CommandDescription
from ..jobs.job import JobRequest, Webhook
from .processes import Spawner
from .rpc_process import CallTimeout, ProcessDied, RpcProcess

_PATIENCE, _PLAN_PATIENCE = 100.0, 300.0
_PLANS = 2
"""Plans at a time; more wait."""

_CPU = {"CUDA_VISIBLE_DEVICES": ""}


class Workloads:
    """Those that are registered.

    Args:
        spawner: starts the processes.
        url: of the database, for those that look something up there.
    """

    def __init__(self, spawner: Spawner, url: Callable[[], str]) -> None:
        self._spawner, self._url = spawner, url
        self._kept: RpcProcess | None = None
        self._lock, self._plans = threading.Lock(), threading.BoundedSemaphore(_PLANS)
        self._described: dict[str, dict[str, Any]] = {}

    def describe(self) -> list[dict[str, Any]]:
        """{"workload", "help", "commands"} of each; see `CommandDescription` for a command."""
        names: list[str] = self._call("names")
        if missing := [name for name in names if name not in self._described]:
            process = self._start(_CPU)  # forked anew, it has more of them imported than the one that is kept
            try:
                described = {name: process.call("describe", {"workload": name}, _PATIENCE) for name in missing}
            finally:
                process.close()
            self._described |= described
        return [self._described[name] for name in names if self._described[name]["commands"]]

    def shown(self) -> list[dict[str, Any]]:
        """The same, with what clients are told of a command."""
        names = ("command", "help", "schema", "plans", "stores")
        return [
            {**one, "commands": [{name: command[name] for name in names} for command in one["commands"]]}
            for one in self.describe()
        ]

    def command(self, workload: str, command: str) -> CommandDescription:
        """Raises:
        ConfigError: there is no such command; what registered it may have been uninstalled.
        """
        for one in self._description(workload)["commands"]:
            if one["command"] == command:
                return CommandDescription.from_dict(one)
        raise ConfigError(f"{workload} has no command {command!r} that can be a job")

    def _description(self, workload: str) -> dict[str, Any]:
        if workload not in self._described:
            self._described[workload] = self._call("describe", workload=workload)
        return self._described[workload]

    def parse(self, values: Mapping[str, Any]) -> JobRequest:
        """A request, checked by the declarations.

        Raises:
            Invalid: with all wrong fields.
        """
        fields = self._call("parse", values=values)
        webhook = None if fields["webhook"] is None else Webhook(**fields["webhook"])
        return JobRequest(**{**fields, "webhook": webhook})

    def check(self, request: JobRequest, config: Mapping[str, Any]) -> str:
        """Asks a command what is wrong with resolved options; the device that they name."""
        return self._call("check", workload=request.workload, command=request.command, config=config, url=self._url())

    def plan(
        self, request: JobRequest, config: Mapping[str, Any], environment: Mapping[str, str], **more: Any
    ) -> dict[str, Any]:
        """{"plan", "text", "device_bytes"} of a request.

        Args:
            environment: variables that show it the devices it is for.
            more: `device`, `most` and `budget`, see `child.plan`.

        Raises:
            ConfigError: it cannot be planned; the message says why.
        """
        named = {"workload": request.workload, "command": request.command, "config": dict(config)}
        with self._plans:
            process = self._start(environment)
            try:
                return process.call("plan", {**named, **more}, _PLAN_PATIENCE)
            except CallTimeout as error:
                message = f"planning took longer than {_PLAN_PATIENCE:.0f} seconds; name a budget instead"
                raise ConfigError(message) from error
            except WorkerError as error:
                message = f"it cannot be planned: {error}. Name a budget, and see what its run says"
                raise ConfigError(message) from error
            finally:
                process.close()

    def datasets(self) -> list[dict[str, Any]]:
        return self._call("list_datasets", url=self._url())

    def dataset(self, name: str) -> dict[str, Any]:
        return self._call("show_dataset", url=self._url(), name=name)

    def write_dataset(self, name: str, path: Path) -> None:
        """Writes the rows of a dataset to a file.

        Raises:
            ConfigError: it has a field that is no column of a table.
        """
        process = self._start(_CPU)
        try:
            process.call("write_dataset", {"url": self._url(), "name": name, "path": str(path)}, _PLAN_PATIENCE)
        except CallTimeout as error:
            message = f"writing the rows of dataset {name!r} took longer than {_PLAN_PATIENCE:.0f} seconds; give a file"
            raise ConfigError(message) from error
        except WorkerError as error:
            raise ConfigError(f"the rows of dataset {name!r} cannot be written to a file: {error}") from error
        finally:
            process.close()

    def delete_dataset(self, name: str) -> None:
        self._call("delete_dataset", url=self._url(), name=name)

    def close(self) -> None:
        """Ends the process that is kept, also in the middle of a call."""
        if (kept := self._kept) is not None:
            kept.close()

    def _start(self, environment: Mapping[str, str]) -> RpcProcess:
        return RpcProcess(self._spawner, {"BRIMFUL_DATABASE_URL": self._url(), **environment})

    def _call(self, method: str, **arguments: Any) -> Any:
        with self._lock:
            try:
                return self._call_kept(method, arguments)
            except ProcessDied:  # perhaps with the fork server, or for want of memory
                return self._call_kept(method, arguments)
            except CallTimeout as error:
                raise Unavailable(f"{error}; try again later") from error

    def _call_kept(self, method: str, arguments: dict[str, Any]) -> Any:
        if self._kept is None:
            self._kept = self._start(_CPU)
        try:
            return self._kept.call(method, arguments, _PATIENCE)
        except (CallTimeout, ProcessDied):
            self._kept = None
            raise
