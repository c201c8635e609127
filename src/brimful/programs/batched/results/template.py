"""What programs return, as the bytes around its values and the values between them: the same for all samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...execution.encoding import encode, tuple_header
from ...language.graph import Graph, GraphProgram
from ...language.program import Kind

Places = tuple[Sequence[int], int]
"""The numbers of some programs, and how many there are of all."""

Part = tuple[bytes | int, np.ndarray | None]
"""What is written, bytes or the value of a node, and for which samples; None for all."""


class Template:
    """What the programs of a graph return.

    Attributes:
        nodes: those whose values are written. Constants are not among them: their bytes are known.
    """

    def __init__(self, graph: Graph) -> None:
        constants = {index: node.value for index, node in enumerate(graph.nodes) if node.kind is Kind.CONSTANT}
        self._programs = [_joined(_pieces(program), constants) for program in graph.programs]
        self.nodes = frozenset(part for parts in self._programs for part in parts if isinstance(part, int))

    def parts(self, ended: np.ndarray, places: Places | None = None) -> list[Part]:
        """What is written, in order.

        Args:
            ended: (programs, samples): which programs ended, and return None.
            places: where they are among more programs, the others of which return None.
        """
        return list(self._parts(ended, places))

    def _parts(self, ended: np.ndarray, places: Places | None) -> Iterator[Part]:
        numbers, total = (range(len(self._programs)), len(self._programs)) if places is None else places
        at = {number: position for position, number in enumerate(numbers)}
        yield tuple_header(total), None
        for number in range(total):
            if number not in at:
                yield b"N", None
                continue
            ends = ended[at[number]]
            some = bool(ends.any())
            for part in self._programs[at[number]]:
                yield part, ~ends if some else None
            if some:
                yield b"N", ends


def _pieces(program: GraphProgram) -> Iterator[bytes | int]:
    """The fixed bytes of what a program returns, and between them nodes."""
    yield tuple_header(2)
    for records in (program.outputs, program.scores):
        yield tuple_header(len(records))
        for record in records:
            yield tuple_header(len(record))
            yield from record


def _joined(parts: Iterator[bytes | int], constants: dict[int, object]) -> list[bytes | int]:
    """The same with the bytes of constants, and bytes that follow each other as one."""
    joined: list[bytes | int] = []
    for part in parts:
        known = encode(constants[part]) if isinstance(part, int) and part in constants else part
        if joined and isinstance(known, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += known
        else:
            joined.append(known)
    return joined
