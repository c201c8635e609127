"""Checking types: calls that can never work, since the number or the types of their arguments are wrong.

What an operation may be given is loose on purpose. A call is reported only where no value of the argument's type is
what the operation asks for. In a solver that is a mistake; in a batt, whose generator mutates calls, such a step fails
for every sample and yields its default.
"""

from collections.abc import Iterator

from .problems import Problem
from .program import Form, Kind, Node, Program
from .types import Type, may_be


def type_problems(program: Program) -> Iterator[Problem]:
    """The calls of a program that can never work."""
    fatal = program.form is Form.SOLVER
    for node, line in zip(program.nodes, program.lines, strict=True):
        for message in _messages(program, node):
            yield Problem(program.file, line, node.label, message, fatal)


def _messages(program: Program, node: Node) -> Iterator[str]:
    types = [program.nodes[arg].type for arg in node.args]
    if node.kind is Kind.CALL and not may_be(types[0], Type.CALLABLE):
        yield f"calls a value of type {types[0].value}, which is no function"
    if node.operation is None or node.kind is not Kind.OPERATION:
        return
    expected = node.operation.arguments
    if len(types) != len(expected):
        yield f"takes {len(expected)} arguments, and gets {len(types)}"
        return
    for position, (given, asked) in enumerate(zip(types, expected, strict=True), 1):
        if not may_be(given, asked):
            yield f"argument {position} is {given.value}; it takes {asked.value}"
