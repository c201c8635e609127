"""One optimizer step: the gradient of the whole batch, in micro-batches, whatever memory allows.

The optimizer is given the gradient of (sum of the losses) / (sum of the weights) over the whole batch and all ranks.
Every micro-batch adds the gradient of its sum; the division comes once, at the end, so cutting changes only rounding.
Where memory runs out, the same batch is done again from the start in twice as many pieces, with the same random
numbers, and later ones are cut like that too.

On CUDA nothing here waits for the device: a step whose loss or gradient is not finite is skipped there, and told of
when the record is next read.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ....core.base import foreach
from ....core.base.errors import BudgetError, InputError
from ....core.memory import devices
from ....core.memory.oom import clear_frames, is_out_of_memory
from ...distributed.collectives import Group, in_step
from ..optim.ema import Average
from ..optim.fused_adam import FusedAdam
from ..optim.optimizers import skips_by_itself
from .finite_check import Verdict
from .loss import Returned, Weighted, returned
from .microbatches import pieces, samples
from .precision import Precision, Scale
from .rng import sow
from .step_log import Row

Loss = Callable[[nn.Module, Any], Any]


class Step:
    """One optimizer step after the other.

    Attributes:
        pieces: micro-batches of a batch, from here on.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        precision: Precision,
        *,
        group: Group,
        warn: Callable[[str], None],
        pieces: int = 1,
        clip: float | None = None,
        average: Average | None = None,
        scale: Scale | None = None,
    ) -> None:
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.device, self.precision, self.pieces = device, precision, pieces
        self.average, self.scale = average, scale
        self._group, self._warn, self._clip = group, warn, clip
        self._in_step = in_step(model, group)
        self._parameters = [each for part in optimizer.param_groups for each in part["params"]]
        self._waits = device.type == "cpu" or not skips_by_itself(optimizer)
        self._buffers = _Buffers(model)
        self._dtype = torch.float64 if any(p.dtype == torch.float64 for p in self._parameters) else torch.float32
        self._numbers = _Numbers(self._dtype, device)
        self._verdict = Verdict(device, self._dtype, clip, scale)
        self._adam = FusedAdam(optimizer)

    def __call__(self, batch: Any, seed: int) -> Row:
        """Makes a step; the sum of the losses, their weight, and the gradient's norm before clipping. The step
        was skipped if any of them is not finite, or the weight is 0."""
        found = self.gradient(batch, seed)
        try:
            return self.update(found)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise BudgetError(
                f"no memory is left for the optimizer's step: {str(error).splitlines()[0]}. Use a larger budget, or an "
                "optimizer with less state"
            ) from error

    @property
    def ranks(self) -> int:
        return self._group.ranks

    def recorded(self, batch: Any) -> Row:
        """A step whose generators are seeded by the caller, and that is not tried again: for a graph."""
        return self.update(self._accumulate(batch))

    def gradient(self, batch: Any, seed: int) -> Returned:
        """The gradient of the sum over the batch, in the parameters' `grad`, and what it is the gradient of."""
        self._buffers.note()
        while True:
            sow(self.device, seed)
            try:
                return self._accumulate(batch)
            except Exception as error:
                if not is_out_of_memory(error) or self._in_step:
                    raise
                clear_frames(error)
                reason = str(error)
            self._cut_finer(batch, reason)

    def _accumulate(self, batch: Any) -> Returned:
        self._forget()
        found, count = None, samples(batch)
        for part in pieces(batch, self.pieces) if count else ():
            with self.precision.context():
                size = count if self.pieces == 1 else samples(part)
                piece = returned(self.loss(self.model, part), size)
            if not piece.value.requires_grad:
                raise InputError(
                    "the loss does not depend on any parameter that is trained; compute it from the model it is "
                    "given, without detach() or torch.no_grad()"
                )
            self._backward(piece)
            done = Returned(piece.value.detach(), piece.times, piece.weight)
            found = done if found is None else self._sum(found, done)
        return found or Returned(self._numbers[0], 1, 0)

    def _backward(self, piece: Returned) -> None:
        """Adds the gradient of a piece's sum, without making that."""
        times = self._numbers.of(piece.times, piece.value.dtype)
        # Anew each time: autograd may hand it on as a parameter's gradient, which is then changed in place.
        piece.value.backward(times.clone() if self.scale is None else times * self.scale.value.to(times.dtype))

    def _sum(self, one: Returned, other: Returned) -> Returned:
        total = one.value * one.times + other.value * other.times
        return Returned(total, 1, one.weight + other.weight)

    def _forget(self) -> None:
        for each in self._parameters:
            each.grad = None

    def _cut_finer(self, batch: Any, reason: str) -> None:
        self._forget()
        self._buffers.put_back()
        devices.release_cache(self.device)
        count = samples(batch)
        if self.pieces >= count:
            raise BudgetError(
                f"a micro-batch of one sample does not fit: {reason.splitlines()[0] if reason else 'out of memory'}. "
                "Use a larger budget, recompute= with the names of large submodules, a lower precision, or smaller "
                "samples"
            )
        self.pieces = min(2 * self.pieces, count)
        self._warn(f"out of memory on a batch of {count} samples; it is done again in {self.pieces} micro-batches")

    def update(self, found: Returned) -> Row:
        """Divides the gradient by the weight, clips it, and lets the optimizer step."""
        if self._group.ranks > 1:
            weight = found.weight if isinstance(found.weight, Tensor) else self._numbers[found.weight]
            summed = Weighted(*self._group.reduce_gradients(self._parameters, found.value * found.times, weight))
            found = Returned(summed.sum, 1, summed.weight)
        gradients = [each.grad for each in self._parameters if each.grad is not None]
        row = (self._looking if self._waits else self._unseen)(found, gradients)
        if self.average is not None:
            self.average.update()
        return row

    def _looking(self, found: Returned, gradients: list[Tensor]) -> Row:
        """Where the numbers are at hand, or must be waited for."""
        length = foreach.norm(gradients).item() if gradients else 0.0
        total, weight = found.value.item() * found.times, float(found.weight)
        divisor = weight if self.scale is None else weight * self.scale.value.item()
        norm = length / divisor if divisor else math.inf
        good = math.isfinite(total) and math.isfinite(weight) and math.isfinite(norm)
        if good:
            clipped = 1.0 if self._clip is None else min(1.0, self._clip / (norm + 1e-6))
            if gradients:
                foreach.multiply(gradients, clipped / divisor)
            self.optimizer.step()
        else:
            self._buffers.put_back()
        if self.scale is not None:  # a batch of no weight says nothing of it
            self.scale.update(self._verdict.bad.fill_(not good and weight != 0))
        return total, weight, norm

    def _unseen(self, found: Returned, gradients: list[Tensor]) -> Row:
        """The same on the device alone."""
        weight = found.weight if isinstance(found.weight, Tensor) else self._numbers[found.weight]
        norms = foreach.norms(gradients) if gradients else [self._numbers[0]]
        row = self._verdict(norms, found.value, self._numbers[found.times], weight)
        bad, divisor = self._verdict.bad, self._verdict.divisor
        if divisor.dtype == torch.float32:
            self._adam.step(divisor, bad)
        else:  # the optimizer would divide in single precision
            if gradients:
                foreach.multiply(gradients, divisor.reciprocal())
            self._adam.step(None, bad)
        if self.device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            self._buffers.put_back(bad)
        if self.scale is not None:  # a batch of no weight says nothing of it
            self.scale.update(bad * (weight != 0))
        return row


class _Numbers:
    """Numbers on the device, made once: filled in there, so that nobody waits."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._known: dict[tuple[float, torch.dtype], Tensor] = {}

    def __getitem__(self, number: float) -> Tensor:
        return self.of(number, self._dtype)

    def of(self, number: float, dtype: torch.dtype) -> Tensor:
        found = self._known.get((number, dtype))
        if found is None:
            if len(self._known) > 1000:
                self._known.clear()
            found = self._known[number, dtype] = torch.full((), number, dtype=dtype, device=self._device)
        return found


class _Buffers:
    """What a forward pass changes beside gradients, such as running means: kept from before each step, so that a step
    that is done again does not count twice. Which buffers change is seen in the first step."""

    def __init__(self, model: nn.Module) -> None:
        self._all = list(model.buffers())
        self._kept: list[tuple[Tensor, Tensor, int]] = []
        self._steps = 0

    def note(self) -> None:
        if self._steps == 0:
            self._kept = [(each, each.clone(), each._version) for each in self._all]
        elif self._steps == 1:
            # Batch normalisation changes its means without a new version.
            self._kept = [
                (each, kept, version)
                for each, kept, version in self._kept
                if each._version != version or not torch.equal(each, kept)
            ]
        if self._steps and self._kept:
            foreach.copy([kept for _, kept, _ in self._kept], [each for each, _, _ in self._kept])
        self._steps += 1

    def put_back(self, where: Tensor | None = None) -> None:
        """As they were before the step; with `where`, only if that is not 0, for which nobody waits."""
        with torch.no_grad():
            for each, kept, _ in self._kept:
                each.copy_(kept if where is None else torch.where(where != 0, kept, each))
