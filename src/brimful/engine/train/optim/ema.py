"""A moving average of the weights, and the model with it in place."""

import contextlib
from collections.abc import Iterator

from torch import Tensor, nn

from ....core.base import foreach


class Average:
    """average <- decay * average + (1 - decay) * weights, after every step; it begins at the first weights."""

    def __init__(self, parameters: list[nn.Parameter], decay: float) -> None:
        self._parameters, self._decay = parameters, decay
        self.values = [each.detach().clone() for each in parameters]

    def update(self) -> None:
        foreach.move_towards(self.values, [each.data for each in self._parameters], 1 - self._decay)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with the average for its weights; only pointers are exchanged."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for place, parameter in enumerate(self._parameters):
            parameter.data, self.values[place] = self.values[place], parameter.data

    def begin(self) -> None:
        """Anew, from the weights as they are."""
        foreach.copy(self.values, [each.data for each in self._parameters])

    def settle(self) -> None:
        """The average becomes the weights."""
        foreach.copy([each.data for each in self._parameters], self.values)

    def state(self) -> dict[str, Tensor]:
        return {str(place): value for place, value in enumerate(self.values)}

    def restore(self, state: dict[str, Tensor]) -> None:
        for place, value in enumerate(self.values):
            value.copy_(state[str(place)])


@contextlib.contextmanager
def averaged(average: Average | None) -> Iterator[None]:
    """With the average in place, where there is one."""
    with average.in_place() if average else contextlib.nullcontext():
        yield
