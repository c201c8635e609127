"""Where the benchmarks leave what they measured: numbers as JSON, and beside them what was shown."""

import json
from pathlib import Path
from typing import Any


def save(out: Path | None, report: dict[str, Any], text: str) -> None:
    """Writes a report and its text, if there is a place for it."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=1) + "\n")
        out.with_suffix(".txt").write_text(text + "\n")
