"""The loss of a model over a dataset, without gradients."""

from typing import Any

import torch
from torch import nn

from ...core.base.errors import BudgetError
from ...core.memory import devices
from ...core.memory.oom import clear_frames, is_out_of_memory
from ...data.loader import Loader
from ..distributed.collectives import Group, in_step
from .step.loss import weighted
from .step.microbatches import cut as part_of
from .step.microbatches import pieces, samples
from .step.optimizer_step import Loss
from .step.precision import Precision


def mean_loss(
    model: nn.Module, loss: Loss, loader: Loader, precision: Precision, group: Group, cut: int = 1
) -> tuple[float, int]:
    """The mean over all samples, and into how many pieces batches were cut at last. Ranks take turns at the batches, or
    share each where they are parts of one model."""
    device, together = loader.device, in_step(model, group)
    total, weight = torch.zeros((), device=device), torch.zeros((), device=device)
    with torch.no_grad():
        for number, batch in enumerate(loader.epoch(0)):
            if together:
                count = samples(batch)
                start, stop = (count * place // group.ranks for place in (group.rank, group.rank + 1))
                batch = part_of(batch, count, start, stop)
            elif number % group.ranks != group.rank or not samples(batch):
                continue
            found = None
            while found is None:
                try:
                    found = _summed(model, loss, batch, precision, cut, device)
                except Exception as error:
                    if not is_out_of_memory(error) or together:
                        raise
                    clear_frames(error)
                    found = None
                if found is None:
                    devices.release_cache(device)
                    if cut >= samples(batch):
                        raise BudgetError("one sample of the validation data does not fit; use a larger budget")
                    cut = min(2 * cut, samples(batch))
            total, weight = total + found[0], weight + found[1]
    both = group.add_up([float(total), float(weight)])
    return (both[0] / both[1] if both[1] else float("nan")), cut


def _summed(
    model: nn.Module, loss: Loss, batch: Any, precision: Precision, cut: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    total, weight = torch.zeros((), device=device), torch.zeros((), device=device)
    for part in pieces(batch, cut):
        with precision.context():
            found = weighted(loss(model, part), samples(part), device)
        if samples(part):  # else it was called since other ranks wait for it, and has a mean of nothing
            total, weight = total + found.sum, weight + found.weight
    return total, weight
