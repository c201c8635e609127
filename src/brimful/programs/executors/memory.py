"""The bytes that a batch takes in the batched executor, before anything is measured: the columns that live together."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.memory.cost import Cost
from ..batched.evaluation.live_bytes import peak_bytes
from ..batched.evaluation.schedule import in_source_order
from ..data.tasks import Sample
from ..language.graph import Graph

_FIXED = 64e6  # bytes of the compiled code and of a small batch


def batched_cost(graph: Graph, samples: Sequence[Sample]) -> Cost:
    """What a batch takes by the number of its samples."""
    sizes = [len(sample.I) * len(sample.I[0]) for sample in samples if sample.I]
    cells = sum(sizes) / max(1, len(sizes))
    flags = 2.0 * len(graph.nodes)
    return Cost(_FIXED, peak_bytes(graph, in_source_order(graph), cells) + flags)
