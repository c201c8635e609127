"""The front end: Python source, read and never executed, as programs.

A file holds solvers (`def solve_x(I): ...; return O`), or a batt as its generator writes it. Of Python it may use
assignments of calls, names and constants, tuple unpacking, `try` around one assignment, `s.append` and `o.append` of
tuples, and `return`. Everything else is refused with its line.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

from .operation import Vocabulary
from .problems import Problem
from .program import INPUTS, Form, Kind, Node, Program, Record
from .source import HEADERS, Source
from .types import Type, value_type

_BATT = ("task_id", "S", "I", "C", "log_path")
_DEFAULT = "_get_safe_default"
_BITS = 63  # of a number, beside its sign
_DEEPEST = 50  # levels of a statement; Python's own limit depends on who calls
_STATEMENTS = {
    ast.For: "a loop; write the operations out, or use apply",
    ast.While: "a loop; write the operations out, or use power",
    ast.If: "a branch; use branch(condition, a, b)",
    ast.With: "a with block",
    ast.Import: "an import; programs use the vocabulary and registered operations only",
    ast.ImportFrom: "an import; programs use the vocabulary and registered operations only",
    ast.FunctionDef: "a function inside of a function; use compose, fork or chain",
    ast.ClassDef: "a class",
    ast.AugAssign: "an assignment in place; use an operation such as add",
    ast.Global: "a global statement",
    ast.Nonlocal: "a nonlocal statement",
    ast.Delete: "a del statement",
    ast.Raise: "a raise statement",
    ast.Assert: "an assert statement",
}
_EXPRESSIONS = {
    ast.Attribute: "attribute access",
    ast.Lambda: "a lambda; use compose, fork, chain, rbind or lbind",
    ast.Subscript: "indexing; use an operation such as first or index",
    ast.BinOp: "arithmetic; use an operation such as add",
    ast.BoolOp: "a boolean expression; use both or either",
    ast.Compare: "a comparison; use equality or greater",
    ast.IfExp: "a conditional expression; use branch",
    ast.ListComp: "a comprehension; use apply",
    ast.SetComp: "a comprehension; use apply",
    ast.GeneratorExp: "a comprehension; use apply",
    ast.DictComp: "a comprehension; use apply",
    ast.NamedExpr: "an assignment inside of an expression",
    ast.Starred: "a starred argument",
    ast.JoinedStr: "a formatted text",
    ast.Await: "await",
    ast.Yield: "yield",
}


def programs(source: Source, vocabulary: Vocabulary) -> tuple[list[Program], list[Problem]]:
    """The programs of a file, and what is wrong with it."""
    found, problems = list[Program](), list(source.problems)
    for statement in source.module.body if source.module else ():
        match statement:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=module):
                modules = [module or ""]
            case ast.FunctionDef():
                reader = _FunctionReader(statement, source.file, vocabulary)
                if (program := reader.read()) is not None:
                    found.append(program)
                problems += reader.problems
                continue
            case _:
                text = _STATEMENTS.get(type(statement), f"{type(statement).__name__} outside of a function")
                problems.append(Problem(source.file, statement.lineno, "module", f"{text} is not part of a program"))
                continue
        for module in modules:
            if module.partition(".")[0] not in HEADERS | {"brimful"}:
                text = f"import of {module!r}; a program may name only the vocabulary's own modules"
                problems.append(Problem(source.file, statement.lineno, "import", text))
    if not found and not problems:
        text = "no program in this file; write `def solve_x(I): ...` or `def batt(task_id, S, I, C, log_path): ...`"
        problems.append(Problem(source.file, 1, "module", text))
    return found, problems


class _Refused(Exception):
    """A statement that is not part of the language."""

    def __init__(self, node: ast.AST, operation: str, message: str) -> None:
        super().__init__(message)
        self.line, self.operation, self.message = getattr(node, "lineno", 0), operation, message


@dataclass
class _FunctionReader:
    """Reads one function into nodes."""

    function: ast.FunctionDef
    file: str
    vocabulary: Vocabulary
    problems: list[Problem] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    lists: dict[str, list[Record]] = field(default_factory=dict)
    returned: tuple[list[Record], list[Record]] | None = None
    form: Form = Form.SOLVER

    def read(self) -> Program | None:
        """The program; None where it has problems, which are then in `problems`."""
        try:
            self.form = self._parameters()
        except _Refused as refused:
            self._note(refused)
            return None
        for statement in self.function.body:
            try:
                self._statement(statement)
            except _Refused as refused:
                self._note(refused)
                self._define_targets(statement)
        if self.returned is None:
            if not self.problems:
                self.problems.append(
                    Problem(self.file, self.function.lineno, self.function.name, "it returns nothing; end with return")
                )
            return None
        if self.problems:
            return None
        outputs, scores = self.returned
        return Program(
            self.function.name,
            self.form,
            self.file,
            tuple(self.nodes),
            tuple(self.lines),
            tuple(outputs),
            tuple(scores),
            self.vocabulary,
        )

    def _note(self, refused: _Refused) -> None:
        line = refused.line or self.function.lineno
        self.problems.append(Problem(self.file, line, refused.operation, refused.message))

    def _define_targets(self, statement: ast.stmt) -> None:
        """Names that a refused statement would have set, so that each mistake is reported once."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in self.names:
                self.names[node.id] = self._add(Node(Kind.CONSTANT, value=()), statement)

    def _parameters(self) -> Form:
        function, arguments = self.function, self.function.args
        name = function.name
        if function.decorator_list:
            raise _Refused(function, name, "a decorator is not part of a program")
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
            raise _Refused(function, name, "its parameters must be plain names: (I), or (task_id, S, I, C, log_path)")
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        if tuple(names) == _BATT:
            inputs = {name: name for name in INPUTS}
            form = Form.BATT
        elif len(names) == 1:
            inputs, form = {names[0]: "I"}, Form.SOLVER
        elif names and set(names) <= set(INPUTS):
            inputs, form = {name: name for name in names}, Form.SOLVER
        else:
            expected = "(I), (S, I, C) or (task_id, S, I, C, log_path)"
            raise _Refused(function, name, f"its parameters are ({', '.join(names)}); a program takes {expected}")
        for local, input_name in inputs.items():
            self.names[local] = self._add(Node(Kind.INPUT, input_name, type=INPUTS[input_name]), function)
        return form

    def _add(self, node: Node, at: ast.AST) -> int:
        self.nodes.append(node)
        self.lines.append(getattr(at, "lineno", self.function.lineno))
        return len(self.nodes) - 1

    def _statement(self, statement: ast.stmt) -> None:
        if self.returned is not None:
            raise _Refused(statement, "return", "code after the return is never reached; remove it")
        if _depth(statement) > _DEEPEST:
            text = f"it is nested more than {_DEEPEST} levels deep; assign its parts to names of their own"
            raise _Refused(statement, type(statement).__name__.lower(), text)
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.Try():
                self._try(statement)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[record])):
                self._append(name, record, statement)
            case ast.Return(value=value) if value is not None:
                self._return(value)
            case ast.Expr(value=value):
                self._expression(value)
            case _:
                text = _STATEMENTS.get(type(statement), f"a statement {type(statement).__name__}")
                raise _Refused(statement, type(statement).__name__.lower(), f"{text} is not part of a program")

    def _assign(self, target: ast.expr, value: ast.expr, guard: _Guard | None = None) -> None:
        match target, value:
            case ast.Name(id=name), ast.List(elts=[]):
                self.lists[name] = []
            case ast.Name(id=name), _:
                self.names[name] = self._expression(value, guard)
            case ast.Tuple(elts=parts), _ if all(isinstance(part, ast.Name) for part in parts):
                whole = self._expression(value, guard)
                for index, part in enumerate(parts):
                    item = Node(Kind.ITEM, args=(whole,), value=(index, len(parts)))
                    self.names[part.id] = self._add(item, target)  # pyright: ignore[reportAttributeAccessIssue]
            case _:
                raise _Refused(target, "assignment", "the target must be a name, or a tuple of names")

    def _try(self, statement: ast.Try) -> None:
        match statement:
            case ast.Try(
                body=[ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Call() as call)],
                handlers=[
                    ast.ExceptHandler(
                        type=kinds,
                        body=[
                            ast.Assign(
                                targets=[ast.Name(id=other)],
                                value=ast.Call(func=ast.Name(id=function), args=[ast.Name() as default]),
                            )
                        ],
                    )
                ],
                orelse=[],
                finalbody=[],
            ) if name == other and function == _DEFAULT:
                if any(isinstance(part, ast.Call) for part in (call.func, *call.args)):
                    raise _Refused(call, "try", "one operation per try: assign the inner call to a name of its own")
                guard = _Guard(_exceptions(kinds), None)
                if not (isinstance(call.func, ast.Name) and call.func.id == default.id):
                    guard = _Guard(guard.catches, self._name(default))
                self._assign(target, call, guard)
            case _:
                form = f"try: t = f(...) / except (TypeError, ...): t = {_DEFAULT}(f)"
                raise _Refused(statement, "try", f"a try block must have the form `{form}`")

    def _append(self, name: str, record: ast.expr, at: ast.stmt) -> None:
        if name not in self.lists:
            raise _Refused(at, "append", f"{name!r} is not a list of this program; begin with `{name} = []`")
        if not isinstance(record, ast.Tuple) or not record.elts:
            raise _Refused(at, "append", "append a tuple, such as (7, False, 'name', t7)")
        self.lists[name].append(tuple(self._expression(part, texts=True) for part in record.elts))

    def _return(self, value: ast.expr) -> None:
        match value:
            case ast.Tuple(elts=[ast.Name(id=outputs), ast.Name(id=scores)]) if {outputs, scores} <= set(self.lists):
                self.returned = self.lists[outputs], self.lists[scores]
            case _ if self.form is Form.BATT:
                raise _Refused(value, "return", "a batt ends with `return o, s`, the lists of its outputs and scores")
            case _:
                self.returned = [(self._expression(value),)], []

    def _expression(self, value: ast.expr, guard: _Guard | None = None, texts: bool = False) -> int:
        match value:
            case ast.Name():
                return self._name(value)
            case ast.Call():
                return self._call(value, guard)
        return self._add(_constant(value, texts), value)

    def _name(self, name: ast.Name) -> int:
        if name.id in self.names:
            return self.names[name.id]
        if name.id in self.vocabulary.constants:
            constant = self.vocabulary.constants[name.id]
            return self._add(Node(Kind.CONSTANT, value=constant, type=value_type(constant)), name)
        if (operation := self.vocabulary.get(name.id)) is not None:
            return self._add(Node(Kind.FUNCTION, name.id, operation=operation, type=Type.CALLABLE), name)
        raise _Refused(name, name.id, self._unknown(name.id))

    def _unknown(self, name: str) -> str:
        if name == self.function.name:
            return "a program cannot call itself"
        if name in self.lists:
            return f"{name!r} is a list of results; a program appends to it, and returns it, and nothing else"
        if name == "log_path":
            return "log_path says where failures are written, and is no value of a program"
        return f"unknown name; it is not assigned above, nor in the vocabulary {self.vocabulary.name}"

    def _call(self, call: ast.Call, guard: _Guard | None) -> int:
        if call.keywords:
            raise _Refused(call, _text(call.func), "keyword arguments are not part of a program; pass by position")
        if not isinstance(call.func, ast.Name | ast.Call):
            raise _Refused(call, _text(call.func), f"{_kind(call.func)} is not part of a program")
        catches = None if guard is None else guard.catches
        fallback = None if guard is None else guard.fallback
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if isinstance(call.func, ast.Name) and name not in self.names and name not in self.vocabulary.constants:
            operation = self.vocabulary.get(name)
            if operation is None:
                raise _Refused(call, name, self._unknown(name))
            args = tuple(self._expression(arg) for arg in call.args)
            node = Node(Kind.OPERATION, name, args, operation, None, operation.result, catches, fallback)
            return self._add(node, call)
        function = self._expression(call.func)
        args = (function, *(self._expression(arg) for arg in call.args))
        if fallback is None and catches is not None:
            fallback = function
        return self._add(Node(Kind.CALL, args=args, catches=catches, fallback=fallback), call)


@dataclass(frozen=True, slots=True)
class _Guard:
    """What a try block asks for: which exceptions give the default, and of which function."""

    catches: frozenset[str]
    fallback: int | None


def _exceptions(kinds: ast.expr | None) -> frozenset[str]:
    """The names of the exceptions that a handler lists."""
    names = ["Exception"] if kinds is None else [_text(kind) for kind in _elements(kinds)]
    for name in names:
        kind = getattr(builtins, name, None)
        if kinds is not None and not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise _Refused(kinds, "try", f"{name!r} is no exception of Python")
    return frozenset(names)


def _elements(value: ast.expr) -> Iterator[ast.expr]:
    yield from value.elts if isinstance(value, ast.Tuple) else (value,)


def _constant(value: ast.expr, texts: bool) -> Node:
    """A constant written out: a number, True, False, or a tuple of these; in records also a text or None."""
    match value:
        case ast.Constant(value=bool() | int() as number):
            return _number(number, value)
        case ast.Constant(value=str() | None as text) if texts:
            return Node(Kind.CONSTANT, value=text)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return _number(-number, value)
        case ast.Tuple(elts=parts):
            whole = tuple(_constant(part, texts).value for part in parts)
            return Node(Kind.CONSTANT, value=whole, type=value_type(whole))
    raise _Refused(value, _text(value), f"{_kind(value)} is not part of a program")


def _number(number: int, at: ast.expr) -> Node:
    if number.bit_length() > _BITS:
        raise _Refused(at, "number", f"a number of {number.bit_length():,} bits; programs have integers of 64 bits")
    return Node(Kind.CONSTANT, value=number, type=value_type(number))


def _depth(node: ast.AST) -> int:
    """The levels of a syntax tree, counted without recursion."""
    depth, level = 0, [node]
    while level:
        depth, level = depth + 1, [child for parent in level for child in ast.iter_child_nodes(parent)]
    return depth


def _kind(value: ast.expr) -> str:
    return _EXPRESSIONS.get(type(value), f"{type(value).__name__} (`{_text(value)}`)")


def _text(node: ast.AST) -> str:
    """A part of the source, shortened."""
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."
