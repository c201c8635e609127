"""The network that maps a center to the factor of its precision.

Legend: K centers, d dimensions, H hidden features, O = `factor.out_features`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .low_rank import LowRank
from .triangular import Triangular

Factor = Triangular | LowRank
"""The two parametrizations of a precision matrix: the full lower triangle, or diagonal plus low rank. A factor is made
from a network's output, and gives the mixture what it needs without forming a d x d precision. Both have the same
methods, which `triangular.py` documents."""


class Network(nn.Module):
    """Hidden layers with GELU, then one linear layer, by far the largest: its outputs are the entries of a factor.

    Initially the output hardly depends on the center: every factor is about the identity, and the mixture a kernel
    density estimate.

    Args:
        factor: the parametrization, which knows its number of entries and their initialization.
        hidden: features of each hidden layer.
        depth: number of hidden layers.
        std: standard deviation of the centers, by which the input is divided.
    """

    std: Tensor
    last: nn.Linear

    def __init__(self, factor: Factor, hidden: int, depth: int, std: Tensor) -> None:
        super().__init__()
        d, dtype = factor.d, std.dtype
        layers: list[nn.Module] = []
        for index in range(depth):
            layers += [nn.Linear(hidden if index else d, hidden, dtype=dtype), nn.GELU()]
        self.body = nn.Sequential(*layers)
        self.last = nn.utils.skip_init(nn.Linear, hidden, factor.out_features, dtype=dtype)  # pyright: ignore
        self.register_buffer("std", std)
        with torch.no_grad():
            factor.initialize(self.last.weight, self.last.bias)

    def features(self, c_Kd: Float[Tensor, "K d"]) -> Float[Tensor, "K H"]:
        """All but the last layer."""
        return self.body(c_Kd / self.std)

    def forward(self, c_Kd: Float[Tensor, "K d"]) -> Float[Tensor, "K O"]:
        return self.last(self.features(c_Kd))
