"""What became of every candidate output in a batch, from the failures of all nodes.

Legend: N samples, K candidate outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..execution.failures import ProgramStatus
from ..language.graph import Graph
from ..language.program import ancestors
from .convert import encode
from .executor import BatchEvaluation
from .flags import Step
from .operations.scalars import equal as equal_rows


@dataclass(frozen=True, slots=True)
class BatchOutcomes:
    """By sample and candidate: status, first failing step, its category; and by program and sample whether it ended."""

    status: np.ndarray
    step: np.ndarray
    category: np.ndarray
    ended: np.ndarray


def outcomes_of(graph: Graph, evaluation: BatchEvaluation) -> BatchOutcomes:
    """What `Sequential.outcomes` says of one sample, for all samples of a batch."""
    samples = evaluation.failed.shape[1]
    count = sum(len(program.outputs) for program in graph.programs)
    status, category = (np.zeros((samples, count), np.int8) for _ in range(2))
    step = np.full((samples, count), -1, np.int32)
    ended = np.zeros((len(graph.programs), samples), bool)
    own, column = (evaluation.failed != 0) & ~evaluation.ended, 0
    for number, program in enumerate(graph.programs):
        step_of = np.zeros(len(graph.nodes), np.int32)
        step_of[list(program.steps)] = list(program.steps.values())
        order = sorted(program.steps, key=program.steps.__getitem__)
        ends = _first(evaluation.ended, order)
        ended[number] = ends >= 0
        for record in program.outputs:
            needed = sorted(ancestors(graph.nodes, record), key=program.steps.__getitem__)
            first = _first(own, needed)
            first = np.where(ends >= 0, ends, first)
            hit = np.flatnonzero(first >= 0)
            nodes = first[hit]
            status[hit, column] = np.where(ends[hit] >= 0, int(ProgramStatus.FAILED), int(ProgramStatus.DEFAULTED))
            step[hit, column] = step_of[nodes]
            category[hit, column] = evaluation.failed[nodes, hit]
            column += 1
    return BatchOutcomes(status, step, category, ended)


def _first(flags: np.ndarray, nodes: list[int]) -> np.ndarray:
    """The first of some nodes that has a flag, for every sample; -1 where none has."""
    if not nodes:
        return np.full(flags.shape[1], -1)
    of = flags[nodes]
    return np.where(of.any(axis=0), np.array(nodes)[of.argmax(axis=0)], -1)


def equal_to(step: Step, targets: Step, device: torch.device) -> np.ndarray:
    """Which samples' values are their targets."""
    same = equal_rows(step.column, targets.column)
    if same is None:
        failed = np.zeros(step.rows, np.int8) if step.failed is None else step.failed.numpy(force=True)
        good = np.flatnonzero(failed == 0).tolist()
        pairs = zip(good, step.decode(good), targets.decode(good), strict=True)
        flags = np.zeros(step.rows, bool)
        for row, value, target in pairs:
            flags[row] = value == target
        return flags
    flags = same.numpy(force=True).copy()
    apart = sorted({*step.boxed, *targets.boxed})
    failed = None if step.failed is None or not apart else step.failed.numpy(force=True)
    alive = [row for row in apart if failed is None or not failed[row]]
    for row, value, target in zip(alive, step.decode(alive), targets.decode(alive), strict=True):
        flags[row] = value == target
    return flags


def target_step(targets: list[object], device: torch.device) -> Step:
    """The targets of all samples, as a column of grids."""
    column, boxed = encode(targets, device, "grid")
    return Step(column, None, boxed)
