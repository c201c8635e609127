"""What can be done with the model that a finished job has stored: commands of its workload that read one."""

import json
from typing import Any
from urllib.parse import urlencode

from .....core.declare.config import MODEL
from ....jobs.job import Job
from ....jobs.state import JobState
from ...elements import link


def uses_of(job: Job, workloads: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(text, address) of the form for each such command, with the model filled in."""
    found = next((one["commands"] for one in workloads if one["workload"] == job.request.workload), [])
    commands = {one["command"]: one for one in found}
    stores = commands.get(job.request.command, {}).get("stores", False)
    if job.state is not JobState.FINISHED or not stores:
        return []
    uses = []
    for command, described in commands.items():
        for option, schema in described["schema"]["properties"].items():
            if schema.get("reads") == MODEL:
                given = json.dumps({f"config.{option}": f"job:{job.id}"})
                asked = {"workload": job.request.workload, "command": command, "given": given}
                uses.append((f"{command.capitalize()} with it", f"/new?{urlencode(asked)}"))
    return uses


def uses_view(job: Job, workloads: list[dict[str, Any]]) -> None:
    for text, address in uses_of(job, workloads):
        link(text, address, "button", aria_label=f"{text}: {job.request.name}")
