"""Whether a step is made, and what its gradient is divided by, decided on the device: nobody waits for it.

These are a dozen operations on single numbers, which cost their launches alone. On CUDA they are captured once, as a
small graph, and replayed.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ....core.base import foreach
from .precision import Scale


class Verdict:
    """The verdict on one step after the other.

    Attributes:
        bad: 1 where the step must be skipped: loss, weight or gradient is not finite, or there is no weight.
        divisor: makes the clipped gradient of the mean out of the gradient of the sum.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype, clip: float | None, scale: Scale | None) -> None:
        self._clip, self._scale = clip, scale
        self.bad, self._one = (torch.full((), value, dtype=torch.float32, device=device) for value in (0.0, 1.0))
        self.divisor = torch.ones((), dtype=dtype, device=device)
        self._row = torch.zeros(3, dtype=dtype, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._given: Tensor | None = None
        self._can = device.type == "cuda"

    def __call__(self, norms: Sequence[Tensor], total: Tensor, times: Tensor, weight: Tensor) -> Tensor:
        """The step's record: sum, weight, and norm before clipping. It is overwritten by the next one.

        Args:
            norms: of the gradients.
            total: what `times` it is the sum of the losses.
            weight: what to divide it by.
        """
        parts = [*norms, total, times, weight]
        if not self._can or torch.cuda.is_current_stream_capturing():
            self._decide(torch.stack([part.to(self._row.dtype) for part in parts]))
        elif self._given is None or len(self._given) != len(parts):
            self._graph, self._given = None, torch.stack(parts).to(self._row.dtype)
            self._decide(self._given)
        else:
            torch.stack(parts, out=self._given)
            if self._graph is None:
                self._capture(self._given)
            if self._graph is None:
                self._decide(self._given)
            else:
                self._graph.replay()
        return self._row

    def _decide(self, given: Tensor) -> None:
        total, times, weight = given[-3:].unbind()
        divisor = weight if self._scale is None else weight * self._scale.value
        norm = torch.linalg.vector_norm(given[:-3]) / divisor
        torch.stack((total * times, weight, norm), out=self._row)
        foreach.find_nonfinite(self._row, self.bad, self._one)
        if self._clip is not None:
            divisor = divisor * ((norm + 1e-6) / self._clip).clamp(min=1.0)
        self.divisor.copy_(divisor)

    def _capture(self, given: Tensor) -> None:
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(given.device)
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(given.device), capture_error_mode="thread_local"):
                self._decide(given)
        except RuntimeError:  # somebody else captures, or memory ran out: one by one does it too
            torch.cuda.set_stream(before)  # torch does not go back to it where the end of a capture fails
            self._can = False
            graph.reset()
            return
        self._graph = graph
