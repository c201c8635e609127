"""TorchScript on its way to another process: it is sent as the bytes that `torch.jit.save` writes."""

import io
from typing import Any

import torch

from .composition import Chain


class Scripted:
    """A scripted or traced module or function that can be pickled."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, batch: Any) -> Any:
        return self.function(batch)

    def __reduce__(self) -> tuple[Any, ...]:
        buffer = io.BytesIO()
        torch.jit.save(self.function, buffer)
        return _load, (buffer.getvalue(),)


def _load(content: bytes) -> Scripted:
    return Scripted(torch.jit.load(io.BytesIO(content)))


def sendable(function: Any) -> Any:
    """A function, or a chain of them, as it can be sent to another process."""
    if isinstance(function, Chain):
        return Chain([sendable(part) for part in function.functions])
    scripted = isinstance(function, torch.jit.ScriptModule | torch.jit.ScriptFunction)
    return Scripted(function) if scripted else function
