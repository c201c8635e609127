"""A model for deployment, in a quarter of the space: weights as 8-bit integers, one scale per row.

Symmetric: a row is its largest magnitude over 127, times integers from -127 to 127. Vectors (biases) stay as they are.
Weights are dequantized in each call, which costs little, since each call uses them once, for the tables of questions
and answers.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from .deep_gpcm import DeepGPCM, DeepGPCMConfig, ModelOutput


class QuantizedGPCM(nn.Module):
    """A `DeepGPCM` with 8-bit weights, for inference; it is called like one."""

    def __init__(self, model: DeepGPCM) -> None:
        super().__init__()
        self.config: DeepGPCMConfig = model.config
        self._names = list(model.state_dict())
        for name, weight in model.state_dict().items():
            integers, scale = quantize_rows(weight) if weight.ndim > 1 else (weight.detach().clone(), None)
            self.register_buffer(_buffer(name, "integers"), integers)
            self.register_buffer(_buffer(name, "scale"), scale)
        # Only its code and its buffers are used; in a tuple, so that its weights are no part of this module.
        self._float_model = (copy.deepcopy(model).requires_grad_(False).eval(),)
        for parameter in self._float_model[0].parameters():
            parameter.data = torch.empty(0, dtype=parameter.dtype)

    @property
    def bytes(self) -> int:
        """The size of the weights."""
        return sum(buffer.numel() * buffer.element_size() for buffer in self.buffers())

    def weights(self) -> dict[str, Tensor]:
        """The dequantized weights, by the names they have in the model."""
        pairs = {name: [getattr(self, _buffer(name, part)) for part in ("integers", "scale")] for name in self._names}
        return {name: w if scale is None else w.to(scale.dtype) * scale for name, (w, scale) in pairs.items()}

    def forward(self, *arguments: Any, **options: Any) -> ModelOutput:
        weights = self.weights()
        model = self._float_model[0].to(next(iter(weights.values())).device)
        return torch.func.functional_call(model, weights, arguments, options)


def _buffer(name: str, part: str) -> str:
    return f"{name.replace('.', '_')}__{part}"


def quantize(model: DeepGPCM) -> QuantizedGPCM:
    """The model with 8-bit weights.

    Example:
        >>> from brimful.gpcm.model.deep_gpcm import DeepGPCMConfig
        >>> model = DeepGPCM(DeepGPCMConfig(questions=100, categories=4))
        >>> size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
        >>> round(size / quantize(model).bytes, 1)
        3.8
    """
    return QuantizedGPCM(model).eval()


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor as 8-bit integers, and the scale of each row along the last axis."""
    scale = weight.detach().abs().amax(-1, keepdim=True) / 127
    integers = torch.round(weight.detach() / torch.where(scale > 0, scale, 1.0)).clamp(-127, 127)
    return integers.to(torch.int8), scale
