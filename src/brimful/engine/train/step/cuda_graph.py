"""Whole steps as CUDA graphs: one launch for all kernels of forward, backward and optimizer.

The first steps run one by one, on a stream of their own; then one is captured and replayed from there on, for batches
of the same form. A batch of another form, such as a last, shorter one, runs by itself. Random numbers are the same as
without a graph: the generator is seeded before a replay as it is before a step.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ....core.base import foreach, pytree
from ....core.base.errors import InputError
from ....core.memory.oom import clear_frames, is_out_of_memory
from ..optim.optimizers import skips_by_itself
from .optimizer_step import Step
from .rng import sow
from .step_log import Row

WARM = 3
"""Steps before the capture: libraries choose their kernels in them, and the optimizer makes its state."""


class Graphed:
    """A step that is replayed where it can be."""

    def __init__(self, step: Step, warn: Callable[[str], None]) -> None:
        self._step, self._warn = step, warn
        self._warm, self._pieces = 0, 0
        self._form: Any = None
        self._batch: list[Tensor] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        self._record: Row | None = None
        self._off = not _can(step, warn)
        self._stream = None if self._off else torch.cuda.Stream(step.device)

    def __call__(self, batch: Any, seed: int) -> Row:
        if self._off:
            return self._step(batch, seed)
        form = _form(batch)
        if form is None:
            self._off = True
            return self._step(batch, seed)
        if self._form is None:
            self._form = form
        if form != self._form:
            return self._step(batch, seed)
        if self._warm < WARM or self._pieces != self._step.pieces:
            self._graph = None
            self._warm = self._warm + 1 if self._pieces == self._step.pieces else 1
            self._pieces = self._step.pieces
            return self._aside(batch, seed)
        if self._graph is None and not self._capture(batch):
            return self._step(batch, seed)
        return self._replay(batch, seed)

    def _aside(self, batch: Any, seed: int) -> Row:
        """On a stream of its own, as a capture asks for."""
        assert self._stream is not None
        self._stream.wait_stream(torch.cuda.current_stream(self._step.device))
        with torch.cuda.stream(self._stream):
            record = self._step(batch, seed)
        torch.cuda.current_stream(self._step.device).wait_stream(self._stream)
        return record

    def _capture(self, batch: Any) -> bool:
        static = pytree.apply(batch, lambda tensor: tensor.clone())
        self._batch = [tensor for _, tensor in pytree.leaves(static)]
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._step.device)
        torch.cuda.synchronize(self._step.device)
        self._step.optimizer.zero_grad(set_to_none=True)
        try:
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._record = self._step.recorded(static)
        except RuntimeError as error:  # memory, or something that waits for the device
            clear_frames(error)
            torch.cuda.set_stream(before)  # torch does not go back to it where the end of a capture fails
            graph.reset()
            self._off, self._batch, self._record = True, [], None
            self._step.optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize(self._step.device)
            why = "memory ran out" if is_out_of_memory(error) else str(error).splitlines()[0]
            self._warn(f"a step cannot be captured as a graph ({why}); steps run one by one")
            return False
        self._graph = graph
        return True

    def _replay(self, batch: Any, seed: int) -> Row:
        assert self._graph is not None and self._record is not None
        foreach.copy(self._batch, [tensor for _, tensor in pytree.leaves(batch)])
        sow(self._step.device, seed)
        self._graph.replay()
        return self._record


def _form(batch: Any) -> Any:
    """Names, dtypes and shapes of all tensors; None for a batch that holds anything else."""
    try:
        return [(name, tensor.dtype, tensor.shape) for name, tensor in pytree.leaves(batch)]
    except InputError:
        return None


def _can(step: Step, warn: Callable[[str], None]) -> bool:
    if step.device.type != "cuda":
        warn("graph=True needs CUDA; steps run one by one")
        return False
    if not skips_by_itself(step.optimizer) or step.ranks > 1:
        warn("graph=True needs adamw or adam, on one rank; steps run one by one")
        return False
    if not all(isinstance(part["lr"], torch.Tensor) for part in step.optimizer.param_groups):
        warn("graph=True needs an optimizer whose lr is a tensor, or the schedule would be lost; steps run one by one")
        return False
    return True
