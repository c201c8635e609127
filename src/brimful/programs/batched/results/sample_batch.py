"""A batch of samples from their grids to their results, by the batched executor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
import torch

from ...execution.arguments import SampleArguments
from ...execution.encoded import Encoded
from ...execution.encoding import encode_returned
from ...execution.failures import ProgramStatus
from ..compiled import compiles
from ..evaluation.executor import Batched
from ..evaluation.side_by_side import numbers_in, shape_of, united
from ..flags import Step
from . import on_device, on_host
from .outcomes import Targets, equal_to, outcomes_of
from .template import Places, Template

Results = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Encoded, list[str | None]]
"""Outcome, failing step, category and equality by sample and candidate; bytes of what programs return; problems."""


def run_batch(
    executor: Batched, arguments: Sequence[SampleArguments], problems: list[str | None], places: Places | None = None
) -> Results:
    """Runs all programs on samples; those that have a problem are not run.

    Args:
        places: where the programs are among more, for the bytes of what they return.
    """
    graph = executor.graph
    good = [at for at, problem in enumerate(problems) if problem is None]
    count = sum(len(program.outputs) for program in graph.programs)
    outcome = np.full((len(arguments), count), int(ProgramStatus.NOT_RUN), np.int8)
    step, equal = np.full((len(arguments), count), -1, np.int32), np.full((len(arguments), count), -1, np.int8)
    category = np.zeros((len(arguments), count), np.int8)
    nothing = encode_returned([None] * (len(graph.programs) if places is None else places[1]))
    if not good:
        return outcome, step, category, equal, Encoded.of([nothing] * len(arguments)), problems
    chosen = [arguments[at] for at in good]
    finished = _Finished(executor, chosen)
    evaluation = executor.evaluate(chosen, finished=finished)
    finished.flush()
    became = outcomes_of(graph, evaluation)
    outcome[good], step[good], category[good] = became.status, became.step, became.category
    column = 0
    for number, program in enumerate(graph.programs):
        for record in program.outputs:
            same = finished.equal[record[-1]] & ~became.ended[number]
            equal[good, column] = np.where(finished.targets.known, same, -1)
            column += 1
    encoded = finished.encoded(became.ended, places)
    if len(good) < len(arguments):
        given = iter(encoded)
        encoded = Encoded.of([nothing if problem else next(given) for problem in problems])
    return outcome, step, category, equal, encoded, problems


def writes_on_host(device: torch.device) -> bool:
    """Whether the bytes of a batch on a device are written by compiled loops of the host, and not by torch."""
    return device.type == "cpu" and compiles()


_WAITING = 1 << 22  # numbers of steps that wait for others on a GPU, and of what they are compared with


class _Finished:
    """What programs return, as bytes in the making: made of every step once nothing else needs it. On a GPU steps of
    one form wait for each other, so that there are fewer kernels.

    Attributes:
        targets: of the samples.
        equal: by node that is an output, which samples' values are their targets.
    """

    def __init__(self, executor: Batched, samples: Sequence[SampleArguments]) -> None:
        self._device, self._samples = executor.device, len(samples)
        self._template = Template(executor.graph)
        self._outputs = {record[-1] for program in executor.graph.programs for record in program.outputs}
        self.targets, self.equal = Targets.of(samples, executor.device), dict[int, np.ndarray]()
        self._on_host = dict[int, on_host.ValueBytes]()
        self._on_device = dict[tuple[int, ...], on_device.ValueBytes]()
        self._waiting, self._numbers = defaultdict[Hashable, dict[int, Step]](dict), 0

    def __call__(self, node: int, step: Step) -> None:
        if not writes_on_host(self._device):
            shape = shape_of(step)
            self._waiting[node if shape is None else (shape, node in self._outputs)][node] = step
            self._numbers += numbers_in(step) + (self.targets.numbers if node in self._outputs else 0)
            if self._numbers > _WAITING:
                self.flush()
            return
        if node in self._outputs:
            self.equal[node] = equal_to(step, self.targets)
        if node in self._template.nodes:
            self._on_host[node] = on_host.value_bytes(step, self._samples)

    def flush(self) -> None:
        """Takes in the steps that wait."""
        waiting, self._numbers = list(self._waiting.values()), 0
        self._waiting.clear()
        while waiting:
            steps = waiting.pop()
            nodes, count = tuple(steps), len(steps)
            step = united(list(steps.values())) if count > 1 else steps.popitem()[1]
            assert isinstance(step, Step)
            if nodes[0] in self._outputs:
                same = equal_to(step, self.targets.repeated(count)).reshape(count, -1)
                self.equal.update(zip(nodes, same, strict=True))
            self._on_device[nodes] = on_device.value_bytes(step, count * self._samples, self._device)

    def encoded(self, ended: np.ndarray, places: Places | None) -> Encoded:
        """The bytes of all samples.

        Args:
            ended: (programs, samples): which programs ended.
            places: where the programs are among more.
        """
        parts = self._template.parts(ended, places)
        if writes_on_host(self._device):
            return on_host.record_bytes(parts, self._on_host, self._samples)
        return on_device.record_bytes(parts, self._on_device, self._samples, self._device)
