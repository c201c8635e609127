"""A client of the server that a command's options name, and a job that is watched through it."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from ..core.base.extras import require
from .jobs_text import explain_job
from .output import emit

if TYPE_CHECKING:
    from ..service.client import Client


@contextlib.contextmanager
def open_client(url: str | None) -> Iterator["Client"]:
    """A client of the server that the options name."""
    require("serve", "httpx")
    from ..service.client import Client
    from ..service.client.local_server import ensure

    if url is None and "BRIMFUL_URL" not in os.environ:
        url = ensure(say=lambda line: print(f"brimful: {line}", file=sys.stderr))
    with Client(url) as client:
        yield client


def show_watched(client: "Client", id: str, as_json: bool) -> None:
    """Shows the progress of a job, then the job; exits by how it ended."""
    from ..service.client.watching import EXIT_CODES

    try:
        job = client.watch(id)
    except KeyboardInterrupt:
        message = f"no longer watching; the job {id} goes on. `brimful jobs watch {id}` watches it again, "
        raise KeyboardInterrupt(f"{message}`brimful jobs cancel {id}` ends it") from None
    emit(job.to_dict(), explain_job, as_json)
    raise typer.Exit(EXIT_CODES[job.state])
