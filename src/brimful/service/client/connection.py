"""What both clients share: which server, with which token, and what is tried again."""

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from ...core.base.errors import ConfigError
from ...core.runs.files import TEMPORARY, storage_error
from ..address import published, state_directory
from ..errors import NotFound, Unavailable
from . import requests
from .problems import error_of

RETRIES = (0.1, 0.5, 2.0)
"""Seconds before a request that does no harm is sent again, where none was answered."""

TIMEOUT = 30.0
_WAITING = (429, 502, 503, 504)


def server_url(url: str | None, state: Path | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The URL of a server: the one given, `$BRIMFUL_URL`, or that of the server that runs on this machine.

    Raises:
        ConfigError: it is no URL.
        Unavailable: none is given, and none runs.
    """
    chosen = url or environ.get("BRIMFUL_URL")
    if chosen is None:
        folder = state_directory(state, environ)
        if (address := published(folder)) is None:
            raise Unavailable(
                f"no server runs on this machine (its state would be in {folder}). Start one with `brimful serve`, or "
                "give the url of another, or set BRIMFUL_URL"
            )
        chosen = address.url
    try:
        parsed = httpx.URL(chosen)
    except httpx.InvalidURL as error:
        raise ConfigError(f"url is {chosen!r}: {error}; give http://host:port") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError(f"url is {chosen!r}; give http://host:port")
    return chosen.rstrip("/")


def settings(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    """The arguments of httpx's clients."""
    secret = token or os.environ.get("BRIMFUL_TOKEN")
    headers = {"user-agent": "brimful", **({"authorization": f"Bearer {secret}"} if secret else {})}
    secure = url.startswith("https:")  # certificates take a while to read, and are of no use otherwise
    return {"base_url": url, "headers": headers, "timeout": timeout, "trust_env": False, "verify": secure}


def arguments(request: requests.Request[Any]) -> dict[str, Any]:
    """Of a request, for httpx."""
    query = {name: value for name, value in request.query.items() if value is not None}
    return {
        "method": request.method,
        "url": request.path,
        "params": query,
        **({} if request.body is None else {"json": request.body}),
    }


def checked(response: httpx.Response) -> httpx.Response:
    """The response, read already, where it is no refusal."""
    if response.is_success:
        return response
    raise error_of(response.status_code, requests.json_of(response))


def pause_before_retry(
    request: requests.Request[Any], attempt: int, failed: httpx.Response | Exception
) -> float | None:
    """Seconds until the request is sent again, after so many attempts; None where it is not."""
    if attempt > len(RETRIES):
        return None
    if isinstance(failed, httpx.Response):
        # Refused before anything was done: any request may come again.
        if failed.status_code not in _WAITING or (failed.status_code != 429 and not request.repeatable):
            return None
        asked = failed.headers.get("retry-after", "")
        return min(float(asked), 5.0) if asked.isdigit() else RETRIES[attempt - 1]
    connected = not isinstance(failed, httpx.ConnectError | httpx.ConnectTimeout)
    return RETRIES[attempt - 1] if request.repeatable or not connected else None


def unreachable(url: str, error: Exception) -> Unavailable:
    """No response came."""
    return Unavailable(
        f"{url} does not answer: {error or type(error).__name__}. Check that the server runs, and its address"
    )


@contextlib.contextmanager
def whole_file(response: httpx.Response, path: Path) -> Iterator[BinaryIO]:
    """A file to write a response to, which takes its name when all of it is there."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{TEMPORARY}")
    expected = response.headers.get("content-length")
    try:
        with part.open("wb") as file:
            yield file
            if expected is not None and file.tell() < int(expected):
                raise httpx.ReadError(f"{file.tell()} of {expected} bytes came")
        part.rename(path)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def destination(name: str, target: str | Path | None) -> Path:
    """Where a file of a job is written: below a folder, by its own name, or at a path.

    Raises:
        NotFound: the name would lead out of the folder.
    """
    path = Path() if target is None else Path(target)
    if target is None or path.is_dir():
        inside = Path(name)
        if inside.is_absolute() or ".." in inside.parts:
            raise NotFound(f"the artifact {name!r} has a name that leads out of a folder; give the path to write it to")
        path = path / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
