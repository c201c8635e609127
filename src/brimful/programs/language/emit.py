"""A graph as an importable Python module, with `batt(task_id, S, I, C, log_path)` for single calls, and
`batt_vectorized(inputs)` for many samples at once.

Every operation is one assignment. What fails yields its default, or, where the source lists exceptions and this is
none of them, escapes from the function. `log_path` names a file to which a call appends one line of JSON per operation
that failed, and one for what escapes; None writes nothing.
"""

from __future__ import annotations

import keyword
import re

from .graph import Graph, GraphProgram
from .graph_text import graph_values
from .program import Form, Kind, Node
from .types import constant_empty

_HEADER = '''"""{title}

Emitted by brimful: {programs} programs, {operations} operations. Regenerate it rather than edit it.
{plan}"""

from functools import cache

from brimful.programs.execution.single_call import {imported}

{names}

def batt(task_id, S, I, C, log_path=None):
    """Outputs and scores of one sample, as two lists of tuples."""
    with Failures(log_path, task_id) as failures:
        o = []
        s = []
'''
_IMPORTED = ("Failures", "begin", "constant_empty", "default_of", "operations", "unpacked")
_FOOTER = '''

_NODES = [
{nodes}
]
_PROGRAMS = [
{programs}
]


@cache
def _vectorized():
    from brimful.programs.executors.vectorized import vectorized

    return vectorized({vocabulary!r}, _NODES, _PROGRAMS)


def batt_vectorized(inputs, device="auto", batch_size=1000):
    """(results, ok) of many samples, each (task_id, S, I, C): what `batt` returns for every one of them, None where
    an exception escapes from it; and by sample and output whether nothing that it depends on failed."""
    return _vectorized()(inputs, device, batch_size)
'''
_TAKEN = {*_IMPORTED, "batt_vectorized", "cache", "I", "S", "C", "task_id", "log_path", "o", "s", "batt", "failures"}


def may_name(name: str) -> bool:
    """Whether an operation may have a name: one that Python or an emitted module uses otherwise it may not."""
    usable = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
    return usable and name not in _TAKEN and not re.fullmatch(r"t\d+", name)


def emit(graph: Graph, vocabulary: str, title: str = "Programs over grids.", plan: str = "") -> str:
    """The text of a module that computes a graph.

    Args:
        vocabulary: the name of the vocabulary that its operations are from.
        title: the first line of the module's docstring.
        plan: how the operations run, as a text for the docstring.
    """
    lines = [
        _HEADER.format(
            imported=", ".join(_IMPORTED),
            title=_in_docstring(title),
            plan=f"\n{_in_docstring(plan)}" if plan else "",
            programs=len(graph.programs),
            operations=graph.merged,
            names=_imports(graph, vocabulary),
        )
    ]
    body = [line for index, node in enumerate(graph.nodes) for line in _assignment(index, node)]
    body += [line for number, program in enumerate(graph.programs) for line in _appends(number, program)]
    lines += [f"    {line}" for line in body]
    nodes, programs = ("\n".join(f"    {one!r}," for one in part) for part in graph_values(graph))
    footer = _FOOTER.format(nodes=nodes, programs=programs, vocabulary=vocabulary)
    return "\n".join([*lines, "    return o, s", footer])


def _in_docstring(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "")


def _imports(graph: Graph, vocabulary: str) -> str:
    """The operations by name: as they are called, and as values where those differ."""
    used = {node.operation.name: node.operation for node in graph.nodes if node.operation is not None}
    called = sorted(used)
    lines = [f"_OPERATIONS = operations({vocabulary!r}, {tuple(called)!r})"]
    lines += [f"{name} = _OPERATIONS[{name!r}].function" for name in called]
    lines += [f"_value_{name} = _OPERATIONS[{name!r}].value" for name in called]
    return "\n".join(lines) + "\n"


def _assignment(index: int, node: Node) -> list[str]:
    args = [f"t{arg}" for arg in node.args]
    match node.kind:
        case Kind.INPUT:
            return [f"    t{index} = {node.name}"]
        case Kind.CONSTANT:
            return [f"    t{index} = {node.value!r}"]
        case Kind.FUNCTION:
            return [f"    t{index} = _value_{node.name}"]
        case Kind.ITEM:
            call = f"unpacked({args[0]}, {node.value[0]}, {node.value[1]})"
        case Kind.CALL:
            call = f"{args[0]}({', '.join(args[1:])})"
        case Kind.OPERATION:
            call = f"{node.name}({', '.join(args)})"
    caught = repr(tuple(sorted(node.caught))).replace("'", "")
    return [
        "    begin()",
        "    try:",
        f"        t{index} = {call}",
        f"    except {caught} as error:",
        f"        t{index} = failures.default({index}, {node.label!r}, error, {_default(node)})",
    ]


def _default(node: Node) -> str:
    if node.kind is Kind.CALL:
        return f"default_of(t{node.args[0] if node.fallback is None else node.fallback})"
    if node.fallback is not None:
        return f"default_of(t{node.fallback})"
    default = () if node.operation is None else node.operation.default
    return "constant_empty" if default is constant_empty else repr(default)


def _appends(number: int, program: GraphProgram) -> list[str]:
    if program.form is Form.SOLVER:
        node = program.outputs[0][0]
        return [f"    o.append(({number}, False, {program.name!r}, t{node}))"]
    return [
        f"    {to}.append(({', '.join(f't{node}' for node in record)},))"
        for to, records in (("o", program.outputs), ("s", program.scores))
        for record in records
    ]
