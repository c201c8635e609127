"""The finite check: whether a step is made, and what its gradient is divided by, decided on the device.

These are a dozen operations on single numbers, which cost their launches alone. On CUDA they are captured once, as a
small graph, and replayed; nothing waits for the device.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ....core.base import foreach
from .precision import LossScale


class FiniteCheck:
    """Checks one step after the other.

    Attributes:
        bad: 1 where the step must be skipped: loss, weight or gradient is not finite, or there is no weight.
        divisor: makes the clipped gradient of the mean out of the gradient of the sum.
    """

    def __init__(
        self, device: torch.device, dtype: torch.dtype, grad_clip: float | None, scale: LossScale | None
    ) -> None:
        self._grad_clip, self._scale = grad_clip, scale
        self.bad, self._one = (torch.full((), value, dtype=torch.float32, device=device) for value in (0.0, 1.0))
        self.divisor = torch.ones((), dtype=dtype, device=device)
        self._row = torch.zeros(3, dtype=dtype, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: Tensor | None = None
        self._capturable = device.type == "cuda"

    def __call__(self, norms: Sequence[Tensor], total: Tensor, times: Tensor, weight: Tensor) -> Tensor:
        """The step's row: sum, weight, and norm before clipping. It is overwritten by the next one.

        Args:
            norms: of the gradients.
            total: what `times` it is the sum of the losses.
            weight: what to divide it by.
        """
        parts = [*norms, total, times, weight]
        if not self._capturable or torch.cuda.is_current_stream_capturing():
            self._check(torch.stack([part.to(self._row.dtype) for part in parts]))
        elif self._inputs is None or len(self._inputs) != len(parts):
            self._graph, self._inputs = None, torch.stack(parts).to(self._row.dtype)
            self._check(self._inputs)
        else:
            torch.stack(parts, out=self._inputs)
            if self._graph is None:
                self._graph = self._capture(self._inputs)
            if self._graph is None:
                self._check(self._inputs)
            else:
                self._graph.replay()
        return self._row

    def _check(self, inputs: Tensor) -> None:
        total, times, weight = inputs[-3:].unbind()
        divisor = weight if self._scale is None else weight * self._scale.value
        norm = torch.linalg.vector_norm(inputs[:-3]) / divisor
        torch.stack((total * times, weight, norm), out=self._row)
        foreach.find_nonfinite(self._row, self.bad, self._one)
        if self._grad_clip is not None:
            divisor = divisor * ((norm + 1e-6) / self._grad_clip).clamp(min=1.0)
        self.divisor.copy_(divisor)

    def _capture(self, inputs: Tensor) -> torch.cuda.CUDAGraph | None:
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(inputs.device)
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(inputs.device), capture_error_mode="thread_local"):
                self._check(inputs)
        except RuntimeError:  # another capture is under way, or memory ran out: go on without a graph
            torch.cuda.set_stream(before)  # torch does not go back to it where the end of a capture fails
            self._capturable = False
            graph.reset()
            return None
        return graph
