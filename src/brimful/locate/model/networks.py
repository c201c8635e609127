"""Networks that locate: receivers attend to each other, are pooled, and give a position with its uncertainty.

    small    the seed's: encoder 6-64-32, one attention layer of 4 heads, pooled to 128, then 64; 15,267 parameters with
             one log-variance, 15,397 with a covariance
    large    the default: 3 layers of width 128, each attention and a two-layer perceptron

Masked receivers take part in nothing, so that neither their number nor the order of receivers changes the output, but
for rounding.

Legend: N samples, R receivers, W width, H heads.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...core.base.arguments import check_type
from ...core.base.errors import ConfigError
from ...core.declare.config import option
from ...core.memory.cost import Cost
from ..data.features import FEATURES
from ..physics.scenario import MOST_RECEIVERS
from .gaussian import COVARIANCES, PlaneGaussian

NETWORKS = ("large", "small")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The form of a network, and its options on the command line."""

    network: str = option("large", help="the default network, or the seed's small one", choices=NETWORKS)
    covariance: str = option(
        "full", help="uncertainty: a whole covariance, or one variance in all directions", choices=tuple(COVARIANCES)
    )
    dropout_rate: float = option(0.2, help="dropout before the last layer", ge=0, lt=1, aliases=("dropout",))
    width: int = option(128, help="width of the large network", ge=4, le=1024)
    layers: int = option(3, help="layers of the large network", ge=1, le=16)

    def __post_init__(self) -> None:
        if self.width % 4:
            raise ConfigError(f"width is {self.width}; it must be a multiple of 4, the number of attention heads")


class LocationNetwork(nn.Module):
    """A network of either size: `network(features, mask)` gives the numbers that `PlaneGaussian.of` reads."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        check_type(config, NetworkConfig, "give a locate.NetworkConfig()")
        self.config = config
        small = config.network == "small"
        self.width = width = 32 if small else config.width
        self.encoder = nn.Sequential(
            nn.Linear(len(FEATURES), 64 if small else width), nn.ReLU(), nn.Linear(64 if small else width, width)
        )
        self.layers = nn.ModuleList(
            [AttentionLayer(width, perceptron=not small) for _ in range(1 if small else config.layers)]
        )
        hidden = 64 if small else 2 * width
        self.head = nn.Sequential(
            nn.Linear(4 * width, hidden),
            nn.ReLU(),
            nn.Dropout(config.dropout_rate),
            nn.Linear(hidden, COVARIANCES[config.covariance]),
        )

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        state = self.encoder(features)
        blocked = torch.where(mask, 0.0, -1e9)[:, None, None].to(state.dtype)  # finite: where all are masked, too
        for layer in self.layers:
            state = layer(state, blocked)
        return self.head(pool(state, mask))


class AttentionLayer(nn.Module):
    """Attention between receivers with a residual and a norm; in the large network a perceptron likewise."""

    def __init__(self, width: int, heads: int = 4, perceptron: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.combine = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.perceptron = None
        if perceptron:
            self.perceptron = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
            self.second_norm = nn.LayerNorm(width)

    def forward(self, state: Tensor, blocked: Tensor) -> Tensor:
        N, R, W = state.shape
        query, key, value = self.project(state).reshape(N, R, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weight = torch.softmax(query @ key.mT / math.sqrt(W // self.heads) + blocked, -1)
        state = self.norm(state + self.combine((weight @ value).transpose(1, 2).reshape(N, R, W)))
        return state if self.perceptron is None else self.second_norm(state + self.perceptron(state))


def pool(state: Tensor, mask: Tensor) -> Tensor:
    """(N, 4 W): mean, maximum and deviation over the receivers that take part, and their share of 15."""
    there = mask[..., None].to(state.dtype)
    count = there.sum(1).clamp(min=1)
    mean = (state * there).sum(1) / count
    most = torch.where(mask[..., None], state, -1e4).amax(1)
    most = torch.where(mask.any(1, keepdim=True), most, 0.0)
    spread = ((state - mean[:, None]).square() * there).sum(1).div(count).add(1e-6).sqrt()
    return torch.cat((mean, most, spread, (count / MOST_RECEIVERS).expand_as(mean)), 1)


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The negative log-likelihood of the targets, summed, and their number."""
    lost = PlaneGaussian.of(model(batch["features"], batch["mask"])).negative_log_likelihood(batch["target"])
    return lost.sum(), lost.new_full((), len(lost))


def step_cost(model: LocationNetwork, receivers: int) -> Cost:
    """Bytes of forward and backward by the number of samples, by a rough formula: gradients, and what the layers save
    for the backward pass."""
    weights = sum(parameter.numel() for parameter in model.parameters())
    width, layers = model.width, len(model.layers)
    return Cost(8 * weights, 4 * receivers * (width * (4 + 16 * layers) + 3 * 4 * receivers * layers))
