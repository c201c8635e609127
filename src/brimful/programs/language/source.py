"""A source file: its syntax tree, what it imports, and what it names. Nothing of it is executed."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .problems import Problem

HEADERS = frozenset(
    {"dsl", "vocabulary", "constants", "arc_types", "pile", "gpu_env", "safe_dsl", "batt_gpu", "utils", "differs"}
)
"""Modules that sources import at the top, and that stand for the vocabulary: the imports are ignored."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file after reading: its module, or why it has none."""

    file: str
    module: ast.Module | None
    problems: tuple[Problem, ...]

    @classmethod
    def read(cls, text: str, file: str) -> Source:
        """Reads source text. Nothing of it is executed."""
        try:
            return cls(file, ast.parse(text), ())
        except SyntaxError as error:
            return cls(file, None, (Problem(file, error.lineno or 1, "syntax", f"{error.msg}; this is not Python"),))
        except (ValueError, RecursionError, MemoryError) as error:
            return cls(file, None, (Problem(file, 1, "syntax", f"this cannot be read: {error}"),))

    def imports(self) -> set[str]:
        """The modules that it imports at the top."""
        names = set[str]()
        for statement in self.module.body if self.module else ():
            if isinstance(statement, ast.Import):
                names |= {alias.name for alias in statement.names}
            elif isinstance(statement, ast.ImportFrom):
                names.add(statement.module or "")
        return names

    def names(self) -> set[str]:
        """All names that it reads."""
        return {node.id for node in ast.walk(self.module) if isinstance(node, ast.Name)} if self.module else set()

    def defines_functions(self) -> bool:
        """Whether there may be programs in it."""
        return any(isinstance(statement, ast.FunctionDef) for statement in self.module.body) if self.module else False
