"""The names of a package, imported when they are first used.

A package states them as imports that only a type checker runs, and so once:

    if TYPE_CHECKING:
        from .engine.map import map
    else:
        __getattr__, __dir__ = lazy_names(__name__)
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are imported under `if TYPE_CHECKING`."""
    module = sys.modules[package]
    table: dict[str, tuple[str, str]] = {}

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not table:
            table.update(_stated(inspect.getsource(module)))
        if name not in table:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        where, original = table[name]
        value = _import(package, where, original)
        setattr(module, name, value)
        return value

    return get, lambda: sorted(module.__all__)


def _stated(source: str) -> dict[str, tuple[str, str]]:
    """Name to the module it is imported from, and its name there."""
    table = {}
    for block in ast.parse(source).body:
        if not isinstance(block, ast.If) or ast.unparse(block.test) != "TYPE_CHECKING":
            continue
        for statement in block.body:
            if isinstance(statement, ast.ImportFrom):
                where = "." * statement.level + (statement.module or "")
                table |= {alias.asname or alias.name: (where, alias.name) for alias in statement.names}
    return table


def _import(package: str, where: str, name: str) -> Any:
    """What `from where import name` gives."""
    if where.strip(".") == "":
        return importlib.import_module(where + name, package)
    parent = importlib.import_module(where, package)
    return getattr(parent, name) if hasattr(parent, name) else importlib.import_module(f"{where}.{name}", package)
