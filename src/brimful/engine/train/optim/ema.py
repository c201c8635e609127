"""An exponential moving average of the weights, and the model with it in place."""

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn

from ....core.base import foreach


def decay_of_span(share: float, steps: int) -> float | None:
    """The decay of an average over about this share of all steps; None where that is no more than one step."""
    span = share * steps
    return 1 - 1 / span if span > 1 else None


class MovingAverage:
    """average <- decay * average + (1 - decay) * weights, after every step; it begins at the first weights. Without a
    decay there is no average, and nothing happens."""

    def __init__(self, parameters: list[nn.Parameter], decay: float | None) -> None:
        self._parameters, self._decay = ([], 1.0) if decay is None else (parameters, decay)
        self.values = [parameter.detach().clone() for parameter in self._parameters]

    def update(self) -> None:
        if self.values:
            foreach.move_towards(self.values, [parameter.data for parameter in self._parameters], 1 - self._decay)

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
