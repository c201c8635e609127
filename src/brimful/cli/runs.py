"""`brimful runs`: the run directories under a folder, with their state."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.base.errors import InputError
from ..core.base.text_table import columns
from ..core.base.units import show_count
from ..core.runs import rundir


def survey(folder: Path) -> dict[str, Any]:
    """The report. Its keys are stable and documented in docs/cli.md."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name one that holds run directories")
    return {"folder": str(folder), "runs": [run.to_dict() for run in rundir.find(folder)]}


def explain(report: Mapping[str, Any]) -> str:
    if not report["runs"]:
        return f"no run directories under {report['folder']}"
    return columns([_row(run) for run in report["runs"]], header=("run", "work", "state", "done", "flagged", "made"))


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    done = show_count(run["done"]) + (f" of {show_count(run['items'])}" if run["items"] is not None else "")
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(run["created"])) if run["created"] else "?"
    return run["path"], run["work"], run["state"], done, show_count(run["bad"]), made
