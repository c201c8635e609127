"""Files that a job's options name, as paths: what was uploaded, what another job wrote, and its own output."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import FieldProblem, Invalid, NotFound
from .description import CommandDescription

REFERENCE = re.compile(r"(upload|job):([0-9a-f-]{36})(?:/(.+))?")

Locate = Callable[[str, str, str | None], Path]
"""The path of a reference: kind ("upload" or "job"), id, and a name inside it. Raises `NotFound`."""


def resolve(command: CommandDescription, config: Mapping[str, Any], run: Path, locate: Locate) -> dict[str, Any]:
    """The options that the job's process gets: references as paths, output inside the job's run directory.

    Raises:
        Invalid: a reference leads nowhere.
    """
    resolved, problems = dict(config), []
    for option in command.options:
        value = config.get(option.name)
        if option.output:
            if value is not None:
                resolved[option.name] = str(run / value)
            elif option.place is not None:
                resolved[option.name] = str(run / option.place) if option.place else str(run)
        elif isinstance(value, str) and option.files:
            try:
                resolved[option.name] = ",".join(_located(part, locate) for part in value.split(","))
            except NotFound as error:
                problems.append(FieldProblem(f"config.{option.name}", str(error)))
    if problems:
        raise Invalid(*problems)
    return resolved


def references(config: Mapping[str, Any]) -> set[str]:
    """The uploads and jobs that a config names: "upload:ID", "job:ID"."""
    texts = [part for value in config.values() if isinstance(value, str) for part in value.split(",")]
    matches = [REFERENCE.fullmatch(part.strip()) for part in texts]
    return {f"{match[1]}:{match[2]}" for match in matches if match}


def _located(part: str, locate: Locate) -> str:
    reference = REFERENCE.fullmatch(part.strip())
    return part if reference is None else str(locate(reference[1], reference[2], reference[3]))
