"""A request for a job, checked: every wrong field is named.

The workload and the command are looked up in the registry, and the config is checked by its one declaration. A job
neither reads nor writes outside its own directories: an option that names files takes "upload:ID", a file that was
uploaded, "job:ID" or "job:ID/NAME", what another job wrote, where it reads a table "dataset:NAME", or a plain name,
which is looked up by the workload.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...core.base.errors import BrimfulError, BudgetError, ConfigError, StorageError
from ...core.declare import config as declared
from ...core.declare import registry
from ...core.declare.config import FieldInfo
from ...core.declare.registry import Command
from ...core.memory.budget import Budget
from ..errors import FieldProblem, Invalid, Unavailable
from ..security.names import fault_of
from .description import CommandDescription, OptionDescription
from .job import PRIORITIES, JobRequest, Webhook
from .references import DATASET, Reference

FIELDS = ("job_name", "workload", "command", "config", "priority", "budget", "cores", "webhook")
_LONGEST_VALUE = 10_000
_PLAIN = re.compile(r"[^\s/\\~.\x00-\x1f][^\s/\\\x00-\x1f]*")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request that is right: the job's options as they were given, and its command."""

    request: JobRequest
    command: Command


def job_commands(workload: str) -> list[Command]:
    """Those commands of a workload that can be jobs."""
    return [command for command in registry.load(workload).commands if command.job]


def describe(workload: str, command: Command) -> CommandDescription:
    """What the server has to know of a command."""
    options = (
        OptionDescription(
            name=info.name,
            files=_names_files(info),
            reads=info.option.reads,
            output=_is_output(info),
            place=info.option.job,
        )
        for info in declared.describe(command.config)
    )
    return CommandDescription(
        workload=workload,
        command=command.name,
        help=command.help,
        plans=command.plan is not None,
        stores=command.stores,
        schema=job_schema(command),
        options=tuple(options),
    )


def offered(infos: Iterable[FieldInfo]) -> list[FieldInfo]:
    """The options of a command that a job may set, of all that it has."""
    return [info for info in infos if not info.option.local and not (info.name == "out" and info.option.job == "")]


def job_schema(command: Command) -> dict[str, Any]:
    """The JSON schema of a job's config; other spellings of an option are its "aliases", and what it is about its
    "topic". Options are in the order of their topics."""
    schema, about = declared.schema(command.config), declared.topics(command.config)
    infos = {info.name: info for info in offered(declared.describe(command.config))}
    required = [name for name in schema["required"] if name in infos and infos[name].option.job is None]
    properties = {
        name: schema["properties"][name] | _of_job(infos[name], command) | {"topic": topic}
        for name, topic in about.items()
        if name in infos
    }
    return {**schema, "properties": properties, "required": required}


def _of_job(info: FieldInfo, command: Command) -> dict[str, Any]:
    """What a job's option takes beyond what it takes anywhere: several names as a list, other spellings, whether it
    names a file ("format"), what that holds ("reads"), whether it is written ("output"), and whether it is given on the
    command line by its place ("positional"). A budget has another default."""
    added: dict[str, Any] = {"aliases": list(info.option.aliases)} if info.option.aliases else {}
    added |= {"format": "path"} if _names_files(info) or _is_output(info) else {}
    added |= {"reads": info.option.reads} if info.option.reads else {}
    added |= {"output": True} if _is_output(info) else {}
    if info.name == "budget":
        default = "what its plan needs, 512 MB at least" if command.plan else "a quarter of the device"
        added["description"] = f'memory to stay inside: "8GB", "512MB", "80%"; by default {default}'
    added |= {"positional": True} if info.option.positional else {}
    if info.type is str and info.option.files:
        kinds = ["string", "array", *(["null"] if info.nullable else [])]
        added |= {"type": kinds, "items": {"type": "string"}, "minItems": 1}
    return added


def parse(values: Mapping[str, Any]) -> Parsed:
    """A request from JSON values.

    Raises:
        Invalid: with all wrong fields.
    """
    if not isinstance(values, Mapping):
        raise Invalid(FieldProblem("", "a request is a JSON object with job_name and config"))
    problems = [FieldProblem(name, _unknown(name)) for name in sorted(set(values) - set(FIELDS))]
    command = _command(values, problems)
    config: dict[str, Any] = {}
    if command is not None:
        config = _config(command, values.get("config", {}), problems)
    request = JobRequest(
        name=_name(values, problems),
        workload=values.get("workload", "locate"),
        command=values.get("command", "train"),
        config=config,
        priority=_whole(values, "priority", PRIORITIES.start, PRIORITIES.stop - 1, 0, problems) or 0,
        budget=_budget(values, config, problems),
        cores=_whole(values, "cores", 1, 4096, None, problems),
        webhook=_webhook(values.get("webhook"), problems),
    )
    if problems or command is None:
        raise Invalid(*problems)
    return Parsed(request, command)


def check(command: Command, config: Mapping[str, Any], url: str | None) -> None:
    """Builds the config of resolved options, and asks the command what is wrong with it.

    Args:
        url: of the service's database, for commands that look something up there.
    """
    try:
        built = declared.build(command.config, dict(config))
        if command.check is not None:
            command.check(replace(built, url=url) if getattr(built, "url", "") is None else built)
    except StorageError as error:
        raise Unavailable(str(error)) from error
    except BrimfulError as error:
        path = "config" if error.option is None else f"config.{error.option}"
        raise Invalid(FieldProblem(path, str(error))) from error


def _unknown(name: str) -> str:
    return f"unknown field {str(name)[:100]!r}; there are {', '.join(FIELDS)}"


def _command(values: Mapping[str, Any], problems: list[FieldProblem]) -> Command | None:
    workload, name = values.get("workload", "locate"), values.get("command", "train")
    if not isinstance(workload, str) or workload not in registry.names():
        there = ", ".join(registry.names())
        problems.append(FieldProblem("workload", f"there is no workload {str(workload)[:100]!r}; there are {there}"))
        return None
    try:
        commands = {command.name: command for command in job_commands(workload)}
    except ConfigError as error:
        problems.append(FieldProblem("workload", str(error)))
        return None
    if not isinstance(name, str) or name not in commands:
        there = ", ".join(commands) or "none"
        message = f"{workload} has no command {str(name)[:100]!r} that can be a job; there are {there}"
        problems.append(FieldProblem("command", message))
        return None
    return commands[name]


def _config(command: Command, given: Any, problems: list[FieldProblem]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        problems.append(FieldProblem("config", "config must be a JSON object of options"))
        return {}
    infos = {info.name: info for info in declared.describe(command.config)}
    spellings = {alias: info for info in infos.values() for alias in (info.name, *info.option.aliases)}
    values, wrong = {}, []
    for name, value in given.items():
        info = spellings.get(name)
        if info is not None and info.type is str and _texts(value):
            value = ",".join(value)  # several names are a list in JSON
        message = None if info is None else _forbidden(info, value)
        if message is not None:
            wrong.append(FieldProblem(f"config.{name}", message))
        values[name] = value
    for info in infos.values():  # an output has a place in the job's directory
        if info.option.job is not None and not {info.name, *info.option.aliases} & set(values):
            values[info.name] = None if info.nullable else info.option.job
    built, more = declared.check(command.config, values)
    named = {problem.path for problem in wrong}
    wrong += [FieldProblem(f"config.{name}", text) for name, text in more if f"config.{name}" not in named]
    problems += wrong
    if wrong:
        return {}
    try:
        full = declared.to_dict(command.config(**built))
    except BrimfulError as error:
        problems.append(FieldProblem("config", str(error)))
        return {}
    kept = {info.name for info in offered(declared.describe(command.config))}
    return {name: value for name, value in full.items() if name in kept}


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) and "," not in one for one in value)


def _names_files(info: FieldInfo) -> bool:
    return info.type is Path or info.option.files


def _is_output(info: FieldInfo) -> bool:
    return info.option.job is not None or info.name == "out"


def _forbidden(info: FieldInfo, value: Any) -> str | None:
    """Why a job may not have that value, in a sentence."""
    if info.option.local or (info.name == "out" and info.option.job == ""):
        return f"{info.name} cannot be set for a job: the server sets it. Leave it out"
    if not isinstance(value, str):
        return None
    if len(value) > _LONGEST_VALUE or "\x00" in value:
        return f"{info.name} is a text of {len(value)} characters; give at most {_LONGEST_VALUE}, and none that is null"
    if info.name == "out":
        if not _PLAIN.fullmatch(value):
            return f"out is {value[:100]!r}; give a plain file name, which is put into the job's directory"
        return None
    if not _names_files(info):
        return None
    for part in value.split(","):
        reference = Reference.read(part)
        if reference is None and (info.type is Path or not _PLAIN.fullmatch(part.strip())):
            return (
                f"{info.name} is {value[:100]!r}; a job reads no files of the server's. Upload the file and give "
                '"upload:ID", or name what another job wrote by "job:ID" or "job:ID/NAME"'
                + (', or a dataset by "dataset:NAME"' if info.option.reads == declared.TABLE else "")
            )
        if reference is not None and reference.kind == DATASET and info.option.reads != declared.TABLE:
            return f"{info.name} is {value[:100]!r}; it takes no table, which the rows of a dataset are. Upload a file"
        if reference is not None and ".." in (reference.name or "").split("/"):
            return f"{info.name} is {value[:100]!r}; a name inside a job's directory has no '..'"
    return None


def _name(values: Mapping[str, Any], problems: list[FieldProblem]) -> str:
    name = values.get("job_name")
    if isinstance(name, str) and fault_of(name) is None:
        return name.strip()
    what = fault_of(name) if isinstance(name, str) else "is missing" if name is None else "is no text"
    problems.append(FieldProblem("job_name", f"job_name {what}; it is what people know the job by"))
    return ""


def _whole(
    values: Mapping[str, Any], name: str, least: int, most: int, default: int | None, problems: list[FieldProblem]
) -> int | None:
    value = values.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        message = f"{name} is {str(value)[:100]}; give a whole number from {least} to {most}"
        problems.append(FieldProblem(name, message))
        return default
    return value


def _budget(values: Mapping[str, Any], config: Mapping[str, Any], problems: list[FieldProblem]) -> str | None:
    budget = values.get("budget")
    if budget is None:
        return config.get("budget")
    try:
        Budget.parse(budget if isinstance(budget, str) else "")
    except BudgetError as error:
        problems.append(FieldProblem("budget", str(error)))
        return None
    return budget


def _webhook(value: Any, problems: list[FieldProblem]) -> Webhook | None:
    if value is None:
        return None
    value = {"url": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping) or set(value) - {"url", "secret"} or not isinstance(value.get("url"), str):
        problems.append(FieldProblem("webhook", 'webhook must be {"url": "https://...", "secret": "..."}'))
        return None
    url, secret = value["url"], value.get("secret")
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname)
        right = right and parts.username is None and fault_of(url, 2000) is None and parts.port != 0
    except ValueError:
        right = False
    if not right:
        problems.append(FieldProblem("webhook.url", f"webhook.url is {url[:100]!r}; give an http or https address"))
    if secret is not None and (not isinstance(secret, str) or not 8 <= len(secret) <= 200 or "\x00" in secret):
        problems.append(FieldProblem("webhook.secret", "webhook.secret must be a text of 8 to 200 characters"))
        return None
    return Webhook(url=url, secret=secret)
