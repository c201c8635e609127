"""A workload's name, help and commands, read from the source of its registration, without importing what it computes
with: help and completion need no more."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CommandOutline:
    """One command: its help, and whether it can be planned, and be a job."""

    name: str
    help: str
    planned: bool
    job: bool


@dataclass(frozen=True, slots=True)
class Outline:
    """What is listed of a workload."""

    help: str
    commands: tuple[CommandOutline, ...]


def read_outline(path: Path) -> Outline | None:
    """The outline of the `WORKLOAD` that a module defines; None where it is not written out as texts."""
    try:
        workload = next(calls_of(ast.parse(path.read_text(encoding="utf-8")), "Workload"))
        commands = [
            arguments_of(call, "name", "help", "config", "run", "plan", "job") for call in calls_of(workload, "Command")
        ]
        return Outline(
            _text(arguments_of(workload, "name", "help")["help"]),
            tuple(
                CommandOutline(_text(found["name"]), _text(found["help"]), "plan" in found, _is_true(found.get("job")))
                for found in commands
            ),
        )
    except (OSError, SyntaxError, StopIteration, KeyError, ValueError):
        return None


def calls_of(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """The calls of a class, in the order of the source."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call for call in found if isinstance(call.func, ast.Name) and call.func.id == name]
    return iter(sorted(named, key=lambda call: (call.lineno, call.col_offset)))


def arguments_of(call: ast.Call, *names: str) -> dict[str, ast.expr]:
    """The arguments of a call by their names; those given by their place have the names."""
    by_place = dict(zip(names, call.args, strict=False))
    return by_place | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}


def _is_true(node: ast.expr | None) -> bool:
    return node is not None and ast.literal_eval(node) is True


def _text(node: ast.expr) -> str:
    value = ast.literal_eval(node)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value
