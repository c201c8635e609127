"""Triton's interpreter without a search of its whole language at every call of a function, a third of what it takes."""

import inspect
import sys
from typing import Any

import pytest


def remember_builtins(patched: pytest.MonkeyPatch) -> None:
    """Has the interpreter, where a test has imported it, search each module of the language once: which of its members
    are built in does not change, but for those that are patched already."""
    interpreter: Any = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None or not hasattr(interpreter, "_patch_builtin"):
        return
    is_builtin, patch_attribute = interpreter.tl.core.is_builtin, interpreter._patch_attr
    known: dict[Any, list[str]] = {}

    def patch_builtin(module: Any, builder: Any, *scope: Any) -> None:
        if module not in known:
            known[module] = [name for name, member in inspect.getmembers(module) if is_builtin(member)]
        for name in known[module]:
            if is_builtin(member := getattr(module, name)):
                patch_attribute(module, name, member, builder, *scope)

    patched.setattr(interpreter, "_patch_builtin", patch_builtin)
