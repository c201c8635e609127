"""The workloads whose commands can be jobs, as JSON values."""

import contextlib
from typing import Any

from ...core.base.errors import ConfigError
from ...core.declare import registry
from ..jobs.request import describe, job_commands


def describe_workload(workload: str) -> dict[str, Any]:
    """{"workload", "help", "commands"}; see `CommandDescription` for a command. One that cannot be loaded offers
    nothing."""
    help, commands = "", []
    with contextlib.suppress(ConfigError):
        help = registry.load(workload).help
        commands = [describe(workload, command).to_dict() for command in job_commands(workload)]
    return {"workload": workload, "help": help, "commands": commands}
