"""`brimful runs`: the run directories under a folder, with their state."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core.base.errors import InputError
from ..core.base.formatting import format_count, format_seconds, format_table
from ..core.runs import rundir


def list_runs(folder: Path) -> dict[str, Any]:
    """The report. Its keys are stable and documented in docs/cli.md."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name one that holds run directories")
    return {"folder": str(folder), "runs": [asdict(run) for run in rundir.find(folder)]}


def explain(report: Mapping[str, Any]) -> str:
    if not report["runs"]:
        return f"no run directories under {report['folder']}"
    return format_table(
        [_row(run) for run in report["runs"]], header=("run", "work", "state", "done", "flagged", "time", "made")
    )


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    done = format_count(run["done"]) + (f" of {format_count(run['items'])}" if run["items"] is not None else "")
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(run["created"])) if run["created"] else "?"
    return run["path"], run["work"], run["state"], done, format_count(run["bad"]), format_seconds(run["seconds"]), made
