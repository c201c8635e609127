"""Kernels for a GPU, in Triton. Each has a plain twin in torch, which runs where they do not."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from ....core.base.errors import BrimfulWarning
from ....core.memory.oom import error_line, is_device_lost, is_out_of_memory


def has_kernels(tensor: Tensor) -> bool:
    """Whether kernels run on a tensor: on the current GPU, on which they are launched."""
    return tensor.is_cuda and tensor.get_device() == torch.cuda.current_device() and kernels_run(tensor.device)


@cache
def kernels_run(device: torch.device) -> bool:
    """Whether kernels can be compiled for a device; if not, a warning says what runs instead."""
    if find_spec("triton") is None:
        return False
    try:
        from . import rows

        if rows.owners(torch.tensor([0, 1, 3], device=device), 3).tolist() == [0, 1, 1]:
            return True
        reason = "a kernel gives a wrong result"
    except Exception as error:
        if is_out_of_memory(error) or is_device_lost(error):
            raise
        reason = error_line(error)
    warnings.warn(f"kernels do not run on {device}: {reason}; torch does their work", BrimfulWarning, stacklevel=3)
    return False
