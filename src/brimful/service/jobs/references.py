"""Files that a job's options name, as paths: what was uploaded, what another job wrote, the rows of a dataset, and its
own output."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.base.errors import ConfigError
from ..errors import FieldProblem, Invalid, NotFound
from .description import CommandDescription

DATASET = "dataset"
_FILE = re.compile(r"(upload|job):([0-9a-f-]{36})(?:/(.+))?")
_DATASET = re.compile(rf"({DATASET}):([A-Za-z0-9][A-Za-z0-9_.-]{{0,62}})")

Locate = Callable[[str, str, str | None], Path]
"""The path of a reference: its kind, its id, and a name inside it. Raises `NotFound`, or `ConfigError` where there can
be no file of it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that is named by what it belongs to.

    Attributes:
        kind: "upload", "job" or "dataset".
        id: of the upload or job, or the dataset's name.
        name: of a file inside it.
    """

    kind: str
    id: str
    name: str | None = None

    @classmethod
    def read(cls, text: str) -> "Reference | None":
        """What a text such as "upload:ID", "job:ID/NAME" or "dataset:NAME" names; None where it is none."""
        found = _FILE.fullmatch(text.strip()) or _DATASET.fullmatch(text.strip())
        return None if found is None else cls(*found.groups())


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
            except (NotFound, ConfigError) as error:
                problems.append(FieldProblem(f"config.{option.name}", str(error)))
    if problems:
        raise Invalid(*problems)
    return resolved


def references(config: Mapping[str, Any]) -> set[str]:
    """The uploads, jobs and datasets that a config names: "upload:ID", "job:ID", "dataset:NAME"."""
    texts = [part for value in config.values() if isinstance(value, str) for part in value.split(",")]
    named = [Reference.read(part) for part in texts]
    return {f"{one.kind}:{one.id}" for one in named if one}


def _located(part: str, locate: Locate) -> str:
    named = Reference.read(part)
    return part if named is None else str(locate(named.kind, named.id, named.name))
