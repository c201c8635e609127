"""An exponential moving average of the weights, and the model with it in place."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ....core.base import foreach


def decay_of_span(share: float, steps: int) -> float | None:
    """The decay of an average over about this share of all steps; None where that is no more than one step."""
    span = share * steps
    return 1 - 1 / span if span > 1 else None


class MovingAverage:
    """average <- decay * average + (1 - decay) * weights, after every step; it begins at the first weights. Without a
    decay there is no average, and nothing happens.

    Args:
        parameters: of the model.
        decay: the share of the average that a step keeps.
        warmup: whether the decay begins lower, at min(decay, (1 + step) / (10 + step)): a run that is short against
            1 / (1 - decay) steps would otherwise keep its first weights.
        captured: whether the update goes into a CUDA graph, which reads the decay from the device.
    """

    def __init__(
        self, parameters: list[nn.Parameter], decay: float | None, warmup: bool = False, captured: bool = False
    ) -> None:
        self._parameters, self._decay = ([], 1.0) if decay is None else (parameters, decay)
        self._warmup = warmup
        self._share: float | Tensor = 1 - self._decay
        if captured and warmup and self._parameters:
            self._share = torch.full((), 1 - self._decay, device=parameters[0].device)
        self.values = [parameter.detach().clone() for parameter in self._parameters]

    def begin_step(self, step: int) -> None:
        """Sets the decay of a step, counted from 0."""
        if self._warmup:
            share = 1 - min(self._decay, (1 + step) / (10 + step))
            if isinstance(self._share, Tensor):
                self._share.fill_(share)
            else:
                self._share = share

    def update(self) -> None:
        if self.values:
            foreach.move_towards(self.values, [parameter.data for parameter in self._parameters], self._share)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with the average for its weights; only pointers are exchanged."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for index, parameter in enumerate(self._parameters):
            parameter.data, self.values[index] = self.values[index], parameter.data

    def apply(self) -> None:
        """Makes the average the model's weights."""
        for value, parameter in zip(self.values, self._parameters, strict=True):
            parameter.data.copy_(value)

    def state(self) -> dict[str, Tensor]:
        return {str(index): value for index, value in enumerate(self.values)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Puts a state back; where there is none, the average begins anew at the weights as they are."""
        for index, (value, parameter) in enumerate(zip(self.values, self._parameters, strict=True)):
            value.copy_(state.get(str(index), parameter.data))
