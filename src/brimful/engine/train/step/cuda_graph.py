"""Whole steps as CUDA graphs: one launch for all kernels of forward, backward and optimizer.

The first steps run one by one, on a stream of their own; then one is captured, and replayed for batches of the same
shapes. A batch of other shapes, such as a shorter last one, runs by itself. Random numbers are the same as without a
graph: the generator is seeded before a replay as it is before a step.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ....core.base import foreach, pytree
from ....core.base.errors import InputError
from ....core.base.rng import seed_generators
from ....core.memory.oom import clear_frames, is_out_of_memory
from ..optim.optimizers import skips_on_device
from .optimizer_step import OptimizerStep, StepRow

WARMUP_STEPS = 3
"""Steps before the capture: libraries choose their kernels in them, and the optimizer makes its state."""


class GraphedStep:
    """A step that is replayed where it can be."""

    def __init__(self, step: OptimizerStep, warn: Callable[[str], None]) -> None:
        self._step, self._warn = step, warn
        self._warmed_up, self._micro_batches = 0, 0
        self._shapes: Any = None
        self._static_batch: list[Tensor] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        self._row: StepRow | None = None
        self._off = not _is_supported(step, warn)
        self._stream = None if self._off else torch.cuda.Stream(step.device)

    def __call__(self, batch: Any, seed: int) -> StepRow:
        shapes = None if self._off else _shapes(batch)
        if shapes is None:
            self._off = True
            return self._step(batch, seed)
        self._shapes = self._shapes or shapes
        if shapes != self._shapes:
            return self._step(batch, seed)
        if self._warmed_up < WARMUP_STEPS or self._micro_batches != self._step.micro_batches:
            self._graph = None
            self._warmed_up = self._warmed_up + 1 if self._micro_batches == self._step.micro_batches else 1
            self._micro_batches = self._step.micro_batches
            return self._warm_up(batch, seed)
        if self._graph is None and not self._capture(batch):
            return self._step(batch, seed)
        return self._replay(batch, seed)

    def _warm_up(self, batch: Any, seed: int) -> StepRow:
        """On a stream of its own, as a capture asks for."""
        assert self._stream is not None
        self._stream.wait_stream(torch.cuda.current_stream(self._step.device))
        with torch.cuda.stream(self._stream):
            row = self._step(batch, seed)
        torch.cuda.current_stream(self._step.device).wait_stream(self._stream)
        return row

    def _capture(self, batch: Any) -> bool:
        static = pytree.apply(batch, lambda tensor: tensor.clone())
        self._static_batch = [tensor for _, tensor in pytree.leaves(static)]
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._step.device)
        torch.cuda.synchronize(self._step.device)
        self._step.optimizer.zero_grad(set_to_none=True)
        try:
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._row = self._step.without_retry(static)
        except RuntimeError as error:  # memory, or something that waits for the device
            clear_frames(error)
            torch.cuda.set_stream(before)  # torch does not go back to it where the end of a capture fails
            graph.reset()
            self._off, self._static_batch, self._row = True, [], None
            self._step.optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize(self._step.device)
            reason = "memory ran out" if is_out_of_memory(error) else str(error).splitlines()[0]
            self._warn(f"a step cannot be captured as a graph ({reason}); steps run one by one")
            return False
        self._graph = graph
        return True

    def _replay(self, batch: Any, seed: int) -> StepRow:
        assert self._graph is not None and self._row is not None
        foreach.copy(self._static_batch, [tensor for _, tensor in pytree.leaves(batch)])
        seed_generators(self._step.device, seed)
        self._graph.replay()
        return self._row


def _shapes(batch: Any) -> Any:
    """Names, dtypes and shapes of all tensors; None for a batch that holds anything else."""
    try:
        return [(name, tensor.dtype, tensor.shape) for name, tensor in pytree.leaves(batch)]
    except InputError:
        return None


def _is_supported(step: OptimizerStep, warn: Callable[[str], None]) -> bool:
    missing = None
    if step.device.type != "cuda":
        missing = "CUDA"
    elif not skips_on_device(step.optimizer) or step.group.ranks > 1:
        missing = "adamw or adam, on one rank"
    elif not all(isinstance(group["lr"], torch.Tensor) for group in step.optimizer.param_groups):
        missing = "an optimizer whose lr is a tensor, or the schedule would be lost"
    if missing is not None:
        warn(f"graph=True needs {missing}; steps run one by one")
    return missing is None
