"""A model for deployment, in a quarter of the space: weights as 8-bit integers, one scale a row.

Symmetric: a row is its largest magnitude over 127, times whole numbers from -127 to 127. Vectors (biases) stay as they
are: they are few. Weights are made floats again for each call, which costs little, since they are used once a call to
make the tables of questions and answers.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from .deep_gpcm import Config, DeepGPCM, Output


class Quantized(nn.Module):
    """A `DeepGPCM` with 8-bit weights, for inference; it is called like one."""

    def __init__(self, model: DeepGPCM) -> None:
        super().__init__()
        self.config: Config = model.config
        self._names: list[str] = []
        for name, weight in model.state_dict().items():
            place = name.replace(".", "_")
            self._names.append(name)
            whole, scale = pack(weight) if weight.ndim > 1 else (weight.detach().clone(), None)
            self.register_buffer(f"{place}__whole", whole)
            self.register_buffer(f"{place}__scale", scale)
        # Only its code and its buffers are used; held in a tuple, so that its weights are no part of this module.
        self._shape = (copy.deepcopy(model).requires_grad_(False).eval(),)
        for parameter in self._shape[0].parameters():
            parameter.data = torch.empty(0, dtype=parameter.dtype)

    @property
    def bytes(self) -> int:
        """What the weights take."""
        return sum(each.numel() * each.element_size() for each in self.buffers())

    def weights(self) -> dict[str, Tensor]:
        """The weights as floats again, by the names they have in the model."""
        found = {}
        for name in self._names:
            place = name.replace(".", "_")
            whole, scale = getattr(self, f"{place}__whole"), getattr(self, f"{place}__scale")
            found[name] = whole if scale is None else whole.to(scale.dtype) * scale
        return found

    def forward(self, *arguments: Any, **options: Any) -> Output:
        weights = self.weights()
        shape = self._shape[0].to(next(iter(weights.values())).device)
        return torch.func.functional_call(shape, weights, arguments, options)

    def model(self) -> DeepGPCM:
        """An ordinary model with these weights, rounded as they are."""
        found = DeepGPCM(self.config).to(next(iter(self.weights().values())))
        found.load_state_dict(self.weights())
        return found.eval()


def quantize(model: DeepGPCM) -> Quantized:
    """The model with 8-bit weights.

    Example:
        >>> from brimful.gpcm.model.deep_gpcm import Config
        >>> model = DeepGPCM(Config(questions=100, categories=4))
        >>> round(size(model) / quantize(model).bytes, 1)
        3.8
    """
    return Quantized(model).eval()


def size(model: nn.Module) -> int:
    """What a model's weights take, in bytes."""
    return sum(each.numel() * each.element_size() for each in model.parameters())


def pack(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor as 8-bit integers, and the scale of each row along the last axis."""
    scale = weight.detach().abs().amax(-1, keepdim=True) / 127
    whole = torch.round(weight.detach() / torch.where(scale > 0, scale, 1.0)).clamp(-127, 127)
    return whole.to(torch.int8), scale
