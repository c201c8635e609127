"""Permutations of epochs in turn by a CUDA graph: launching its kernels one by one takes longer than they do.

The epoch is a number in the device's memory, which the graph reads.
"""

import torch
from torch import Tensor

from .permutation import ORDER, low_bits
from .philox import CONSTANTS, signed

MOST = 1 << 20  # samples; with more the kernels take longer than launching them


class ReplayedPermutation:
    """`permutation_on` for any epoch of one shuffle, on CUDA and with Triton.

    Raises:
        RuntimeError: it cannot be captured: there is another capture under way, or too little memory.
    """

    def __init__(self, device: torch.device, samples: int, seed: int) -> None:
        self._device, self._samples, self._seed = device, samples, seed
        self._epoch = torch.zeros((), dtype=torch.int64, device=device)
        self._graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
        self._made()  # compiles the kernels
        try:
            with torch.cuda.graph(self._graph, stream=torch.cuda.Stream(device), capture_error_mode="thread_local"):
                self._order = self._made()
        except RuntimeError:
            torch.cuda.set_stream(before)  # torch does not go back to it where the end of a capture fails
            self._graph.reset()
            raise

    def __call__(self, epoch: int) -> Tensor:
        """The numbers of the samples in the order of an epoch."""
        self._epoch.fill_(signed(epoch))
        self._graph.replay()
        return self._order.clone()

    def _made(self) -> Tensor:
        from . import philox_triton, sort_triton

        stream, low = (self._seed, 0, ORDER, 0, 0), low_bits(self._samples)
        words = philox_triton.words(stream, CONSTANTS, self._device, self._samples, low, 1 << 63, self._epoch)
        return sort_triton.order(words)
