"""The workloads whose commands can be jobs, as JSON values."""

import contextlib
from collections.abc import Iterator
from typing import Any

from ..core.base.errors import ConfigError
from ..core.declare import registry
from .jobs.request import job_commands, job_schema


def list_workloads() -> Iterator[dict[str, Any]]:
    for name in registry.names():
        with contextlib.suppress(ConfigError):  # one that cannot be loaded offers nothing
            commands = [
                {
                    "command": command.name,
                    "help": command.help,
                    "schema": job_schema(command),
                    "plans": command.plan is not None,
                }
                for command in job_commands(name)
            ]
            if commands:
                yield {"workload": name, "help": registry.load(name).help, "commands": commands}
