"""The schema of a job: one form per command of every workload, from the registry's declarations."""

from typing import Any

from ..jobs.job import JobRequest
from .schemas import JOB_FIELDS

_DEFAULT = JobRequest(name="")


def job_request_schemas(workloads: list[dict[str, Any]]) -> dict[str, Any]:
    """Schemas by name: that of every config, and "JobRequest", which is any of them with its workload and command."""
    schemas: dict[str, Any] = {}
    forms = []
    for workload in workloads:
        for command in workload["commands"]:
            name = f"{workload['workload']}_{command['command']}_config"
            schemas[name] = _config(command["schema"], command["help"])
            forms.append(_form(workload["workload"], command["command"], name))
    return {**schemas, "JobRequest": {"anyOf": forms}}


def _config(schema: dict[str, Any], help: str) -> dict[str, Any]:
    """A config whose options may be given by any of their spellings, of a required one exactly one."""
    properties: dict[str, Any] = {}
    one_of = []
    for name, declared in schema["properties"].items():
        aliases = declared.get("aliases", [])
        properties[name] = {key: value for key, value in declared.items() if key != "aliases"}
        shorter = {key: value for key, value in properties[name].items() if key not in ("description", "default")}
        properties |= {alias: {**shorter, "description": f"another spelling of {name}"} for alias in aliases}
        if name in schema["required"] and aliases:
            one_of.append({"oneOf": [{"required": [spelling]} for spelling in (name, *aliases)]})
    required = [name for name in schema["required"] if not schema["properties"][name].get("aliases")]
    whole = {"type": "object", "description": help, "properties": properties, "required": required}
    return {**whole, "additionalProperties": False, **({"allOf": one_of} if one_of else {})}


def _form(workload: str, command: str, config: str) -> dict[str, Any]:
    """A job of one command; a name that is the default may be left out."""
    named = {"workload": workload, "command": command}
    defaults = {"workload": _DEFAULT.workload, "command": _DEFAULT.command}
    properties = {name: {"type": "string", "const": value} for name, value in named.items()}
    required = [name for name, value in named.items() if value != defaults[name]]
    return {
        "title": f"{workload} {command}",
        "type": "object",
        "properties": {**properties, **JOB_FIELDS, "config": {"$ref": f"#/components/schemas/{config}"}},
        "required": [*required, "job_name", "config"],
        "additionalProperties": False,
    }
