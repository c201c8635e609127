"""Jobs as people read them."""

import datetime
from collections.abc import Mapping
from typing import Any

from ..core.base.formatting import format_bytes, format_count, format_seconds, format_table
from ..core.declare.summary_text import format_summary


def explain_jobs(page: Mapping[str, Any]) -> str:
    if not page["jobs"]:
        return "no jobs"
    rows = [
        (
            job["id"],
            job["job_name"][:40],
            f"{job['workload']} {job['command']}",
            job["state"],
            _progress(job["progress"]),
            _time(job["created"]),
        )
        for job in page["jobs"]
    ]
    text = format_table(rows, header=("id", "name", "command", "state", "done", "created"))
    left = page["total"] - len(page["jobs"])
    return f"{text}\n  and {format_count(left)} more" if left > 0 else text


def explain_job(job: Mapping[str, Any]) -> str:
    lease = job["lease"] or {}
    rows = [
        ("job", job["id"]),
        ("name", job["job_name"]),
        ("command", f"{job['workload']} {job['command']}"),
        ("state", f"{job['state']}: {job['message']}" if job["message"] else job["state"]),
        ("done", _progress(job["progress"])),
        ("attempt", str(job["attempt"])),
        ("lease", ", ".join(_lease(lease))),
        ("created", _time(job["created"])),
        ("started", _time(job["started"])),
        ("ended", _time(job["ended"])),
    ]
    text = format_table([(name, value) for name, value in rows if value])
    return f"{text}\n\n{format_summary(job['summary'])}" if job["summary"] else text


def explain_changed(report: Mapping[str, Any]) -> str:
    return "\n".join(f"{job['id']}  {job['state']}" for job in report["jobs"])


def explain_artifacts(report: Mapping[str, Any]) -> str:
    if not report["artifacts"]:
        return "no files"
    rows = [(entry["name"], format_bytes(entry["bytes"]), _time(entry["modified"])) for entry in report["artifacts"]]
    return format_table(rows, header=("name", "size", "written"))


def explain_pruned(report: Mapping[str, Any]) -> str:
    count = len(report["removed"])
    verb = "would be removed" if report["dry_run"] else "removed"
    lines = [f"{job['id']}  {job['state']}  {job['job_name'][:60]}" for job in report["removed"]]
    return "\n".join([*lines, f"{format_count(count)} {'job' if count == 1 else 'jobs'} {verb}"])


def _lease(lease: Mapping[str, Any]) -> list[str]:
    parts = [str(lease["device"])] if lease.get("device") else []
    parts += [format_bytes(lease["device_bytes"])] if lease.get("device_bytes") else []
    return parts + ([f"{lease['cores']} cores"] if lease.get("cores") else [])


def _progress(progress: Mapping[str, Any]) -> str:
    if progress["epochs"]:
        return f"epoch {progress['epoch'] or 0} of {progress['epochs']}"
    if progress["items"]:
        return f"{format_count(progress['done'])} of {format_count(progress['items'])}"
    return format_count(progress["done"]) if progress["done"] else ""


def _time(text: str | None) -> str:
    """A time in UTC as this machine's, and how long ago it was."""
    if text is None:
        return ""
    moment = datetime.datetime.fromisoformat(text)
    ago = (datetime.datetime.now(datetime.UTC) - moment).total_seconds()
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S} ({format_seconds(max(ago, 1.0))} ago)"
