"""Values of jobs as people read them."""

import math
import re
import time
from typing import Any

from ...core.base.formatting import format_bytes, format_seconds
from ..jobs.job import Job
from ..jobs.state import JobState

_RECORDINGS = re.compile(r"locate-(\d+)-\d+")  # and the version of their rows


def fraction(job: Job) -> float | None:
    """How much of a job is done, from 0 to 1; None where nobody knows."""
    progress = job.progress
    if job.state is JobState.FINISHED:
        return 1.0
    if progress.items:
        return min(1.0, progress.done / progress.items)
    if progress.epochs and progress.epoch is not None:
        return min(1.0, progress.epoch / progress.epochs)
    return None


def seconds_taken(job: Job, now: float) -> float:
    """Seconds on the clock for which it had a lease, imports and compiling included."""
    since = (job.lease or {}).get("since")
    running = max(0.0, now - since) if since is not None and job.state.active else 0.0
    return (job.progress.wall or job.progress.seconds) + running  # an earlier version did not count the former


def seconds_worked(job: Job, now: float) -> float:
    """Seconds of work, of all its parts: without imports, and without what was compiled."""
    since, began = (job.lease or {}).get("since"), job.progress.began
    working = job.state.active and since is not None and began is not None and began >= since
    return job.progress.seconds + (max(0.0, now - began) if working and began is not None else 0.0)


def rate(job: Job, now: float) -> float | None:
    """Items per second of work."""
    seconds = seconds_worked(job, now)
    return job.progress.done / seconds if seconds > 0 and job.progress.done else None


def seconds_left(job: Job, now: float) -> float | None:
    """How long a running job will still take, if it goes on as it has."""
    done, worked = fraction(job), seconds_worked(job, now)
    if job.state is not JobState.RUNNING or not done or worked <= 0:
        return None
    return worked * (1 - done) / done


def progress_text(job: Job) -> str:
    progress, parts = job.progress, []
    if progress.epochs:
        parts.append(f"epoch {progress.epoch or 0:,} of {progress.epochs:,}")
    elif progress.items:
        parts.append(f"{short(progress.done)} of {short(progress.items)}")
    elif progress.done:
        parts.append(short(progress.done))
    if progress.bad:
        parts.append(f"{short(progress.bad)} flagged")
    return ", ".join(parts)


def rate_text(value: float | None) -> str:
    return "" if value is None else f"{short(value)}/s"


def short(number: float) -> str:
    """A number in three or four characters: 950, 12.3k, 4.56M."""
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= scale:
            return f"{number / scale:.3g}{unit}"
    return f"{number:.3g}" if isinstance(number, float) and not number.is_integer() else f"{number:.0f}"


def counted(number: int, what: str) -> str:
    """`1 item`, `1,200 items`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def exact(value: Any) -> str:
    """A value of a config or a result, as it is written on the command line."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else "not finite"
    return f"{value:,}" if isinstance(value, int) else str(value)


def result_value(name: str, value: Any) -> str:
    """A value of a result, to read; the end of its name says its unit."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return exact(value)
    if not math.isfinite(value):
        return "not finite"
    unit = name.rpartition("_")[2]
    if unit == "bytes":
        return format_bytes(value)
    if unit == "seconds":
        return format_seconds(value)
    if unit == "share":
        return f"{value:.1%}"
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"
    return f"{text} m" if unit == "m" else text


def result_name(name: str) -> str:
    """The name of a result, without the unit that its value shows."""
    if name == "seconds":
        return "time"
    words = name.split("_")
    if len(words) > 1 and words[-1] in ("bytes", "seconds", "share", "m"):
        words.pop()
    return " ".join(words)


def recordings_number(dataset: str) -> str | None:
    """The number by which `locate` knows its recordings, of a dataset that holds them; None for others."""
    found = _RECORDINGS.fullmatch(dataset)
    return found[1] if found else None


def memory_text(job: Job) -> str:
    """The most memory that it has used, against what it may use; that alone where nothing is known yet."""
    leased = (job.lease or {}).get("device_bytes")
    peak = job.progress.peak
    if peak and leased:
        return f"{format_bytes(peak)} of {format_bytes(leased)}"
    return format_bytes(peak) if peak else f"up to {format_bytes(leased)}" if leased else ""


def message_text(job: Job) -> str:
    """Why it waits, how it ended or what failed; nothing where that is its state again."""
    return "" if job.message == job.state.value else job.message


def job_row(job: Job, now: float | None = None) -> dict[str, Any]:
    """A job as a row of the table of jobs."""
    now = time.time() if now is None else now
    left, took, priority = seconds_left(job, now), seconds_taken(job, now), job.request.priority
    return {
        "id": job.id,
        "name": job.request.name,
        "state": job.state.value,
        "what": f"{job.request.workload} {job.request.command}" + (f", priority {priority}" if priority else ""),
        "fraction": None if (done := fraction(job)) is None else round(done, 3),
        "progress": progress_text(job),
        "left": "" if left is None else format_seconds(max(1.0, left)).replace(".0", ""),
        "rate": rate_text(rate(job, now)) if job.state.active else "",
        "memory": memory_text(job),
        "took": format_seconds(took) if took else "",
        "message": message_text(job),
        "created": job.created,
    }
