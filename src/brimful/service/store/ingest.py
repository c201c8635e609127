"""What a job's process wrote, taken into the database: whole lines, each once, however often a server was killed.

How far the files were read is recorded in the transaction that keeps what was read. A line that a crash tore is cut off
by the next process of the job, and was not read: only whole lines are.
"""

import json
import math
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from ..child.job_dir import EVENTS, METRICS
from ..jobs.job import Progress
from .jobs import add_events
from .metric_ranges import ADD, LEVELS

if TYPE_CHECKING:
    from .pool import Connection, Pool

_MOST = 1 << 20  # bytes of a file in one transaction
_LONGEST = 64 << 20  # bytes of a line
_PROGRESS = {field.name for field in fields(Progress)}


def ingest(pool: "Pool", id: str, folder: Path) -> bool:
    """Takes in what is new, up to a megabyte of each file; whether there may be more."""
    return pool.call(lambda connection: _ingest(connection, id, folder))


def ingest_all(pool: "Pool", id: str, folder: Path) -> None:
    """Takes in all there is, however long the database is away."""
    while pool.call_always(lambda connection: _ingest(connection, id, folder)):
        pass


def _ingest(connection: "Connection", id: str, folder: Path) -> bool:
    row = connection.execute(
        "SELECT event_lines, event_bytes, metric_bytes, progress FROM job WHERE id = %s FOR UPDATE", (id,)
    ).fetchone()
    if row is None:
        return False
    event_lines, event_bytes, metric_bytes, progress = row
    events = _read(folder / EVENTS, event_bytes)
    metrics = _read(folder / METRICS, metric_bytes)
    if not events and not metrics:
        return False
    _add_metrics(connection, id, metrics)
    parsed = [_parse(line) for line in events.splitlines()]
    numbered = [(event_lines + place, data) for place, data in enumerate(parsed, 1) if data is not None]
    rows = [(line, _time(data), str(data.pop("event")), data) for line, data in numbered]
    add_events(connection, id, rows)
    progress = {name: value for name, value in progress.items() if name in _PROGRESS}
    for _, moment, kind, data in rows:
        progress |= _progress(kind, moment, data, progress)
    connection.execute(
        "UPDATE job SET event_lines = event_lines + %s, event_bytes = event_bytes + %s, "
        "metric_bytes = metric_bytes + %s, progress = %s WHERE id = %s",
        (len(parsed), len(events), len(metrics), Jsonb(progress), id),
    )
    return len(events) + len(metrics) >= _MOST // 2


def _read(path: Path, start: int) -> bytes:
    """Whole lines from a byte on, of a file that is no link."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            file.seek(start)
            content = file.read(_MOST)
            end = content.rfind(b"\n") + 1
            while not end and _MOST <= len(content) < _LONGEST and (more := file.read(_MOST)):
                content += more
                end = content.rfind(b"\n") + 1
            return content[:end]
    except OSError:
        return b""


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and isinstance(data.get("event"), str) else None


def _time(data: dict[str, Any]) -> float:
    time = data.pop("time", 0.0)
    return float(time) if isinstance(time, int | float) and math.isfinite(time) else 0.0


def _add_metrics(connection: "Connection", id: str, content: bytes) -> None:
    rows = []
    for line in content.splitlines():
        try:
            row = json.loads(line)
            rows.append((str(row["name"]).replace("\x00", ""), int(row["step"]), _time(row), float(row["value"])))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    if rows:
        names, steps, times, values = (list(column) for column in zip(*rows, strict=True))
        added = {"job": id, "names": names, "steps": steps, "times": times, "values": values, "levels": list(LEVELS)}
        connection.execute(ADD.encode(), added)


def _progress(kind: str, moment: float, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What an event says of how far the job is, and was before."""
    peak = before.get("peak")
    match kind:
        case "started":
            return _chosen(data, done="done", items="items", seconds="seconds") | {"began": moment}
        case "compiled" if isinstance(took := data.get("seconds"), int | float) and took > 0:
            began = before.get("began")
            later = {} if began is None else {"began": min(moment, began + took)}
            return later | {"compiling": (before.get("compiling") or 0.0) + took}
        case "batch_done":
            batch = _chosen(data, done="done", flagged="bad", peak="peak")
            return batch | {"peak": max(peak or 0, batch.get("peak") or 0) or None}
        case "memory_measured" if isinstance(parts := data.get("parts"), dict):
            return {"parts": {str(name): size for name, size in parts.items() if isinstance(size, int)}}
        case "sampled":
            return _chosen(data, used="used", process="process")
        case "epoch_done":
            return _chosen(data, epoch="epoch", epochs="epochs")
        case "finished":
            return _chosen(data, done="done", bad="bad", seconds="seconds") | {"began": None}
    return {}


def _chosen(data: dict[str, Any], **names: str) -> dict[str, Any]:
    return {name: data[key] for key, name in names.items() if key in data and isinstance(data[key], int | float | None)}
