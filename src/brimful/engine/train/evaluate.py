"""The loss of a model over a dataset, without gradients."""

from typing import Any

import torch
from torch import Tensor, nn

from ...core.memory.oom import retry_smaller
from ...data.loading import Loader
from ..distributed.collectives import Group, calls_in_lockstep
from .step.loss import LossOutput
from .step.microbatches import count_samples, micro_batches, slice_batch
from .step.optimizer_step import LossFunction
from .step.precision import Precision


class Evaluator:
    """The mean loss over a dataset. Where memory runs out, batches are split finer from then on."""

    def __init__(
        self, model: nn.Module, loss: LossFunction, loader: Loader, precision: Precision, group: Group
    ) -> None:
        self._model, self._loss, self._loader, self._precision = model, loss, loader, precision
        self._group, self._calls_in_lockstep = group, calls_in_lockstep(model, group)
        self._micro_batches = 1

    @torch.no_grad()
    def mean_loss(self) -> float:
        """The mean over all samples. Ranks take turns at the batches, or share each where they are parts of one
        model."""
        rank, ranks, device = self._group.rank, self._group.ranks, self._loader.device
        sums = torch.zeros((), device=device), torch.zeros((), device=device)
        for number, batch in enumerate(self._loader.epoch(0)):
            if self._calls_in_lockstep:
                count = count_samples(batch)
                batch = slice_batch(batch, count, count * rank // ranks, count * (rank + 1) // ranks)
            elif number % ranks != rank or not count_samples(batch):
                continue
            sums = tuple(one + other for one, other in zip(sums, self._batch_sums(batch), strict=True))
        total, weight = self._group.sum_over_ranks([float(value) for value in sums])
        return total / weight if weight else float("nan")

    def _batch_sums(self, batch: Any) -> tuple[Tensor, Tensor]:
        def attempt() -> tuple[Tensor, Tensor]:
            total, weight = (torch.zeros((), device=self._loader.device) for _ in range(2))
            for part in micro_batches(batch, self._micro_batches):
                with self._precision.context():
                    output = LossOutput.of(self._loss(self._model, part), count_samples(part)).weighted()
                if count_samples(part):  # else it was called since other ranks wait for it, and has a mean of nothing
                    total, weight = total + output.sum, weight + output.weight
            return total, weight

        def shrink() -> bool:
            before, self._micro_batches = self._micro_batches, min(2 * self._micro_batches, count_samples(batch))
            return self._micro_batches > before

        if self._calls_in_lockstep:  # ranks may not differ in how often they run
            return attempt()
        smallest, advice = "one sample of the validation data", "Use a larger budget"
        return retry_smaller(attempt, shrink, self._loader.device, smallest, advice)
