"""A report as a table for people, or as one JSON object for programs."""

import json
from collections.abc import Callable, Mapping
from typing import Any


def emit(report: Mapping[str, Any], explain: Callable[[Mapping[str, Any]], str], as_json: bool) -> None:
    """Prints a report one way or the other, on standard output."""
    print(json.dumps(report, indent=1) if as_json else explain(report), flush=True)
