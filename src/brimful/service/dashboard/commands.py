"""A job as a command line, as curl and as Python, to run it again elsewhere."""

import json
import shlex
from typing import Any

from ...core.declare.config import NONE
from ..jobs.job import Job


def changed_options(config: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The options of a config that differ from their defaults."""
    properties, none = schema.get("properties", {}), object()
    return {
        name: value
        for name, value in config.items()
        if name in properties and value != properties[name].get("default", none)
    }


def request_of(job: Job, options: dict[str, Any]) -> dict[str, Any]:
    """The request that makes such a job; a webhook is left out, because its secret is never shown."""
    asked = job.request
    values = {"job_name": asked.name, "workload": asked.workload, "command": asked.command, "config": options}
    more = {"priority": asked.priority or None, "budget": asked.budget, "cores": asked.cores}
    if "budget" in options:
        more.pop("budget")
    return values | {name: value for name, value in more.items() if value is not None}


def as_command_line(job: Job, options: dict[str, Any], url: str, schema: dict[str, Any] | None = None) -> str:
    words = ["brimful", "jobs", "submit", "--url", url, "--job-name", job.request.name]
    if job.request.priority:
        words += ["--priority", str(job.request.priority)]
    if job.request.budget and "budget" not in options:
        words += ["--lease", job.request.budget]
    if job.request.cores is not None:
        words += ["--cores", str(job.request.cores)]
    words += [job.request.workload, job.request.command]
    properties = (schema or {}).get("properties", {})
    for name, value in sorted(options.items(), key=lambda option: not properties.get(option[0], {}).get("positional")):
        flag = f"--{name.replace('_', '-')}"
        if properties.get(name, {}).get("positional"):
            words.append(str(value))
        elif isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif value is not None or name in properties:
            words += [flag, NONE if value is None else str(value)]
    return shlex.join(words)


def as_curl(job: Job, options: dict[str, Any], url: str, token: bool = False) -> str:
    """With `token`, it has the one of $BRIMFUL_TOKEN."""
    head = '  -H "Authorization: Bearer $BRIMFUL_TOKEN" \\\n' if token else ""
    body = json.dumps(request_of(job, options), ensure_ascii=False)
    return (
        f"curl -X POST {shlex.quote(url + '/api/training/jobs')} -H 'Content-Type: application/json' \\\n{head}"
        f"  -d {shlex.quote(body)}"
    )


def as_python(job: Job, options: dict[str, Any], url: str) -> str:
    asked = request_of(job, options)
    named = {key: asked[key] for key in ("job_name", "priority", "budget", "cores") if key in asked}
    arguments = "".join(f", {name}={value!r}" for name, value in named.items())
    return (
        "import brimful\n\n"
        f"with brimful.Client({url!r}) as client:\n"
        f"    job = client.submit({job.request.workload!r}, {job.request.command!r}, {options!r}{arguments})\n"
        "    job = client.watch(job.id)\n"
        "    print(job.state, job.summary)"
    )
