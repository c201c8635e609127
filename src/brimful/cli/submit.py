"""`brimful jobs submit [options] WORKLOAD COMMAND [its options]`: the command as a job of a server.

Options are those of the command itself, but for those that a job's server sets. An option that names files of this
machine has them uploaded first.
"""

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..core.declare import registry
from ..core.declare.outline import Outline
from .groups import WorkloadGroup, Workloads
from .jobs_text import explain_job
from .output import UsageProblem, emit
from .server_client import open_client, show_watched

if TYPE_CHECKING:
    from ..core.declare.config import FieldInfo
    from ..service.client import Client
    from .commands import Shown


@dataclass(frozen=True, slots=True)
class Submission:
    """What is said of a job before its command."""

    url: str | None = None
    job_name: str | None = None
    priority: int | None = None
    lease: str | None = None
    webhook: str | None = None
    watch: bool = False
    cores: int | None = None


class Submissions(Workloads):
    """The workloads that have a command which can be a job."""

    def group_of(self, name: str, outline: Outline) -> WorkloadGroup:
        def with_options(command: "Shown") -> Any:
            from ..service.jobs.request import offered
            from .commands import typer_command

            options = [_with_default(info) for info in offered(command.options)]
            context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
            submit = functools.partial(_submit, name)
            return typer_command(replace(command, options=options), submit, context)

        commands = [command for command in outline.commands if command.job]
        return WorkloadGroup(name, f"Submit a command of {name} as a job.", commands, with_options)


def _with_default(info: "FieldInfo") -> "FieldInfo":
    """An output has a place in the job's directory, so that none need be given."""
    return replace(info, default=None, nullable=True) if info.required and info.option.job is not None else info


def _submit(workload: str, command: registry.Command, *, ctx: typer.Context, json: bool, **options: Any) -> None:
    from ..core.declare.config import describe
    from ..service.jobs.request import offered

    said: Submission = ctx.find_object(Submission) or Submission()
    infos = {info.name: info for info in offered(describe(command.config))}
    config = _given(command, infos, options)
    with open_client(said.url) as client:
        for name, value in config.items():
            info = infos[name]
            if isinstance(value, str) and info.option.job is None and (info.type is Path or info.option.files):
                config[name] = _uploaded(client, value)
        job = client.submit(
            workload,
            command.name,
            config,
            job_name=said.job_name,
            priority=said.priority,
            budget=said.lease,
            webhook=said.webhook,
            cores=said.cores,
        )
        if said.watch:
            show_watched(client, job.id, json)
        else:
            emit(job.to_dict(), explain_job, json)


def _given(command: registry.Command, infos: Mapping[str, "FieldInfo"], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not the default, as JSON values; the others are left to the server."""
    from ..core.declare.config import check, flag

    changed = {
        name: value
        for name, value in options.items()
        if value is not None and (infos[name].required or str(value) != str(infos[name].default))
    }
    built, wrong = check(command.config, changed, flag)
    problems = [text for name, text in wrong if name in changed]
    if problems:
        raise UsageProblem("; ".join(problems))
    return {name: str(value) if isinstance(value, Path) else value for name, value in built.items() if name in changed}


def _uploaded(client: "Client", value: str) -> str:
    """The value, with "upload:ID" for each file of this machine that it names."""
    parts = []
    for part in value.split(","):
        path = Path(part.strip()).expanduser()
        parts.append(f"upload:{client.upload(path).id}" if path.is_file() else part)
    return ",".join(parts)
