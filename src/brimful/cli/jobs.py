"""`brimful jobs`: the jobs of a server, that of a url or the one of this machine, which is started where none runs."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .groups import FullHelpGroup
from .jobs_text import explain_artifacts, explain_changed, explain_job, explain_jobs, explain_pruned
from .output import emit, guarded
from .server_client import open_client, show_watched
from .submit import Submission, Submissions

if TYPE_CHECKING:
    from ..service.client import Client

JSON = Annotated[bool, typer.Option("--json", help="print one JSON object with stable keys instead of a table")]
URL = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="of the server; by default $BRIMFUL_URL, or the server of this machine, started where none runs. Its "
        "token is $BRIMFUL_TOKEN",
    ),
]
ID = Annotated[
    str, typer.Argument(metavar="ID", help='of the job: its id, any part of it that no other has, or "last"')
]
IDS = Annotated[
    list[str], typer.Argument(metavar="ID...", help='of the jobs: ids, parts of them that no other has, or "last"')
]

jobs = typer.Typer(
    cls=FullHelpGroup,
    help="Submit jobs to a server, and see and change those there are.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
submit = typer.Typer(
    cls=Submissions,
    help="Queue a command as a job: submit [options] WORKLOAD COMMAND [the command's own options].",
    no_args_is_help=True,
    rich_markup_mode=None,
)
jobs.add_typer(submit, name="submit")


@submit.callback()
def before_the_command(
    ctx: typer.Context,
    url: URL = None,
    job_name: Annotated[
        str | None, typer.Option(metavar="TEXT", help="for people; by default the workload and command")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(help="those with more start first", min=-100, max=100, metavar="INT")
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help='device memory to lease, such as "8GB"; by default the budget, or the plan\'s'
        ),
    ] = None,
    cores: Annotated[int | None, typer.Option(help="CPU cores to lease", min=1, metavar="INT")] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="url that gets a signed request when the job ends")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="then watch it, as `jobs watch`")] = False,
) -> None:
    ctx.obj = Submission(url, job_name, priority, lease, webhook, watch, cores)


@jobs.command("list")
@guarded
def list_jobs(
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="only those in this state; may be given again")
    ] = None,
    workload: Annotated[str | None, typer.Option(metavar="NAME", help="only those of this workload")] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="that occurs in the name or the id")] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="created, name, priority, state, started or ended; with a leading - downwards"
        ),
    ] = "-created",
    limit: Annotated[int, typer.Option(help="at most so many", min=1, metavar="INT")] = 20,
    url: URL = None,
    json: JSON = False,
) -> None:
    """The jobs there are, newest first."""
    with open_client(url) as client:
        page = client.jobs(state=state or (), workload=workload, text=text, sort=sort, limit=min(limit, 500))
    emit(page.to_dict(), explain_jobs, json)


@jobs.command()
@guarded
def show(id: ID, url: URL = None, json: JSON = False) -> None:
    """One job: its state, progress, options and, once it has finished, its result."""
    with open_client(url) as client:
        emit(client.job(_found(client, id)).to_dict(), explain_job, json)


@jobs.command()
@guarded
def watch(id: ID, url: URL = None, json: JSON = False) -> None:
    """Show a job's progress until it ends, as a run here would. Ctrl-C leaves it running.

    Exits with 0 where it finished, 3 failed, 4 cancelled, 5 paused; 1 is an error of this command, 130 Ctrl-C.
    """
    with open_client(url) as client:
        show_watched(client, _found(client, id), json)


@jobs.command()
@guarded
def cancel(ids: IDS, url: URL = None, json: JSON = False) -> None:
    """End jobs. What they have finished stays until they are pruned; `retry` goes on from it."""
    _change(ids, url, json, lambda client: client.cancel)


@jobs.command()
@guarded
def pause(ids: IDS, url: URL = None, json: JSON = False) -> None:
    """Have jobs write a checkpoint and stop; `resume` lets them go on."""
    _change(ids, url, json, lambda client: client.pause)


@jobs.command()
@guarded
def resume(ids: IDS, url: URL = None, json: JSON = False) -> None:
    """Queue paused jobs again; they go on from their checkpoints."""
    _change(ids, url, json, lambda client: client.resume)


@jobs.command()
@guarded
def retry(ids: IDS, url: URL = None, json: JSON = False) -> None:
    """Queue failed or cancelled jobs again; they go on from what they had finished."""
    _change(ids, url, json, lambda client: client.retry)


@jobs.command()
@guarded
def logs(
    id: ID,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="wait for more until the job ends")] = False,
    url: URL = None,
) -> None:
    """What the job's process wrote."""
    with open_client(url) as client:
        id, after = _found(client, id), 0
        while True:
            ended = not follow or client.job(id).state.ended  # before the log is read: then all of it is there
            while portion := (read := client.log(id, after))[0]:
                sys.stdout.buffer.write(portion)
                after = read[1]
            sys.stdout.flush()
            if ended:
                return
            time.sleep(0.5)


@jobs.command()
@guarded
def artifacts(
    id: ID,
    download: Annotated[Path | None, typer.Option(metavar="FOLDER", help="folder to write the files to")] = None,
    name: Annotated[list[str] | None, typer.Option(metavar="NAME", help="only this file; may be given again")] = None,
    url: URL = None,
    json: JSON = False,
) -> None:
    """The files that a job wrote; with --download, copied to a folder here."""
    with open_client(url) as client:
        id = _found(client, id)
        there = [artifact for artifact in client.artifacts(id) if not name or artifact.name in name]
        if download is not None:
            download.mkdir(parents=True, exist_ok=True)
            for artifact in there:
                client.download(id, artifact.name, download)
    emit({"artifacts": [artifact.to_dict() for artifact in there]}, explain_artifacts, json)


@jobs.command()
@guarded
def prune(
    days: Annotated[
        float, typer.Option(metavar="DAYS", help="remove those that ended so many days ago, or before", min=0)
    ],
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="only those that are finished, failed or cancelled; may be given again"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say which")] = False,
    url: URL = None,
    json: JSON = False,
) -> None:
    """Remove jobs that ended long ago, with their metrics, events and files."""
    from ..service.client.retention import ENDED

    with open_client(url) as client:
        removed = client.prune(days, state or ENDED, dry_run)
    emit({"removed": [job.to_dict() for job in removed], "dry_run": dry_run}, explain_pruned, json)


def _change(ids: list[str], url: str | None, as_json: bool, method: Callable[["Client"], Callable[[str], Any]]) -> None:
    with open_client(url) as client:
        found = [_found(client, id) for id in ids]  # all of them, before any is changed
        changed = [method(client)(id) for id in found]
    emit({"jobs": [job.to_dict() for job in changed]}, explain_changed, as_json)


def _found(client: "Client", text: str) -> str:
    """The id of the job that a text names."""
    from ..service.errors import NotFound

    if len(text) == 36:
        return text
    if text == "last":
        ids = [job.id for job in client.jobs(limit=1).jobs]
    else:
        ids = [job.id for job in client.all_jobs(text=text) if text.lower() in job.id]
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise NotFound(f"{len(ids)} jobs have {text!r} in their id: {', '.join(ids[:5])}; give more of it")
    raise NotFound(f"there is no job {text!r}; `brimful jobs list` shows those there are")
