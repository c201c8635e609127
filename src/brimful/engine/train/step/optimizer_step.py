"""One optimizer step: the gradient of the whole batch, in micro-batches, whatever memory allows.

The optimizer is given the gradient of (sum of the losses) / (sum of the weights) over the whole batch and all ranks.
Every micro-batch adds the gradient of its sum; the division comes once, at the end, so splitting changes only rounding.
Where memory runs out, the same batch is done again from the start in twice as many micro-batches, with the same random
numbers, and later ones are split like that too.

On CUDA nothing here waits for the device: a step whose loss or gradient is not finite is skipped there, and reported
when the rows of the steps are next read.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ....core.base import foreach
from ....core.base.errors import InputError
from ....core.base.rng import seed_generators
from ....core.memory import devices
from ....core.memory.oom import retry_smaller
from ...distributed.collectives import Group, calls_in_lockstep
from ..optim.ema import MovingAverage
from ..optim.fused_adam import FusedAdam
from ..optim.optimizers import skips_on_device
from .buffers import BufferBackup
from .finite_check import FiniteCheck
from .loss import LossOutput
from .microbatches import count_samples, micro_batches
from .precision import LossScale, Precision

LossFunction = Callable[[nn.Module, Any], Any]
StepRow = Tensor | tuple[float, float, float]
"""Sum, weight and norm of a step: (3,) on the device, overwritten by the next step, or plain numbers on a CPU."""


class OptimizerStep:
    """One optimizer step after the other.

    Args:
        trim: hand freed memory back to the system once the last step's gradients are cleared. What lives longer than a
            step leaves gaps between them, into which the next ones do not fit, and the C library keeps them.
        free: frees memory on the device where not even one sample fits, and says whether it did.

    Attributes:
        micro_batches: micro-batches per batch, from here on.
        dtype: of the sums, weights and norms.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        precision: Precision,
        *,
        group: Group,
        warn: Callable[[str], None],
        micro_batches: int = 1,
        grad_clip: float | None = None,
        average: MovingAverage | None = None,
        scale: LossScale | None = None,
        trim: bool = False,
        free: Callable[[str], bool] = lambda reason: False,
    ) -> None:
        self._model, self._loss, self.optimizer, self.device = model, loss, optimizer, device
        self.group, self.micro_batches = group, micro_batches
        self._precision, self._average, self._scale = precision, average, scale
        self._warn, self._grad_clip, self._trim, self._free = warn, grad_clip, trim, free
        self._calls_in_lockstep = calls_in_lockstep(model, group)
        self._parameters = [parameter for part in optimizer.param_groups for parameter in part["params"]]
        self._waits = device.type == "cpu" or not skips_on_device(optimizer)
        self._buffers = BufferBackup(model)
        self.dtype = torch.float64 if any(p.dtype == torch.float64 for p in self._parameters) else torch.float32
        # On the device, by number and dtype, made once: filled in there, without waiting.
        self._scalar = functools.lru_cache(1000)(functools.partial(_scalar, device))
        self._finite_check = FiniteCheck(device, self.dtype, grad_clip, scale)
        self._adam = FusedAdam(optimizer)

    def __call__(self, batch: Any, seed: int) -> StepRow:
        """Makes a step; the sum of the losses, their weight, and the gradient's norm before clipping. The step
        was skipped if any of them is not finite, or the weight is 0."""
        output = self._gradient(batch, seed)
        advice = "Use a larger budget, or an optimizer with less state"
        return retry_smaller(lambda: self._update(output), lambda: False, self.device, "the optimizer's step", advice)

    def without_retry(self, batch: Any) -> StepRow:
        """A step whose generators are seeded by the caller, and that is not tried again: for a graph."""
        return self._update(self._accumulate(batch))

    def _gradient(self, batch: Any, seed: int) -> LossOutput:
        """The gradient of the sum over the batch, in the parameters' `grad`, and what it is the gradient of."""
        self._buffers.save()

        def attempt() -> LossOutput:
            seed_generators(self.device, seed)
            return self._accumulate(batch)

        def shrink() -> bool:
            self._clear_gradients()
            self._buffers.restore()
            count = count_samples(batch)
            if self.micro_batches >= count:
                return self._free("out of memory on a micro-batch of one sample")
            self.micro_batches = min(2 * self.micro_batches, count)
            self._warn(
                f"out of memory on a batch of {count} samples; it is done again in {self.micro_batches} micro-batches"
            )
            return True

        if self._calls_in_lockstep:  # ranks may not differ in how often they run
            return attempt()
        advice = (
            "Use a larger budget, recompute= with the names of large submodules, a lower precision, or smaller samples"
        )
        return retry_smaller(attempt, shrink, self.device, "a micro-batch of one sample", advice)

    def _accumulate(self, batch: Any) -> LossOutput:
        self._clear_gradients()
        if self._trim:
            devices.trim_heap()
        total, count = None, count_samples(batch)
        for part in micro_batches(batch, self.micro_batches) if count else ():
            with self._precision.context():
                size = count if self.micro_batches == 1 else count_samples(part)
                output = LossOutput.of(self._loss(self._model, part), size)
            if not output.value.requires_grad:
                raise InputError(
                    "the loss does not depend on any parameter that is trained; compute it from the model it is "
                    "given, without detach() or torch.no_grad()"
                )
            times = self._scalar(output.times, output.value.dtype)
            # Anew each time: autograd may hand it on as a parameter's gradient, which is then changed in place.
            start = times.clone() if self._scale is None else times * self._scale.value.to(times.dtype)
            output.value.backward(start)  # the gradient of the sum, without computing that
            done = LossOutput(output.value.detach(), output.times, output.weight)
            total = done if total is None else _sum(total, done)
        return total or LossOutput(self._scalar(0, self.dtype), 1, 0)

    def _clear_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def _update(self, output: LossOutput) -> StepRow:
        """Divides the gradient by the weight, clips it, and lets the optimizer step."""
        if self.group.ranks > 1:
            sums = (output.value * output.times, self._weight(output))
            total, weight = self.group.reduce_gradients(self._parameters, *sums)
            output = LossOutput(total, 1, weight)
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        row = (self._update_on_host if self._waits else self._update_on_device)(output, gradients)
        if self._average is not None:
            self._average.update()
        return row

    def _weight(self, output: LossOutput) -> Tensor:
        return output.weight if isinstance(output.weight, Tensor) else self._scalar(output.weight, self.dtype)

    def _update_on_host(self, output: LossOutput, gradients: list[Tensor]) -> StepRow:
        """Where the numbers are at hand, or must be waited for."""
        length = foreach.norm(gradients).item() if gradients else 0.0
        total, weight = output.value.item() * output.times, float(output.weight)
        divisor = weight if self._scale is None else weight * self._scale.value.item()
        norm = length / divisor if divisor else math.inf
        good = math.isfinite(total) and math.isfinite(weight) and math.isfinite(norm)
        if good:
            clipped = 1.0 if self._grad_clip is None else min(1.0, self._grad_clip / (norm + 1e-6))
            if gradients:
                foreach.multiply(gradients, clipped / divisor)
            self.optimizer.step()
        else:
            self._buffers.restore()
        if self._scale is not None:  # a batch of no weight says nothing of it
            self._scale.update(self._finite_check.bad.fill_(not good and weight != 0))
        return total, weight, norm

    def _update_on_device(self, output: LossOutput, gradients: list[Tensor]) -> StepRow:
        """The same without waiting for the device."""
        weight = self._weight(output)
        norms = foreach.norms(gradients) if gradients else [self._scalar(0, self.dtype)]
        row = self._finite_check(norms, output.value, self._scalar(output.times, self.dtype), weight)
        bad, divisor = self._finite_check.bad, self._finite_check.divisor
        if divisor.dtype == torch.float32:
            self._adam.step(divisor, bad)
        else:  # the optimizer would divide in single precision
            if gradients:
                foreach.multiply(gradients, divisor.reciprocal())
            self._adam.step(None, bad)
        if self.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            self._buffers.restore(bad)
        if self._scale is not None:  # a batch of no weight says nothing of it
            self._scale.update(bad * (weight != 0))
        return row


def _sum(one: LossOutput, other: LossOutput) -> LossOutput:
    return LossOutput(one.value * one.times + other.value * other.times, 1, one.weight + other.weight)


def _scalar(device: torch.device, value: float, dtype: torch.dtype) -> Tensor:
    return torch.full((), value, dtype=dtype, device=device)
