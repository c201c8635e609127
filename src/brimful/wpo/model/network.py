"""The network that makes the factor of a center's precision out of the center.

Legend: K centers, d dimensions, H hidden features, O numbers of a factor.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .factors import Factor


class Network(nn.Module):
    """Hidden layers with GELU, then one linear layer, by far the largest: its outputs are a factor's numbers.

    At the start that layer hardly looks at the center: every factor is about the identity, and the mixture a kernel
    density estimate.

    Args:
        factor: the kind of factor, which knows how many numbers it has and where it begins.
        hidden: features of each hidden layer.
        depth: hidden layers.
        spread: what the centers are divided by, so that the first layer sees numbers of about 1.
    """

    spread: Tensor
    last: nn.Linear

    def __init__(self, factor: Factor, hidden: int, depth: int, spread: Tensor) -> None:
        super().__init__()
        d, dtype = factor.d, spread.dtype
        layers: list[nn.Module] = []
        for place in range(depth):
            layers += [nn.Linear(hidden if place else d, hidden, dtype=dtype), nn.GELU()]
        self.body = nn.Sequential(*layers)
        self.last = nn.utils.skip_init(nn.Linear, hidden, factor.outputs, dtype=dtype)  # pyright: ignore
        self.register_buffer("spread", spread)
        with torch.no_grad():
            factor.begin(self.last.weight, self.last.bias)

    def features(self, c_Kd: Float[Tensor, "K d"]) -> Float[Tensor, "K H"]:
        """All but the last layer."""
        return self.body(c_Kd / self.spread)

    def forward(self, c_Kd: Float[Tensor, "K d"]) -> Float[Tensor, "K O"]:
        return self.last(self.features(c_Kd))
