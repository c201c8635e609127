"""The options of a command, read from the source of the classes that declare them: completion needs their names, and
not what the workload computes with."""

import ast
import contextlib
from dataclasses import dataclass
from pathlib import Path

from .outline import arguments_of, calls_of


@dataclass(frozen=True, slots=True)
class OptionOutline:
    """One option as it is typed.

    Attributes:
        flags: its spellings, such as "--out".
        help: what it is for; empty where the source does not say it as a text.
        flag: whether it stands alone, without a value.
    """

    flags: tuple[str, ...]
    help: str
    flag: bool


def read_options(workload: Path, command: str) -> list[OptionOutline] | None:
    """The options, but for those given by their place, of a command of the `WORKLOAD` that a module defines; None where
    they are not written out."""
    try:
        for call in calls_of(_tree(workload), "Command"):
            given = arguments_of(call, "name", "help", "config", "run", "plan", "job")
            if ast.literal_eval(given["name"]) == command:
                options = _fields(workload, _name(given["config"]))
                return [option for option in options.values() if option is not None]
    except (OSError, SyntaxError, LookupError, ValueError):
        pass
    return None


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _fields(file: Path, name: str) -> dict[str, OptionOutline | None]:
    """The fields of a class and of those it is derived from; None for one that is given by its place."""
    file, found = _class(file, name)
    options: dict[str, OptionOutline | None] = {}
    for base in reversed(found.bases):
        options |= _fields(file, _name(base))
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call) and _name(node.value.func) == "option":
            options[_name(node.target)] = _option(_name(node.target), node.annotation, node.value)
    return options


def _option(name: str, kind: ast.expr, call: ast.Call) -> OptionOutline | None:
    given, text = arguments_of(call, "default"), ""
    if "positional" in given and ast.literal_eval(given["positional"]):
        return None
    aliases = ast.literal_eval(given["aliases"]) if "aliases" in given else ()
    with contextlib.suppress(ValueError):
        text = str(ast.literal_eval(given["help"]))
    alone = ast.unparse(kind).partition(" | ")[0] == "bool"  # in Python it may be more than that
    own = "--" + name.replace("_", "-")
    flags = [own, *(["--no-" + own[2:]] if alone else []), *([f"-{name}"] if len(name) == 1 else [])]
    return OptionOutline((*flags, *("--" + alias.replace("_", "-") for alias in aliases)), text, alone)


def _class(file: Path, name: str) -> tuple[Path, ast.ClassDef]:
    """The definition of a class that a module defines or imports, and the file it is in."""
    for node in _tree(file).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return file, node
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    module = file.parents[node.level - 1].joinpath(*node.module.split("."))
                    source = module.with_suffix(".py")
                    return _class(source if source.exists() else module / "__init__.py", alias.name)
    raise LookupError(name)


def _name(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise ValueError(f"{ast.unparse(node)} is not a name")
    return node.id
