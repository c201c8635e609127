"""The options of a command, read from the source of the classes that declare them: help and completion need what they
declare, and not what the workload computes with."""

import ast
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any

from ..base.background import cores
from .config import PLAIN, FieldInfo, Option, in_order, option
from .outline import arguments_of, calls_of

_CALLS = {"Path": Path, "cores": cores, "max": max, "min": min, "tuple": tuple}
"""What a default or the choices may be computed with."""


def read_options(workload: Path, command: str) -> list[FieldInfo] | None:
    """The options of a command of the `WORKLOAD` that a module defines, as `describe` gives them; None where they are
    not written out."""
    modules: dict[Path, _Module] = {}
    try:
        module = _module(workload, modules)
        for call in calls_of(module.tree, "Command"):
            given = arguments_of(call, "name", "help", "config", "run", "plan", "job")
            if ast.literal_eval(given["name"]) == command:
                infos = _fields(module, _name(given["config"]))
                return [infos[name] for name in in_order(infos)]
    except (OSError, SyntaxError, LookupError, TypeError, ValueError):
        pass
    return None


@dataclass(frozen=True, slots=True)
class _Module:
    """The source of a module, and of those that were read with it."""

    file: Path
    tree: ast.Module
    others: dict[Path, "_Module"] = field(repr=False)

    def definition(self, name: str) -> "tuple[_Module, ast.AST | None]":
        """The class or value that a name stands for, and the module it is in; None for a module itself.

        Raises:
            LookupError: it is neither defined here nor imported from a module beside this one.
        """
        for node in self.tree.body:
            match node:
                case ast.ClassDef() if node.name == name:
                    return self, node
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                    return self, value
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    return self, value
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    for target, value in zip(targets, values, strict=True):
                        if isinstance(target, ast.Name) and target.id == name:
                            return self, value
                case ast.ImportFrom(level=level) if level:
                    for alias in node.names:
                        if (alias.asname or alias.name) == name:
                            return self._imported(node, alias.name)
                case _:
                    pass
        raise LookupError(name)

    def _imported(self, node: ast.ImportFrom, name: str) -> "tuple[_Module, ast.AST | None]":
        place = self.file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        if (submodule := place / f"{name}.py").exists():
            return _module(submodule, self.others), None
        source = place.with_suffix(".py")
        return _module(source if source.exists() else place / "__init__.py", self.others).definition(name)


def _module(file: Path, read: dict[Path, _Module]) -> _Module:
    if file not in read:
        read[file] = _Module(file, ast.parse(file.read_text(encoding="utf-8")), read)
    return read[file]


def _fields(module: _Module, name: str) -> dict[str, FieldInfo]:
    """The options that a class and those it is derived from declare."""
    module, found = module.definition(name)
    if not isinstance(found, ast.ClassDef):
        raise LookupError(name)
    infos: dict[str, FieldInfo] = {}
    for base in reversed(found.bases):
        infos |= _fields(module, _name(base))
    for node in found.body:
        if isinstance(node, ast.AnnAssign):
            name, kinds = _name(node.target), _kinds(module, node.annotation)
            if plain := [kind for kind in kinds if kind is not None and kind in PLAIN]:
                inherited = infos[name].option if name in infos else Option("")
                default, declared = _declared(module, node.value, inherited)
                wide = any(kind is object for kind in kinds)
                infos[name] = FieldInfo(name, plain[0], None in kinds, default, declared, wide)
    return infos


def _declared(module: _Module, value: ast.expr | None, inherited: Option) -> tuple[Any, Option]:
    """The default of a field, and what it declares."""
    if value is None:
        return MISSING, inherited
    if not isinstance(value, ast.Call) or ast.unparse(value.func) != "option":
        return _value(module, value), inherited
    given = {name: _value(module, argument) for name, argument in arguments_of(value, "default").items()}
    made = option(**given)
    return made.default, made.metadata["option"]


def _kinds(module: _Module, annotation: ast.expr) -> list[type | None]:
    """The members of a union of types: plain ones as they are, every other one as `object`."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_kinds(module, left), *_kinds(module, right)]
        case ast.Constant(value=None):
            return [None]
        case ast.Name(id=name):
            if plain := [kind for kind in PLAIN if kind.__name__ == name]:
                return [*plain]
            try:
                where, named = module.definition(name)
            except LookupError:
                return [object]
            return _kinds(where, named) if isinstance(named, ast.BinOp) else [object]
        case _:
            return [object]


def _value(module: _Module, node: ast.AST | None) -> Any:
    """What an expression of literals, names and a few functions gives; a mapping, its keys.

    Raises:
        LookupError, ValueError: it is more than that.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(module, operand)
        case ast.Name(id=name):
            return _value(*module.definition(name))
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return _value(*module.definition(name)[0].definition(attribute))
        case ast.Tuple(elts=parts):
            return tuple(_parts(module, parts))
        case ast.Dict(keys=keys):
            return dict.fromkeys(_value(module, key) for key in keys)
        case ast.JoinedStr(values=parts):
            return "".join(str(_value(module, part)) for part in parts)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return _value(module, value)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _CALLS[name](*_parts(module, arguments))
        case _:
            raise ValueError(f"{ast.unparse(node) if node else 'a module'} is not written out")


def _parts(module: _Module, nodes: list[ast.expr]) -> list[Any]:
    parts = []
    for node in nodes:
        parts += _value(module, node.value) if isinstance(node, ast.Starred) else [_value(module, node)]
    return parts


def _name(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise ValueError(f"{ast.unparse(node)} is not a name")
    return node.id
