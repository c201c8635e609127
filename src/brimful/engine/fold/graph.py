"""What autograd's graph of a term leads to, and the tensors that a term holds."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor

_MAX_VISITED = 10_000  # objects that are looked at for tensors


def graph_leaves(
    outputs: Sequence[Tensor], made: range = range(0), ends: Collection[Any] = ()
) -> tuple[list[Tensor], bool]:
    """The leaves that a graph leads to, and whether it holds operations with other sequence numbers than those made.

    Args:
        ends: operations at which the search ends.
    """
    todo = [output.grad_fn for output in outputs if output.grad_fn is not None and output.grad_fn not in ends]
    leaves = [output for output in outputs if output.requires_grad and output.is_leaf]
    visited, earlier = set(todo), False
    while todo:
        node = todo.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.append(variable)
        else:
            earlier = earlier or node._sequence_nr() not in made  # another thread's numbers may be larger
        for following, _ in node.next_functions:
            if following is not None and following not in visited and following not in ends:
                visited.add(following)
                todo.append(following)
    return leaves, earlier


def independent(results: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Those of some results of earlier operations that a graph leads to and that nothing else it ends at was made
    into: with respect to these, and to the leaves that remain, gradients can be taken together, none of them twice."""
    reached = _nodes_behind(outputs)
    kept = {(result.grad_fn, result.output_nr): result for result in results if result.grad_fn in reached}
    while True:
        ends = {result.grad_fn for result in kept.values()}
        leaves = {id(leaf) for leaf in graph_leaves(outputs, ends=ends)[0]}
        behind = {key: _nodes_behind([result]) for key, result in kept.items()}
        dropped = [
            key
            for key, nodes in behind.items()
            if any(other[0] in nodes for other in kept if other[0] is not key[0])
            or any(id(getattr(node, "variable", None)) in leaves for node in nodes)
        ]
        if not dropped:
            return list(kept.values())
        for key in dropped:
            del kept[key]


def _nodes_behind(tensors: Sequence[Tensor]) -> Set[Any]:
    """The operations that tensors were made by, from those of the tensors on."""
    todo = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    visited = set(todo)
    while todo:
        for following, _ in todo.pop().next_functions:
            if following is not None and following not in visited:
                visited.add(following)
                todo.append(following)
    return visited


def tensors_of(holder: Any) -> Iterator[Tensor]:
    """The tensors that a function closes over, names among its globals or has as defaults, and those of an object's
    attributes; also inside containers, functions and objects that are found there."""
    todo, visited = [holder], {id(holder)}
    while todo and len(visited) < _MAX_VISITED:
        value = todo.pop()
        if isinstance(value, Tensor):
            yield value
            continue
        for inside in _parts(value):
            if id(inside) not in visited and not isinstance(inside, type | ModuleType | str | bytes | int | float):
                visited.add(id(inside))
                todo.append(inside)


def _parts(value: Any) -> Sequence[Any]:
    match value:
        case FunctionType():
            named = [value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__]
            return [
                *(value.__closure__ or ()),
                *(value.__defaults__ or ()),
                *(value.__kwdefaults__ or {}).values(),
                *named,
            ]
        case MethodType():
            return [value.__func__, value.__self__]
        case functools.partial():
            return [value.func, *value.args, *value.keywords.values()]
        case CellType():
            try:
                return [value.cell_contents]
            except ValueError:  # nothing is in it yet
                return []
        case Mapping():
            return list(value.values())
        case tuple() | list() | set() | frozenset():
            return list(value)
        case _:
            slots = (getattr(value, name, None) for kind in type(value).__mro__ for name in _slots(kind))
            methods = (vars(type(value)).get(name) for name in ("__call__", "forward"))
            return [*getattr(value, "__dict__", {}).values(), *slots, *methods]


def _slots(kind: type) -> Sequence[str]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
