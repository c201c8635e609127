"""The score model: a mixture of normal distributions around fixed centers, their precisions given by a network.

Legend: K centers, B samples, d dimensions.

    p(x) = 1/K sum_k N(x; c_k, (L_k L_k^T)^-1),   L_k = network(c_k)

It is trained by implicit score matching, and then gives the density, its score and samples at any noise level in closed
form: at time t the covariances are P^-1 + beta^2 t I.

Internally rows are standardized: shifted by the centers' mean and divided, along each axis, by their standard deviation
times the bandwidth of a kernel density estimate on them. So the network starts at the identity whatever the scale of
the data, and no axis weighs more in the loss for being narrow. Points, densities and scores are in the data's units.
"""

import math
import numbers
from collections.abc import Iterator
from typing import Any, SupportsIndex

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn

from ...core.base.errors import ConfigError, InputError
from ...core.declare.config import build
from ...engine.fold import fold
from ..data.datasets import check_rows, native
from ..options import ModelOptions
from .bandwidth import axis_std, bandwidth, overall_std
from .fold_term import MixtureTerm, NoisyMixtureTerm, TriangularMixtureTerm
from .low_rank import LowRank
from .network import Factor, Network
from .triangular import Triangular

_MAX_FLOOR = 0.9  # of a factor's diagonal, whose entries start at 1
_MAX_FACTOR_ENTRIES = 2**25  # held at once while sampling


class ScoreModel(nn.Module):
    """A mixture around centers whose precisions are learned.

    Args:
        centers: (K, d), a sample of the data of its own: none of them may be trained or tested on.
        scale: one length scale for all axes; by default each axis has its own, from the centers. With 1 the loss is in
            the data's units.
        seed: of the initial weights.
        options: the fields of `wpo.options.ModelOptions`: `hidden`, `depth`, `stability`, `factor`, `rank`, `beta`.

    Attributes:
        strategy, chunk_size, budget: how `fold` splits the centers, where a call does not say.
        sharded: whether ranks that train together split the centers among them, and not only the samples.

    Example:
        >>> import torch
        >>> model = ScoreModel(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)))
        >>> model.loss(torch.zeros(5, 2)).shape, model.sample(3, seed=1).shape
        (torch.Size([]), torch.Size([3, 2]))
    """

    scale_d: Tensor
    shift_d: Tensor
    standardized_Kd: Tensor
    term: MixtureTerm
    chunk_size: int | str
    budget: Any

    def __init__(self, centers: Any, *, scale: float | None = None, seed: int = 0, **options: Any) -> None:
        super().__init__()
        self.config = build(ModelOptions, options)
        centers_Kd = check_rows(centers, "centers")
        if scale is None:
            std_d = axis_std(centers_Kd)
            scale_d = std_d * bandwidth(centers_Kd / std_d)
        elif math.isfinite(scale) and scale > 0:
            scale_d = centers_Kd.new_full(centers_Kd.shape[1:], scale)
        else:
            raise ConfigError(f"scale is {scale!r}; give a length above 0")
        self.register_buffer("scale_d", scale_d)
        self.register_buffer("shift_d", centers_Kd.mean(0))
        self.register_buffer("standardized_Kd", (centers_Kd - self.shift_d) / self.scale_d)
        std = overall_std(self.standardized_Kd)
        self.factor = self._make_factor(std)
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            network = Network(self.factor, self.config.hidden, self.config.depth, std)
        self.term = (TriangularMixtureTerm if self.config.factor == "triangle" else MixtureTerm)(network, self.factor)
        self.register_load_state_dict_post_hook(ScoreModel.update_factor)
        self.strategy, self.chunk_size, self.budget, self.sharded = "auto", "auto", None, False

    def _make_factor(self, std: Tensor) -> Factor:
        floor = min(_MAX_FLOOR, self.config.stability / float(std))
        if self.config.factor == "triangle":
            return Triangular(self.d, floor)
        return LowRank(self.d, min(self.config.rank, self.d), floor)

    def update_factor(self, *_: Any) -> None:
        """Computes the lower bound of a factor's diagonal again, after the scale or the centers changed."""
        self.factor = self.term.factor = self._make_factor(self.term.network.std)

    @property
    def d(self) -> int:
        return self.standardized_Kd.shape[1]

    @property
    def centers(self) -> Float[Tensor, "K d"]:
        """In the data's units."""
        return self.standardized_Kd * self.scale_d + self.shift_d

    @property
    def dtype(self) -> torch.dtype:
        return self.standardized_Kd.dtype

    def loss(self, samples: Any, *, strategy: str | None = None, chunk_size: Any = None) -> Float[Tensor, ""]:
        """The mean of 2 tr(grad s) + |s|^2 over the samples, in standardized units; differentiable."""
        return self.losses(samples, strategy=strategy, chunk_size=chunk_size).mean()

    def losses(self, samples: Any, *, strategy: str | None = None, chunk_size: Any = None) -> Float[Tensor, " B"]:
        """The loss of each sample; NaN for a sample that is NaN, whose neighbors are not affected."""
        _, mean_BV = self._fold(self.term, samples, strategy, chunk_size)
        s_Bd, A_B = mean_BV[:, : self.d], mean_BV[:, self.d]
        return 2 * A_B - s_Bd.square().sum(-1)

    def log_prob(self, x: Any, t: float | Tensor = 0.0) -> Float[Tensor, " B"]:
        """The log-density at noise level t; differentiable."""
        return self._density(x, t)[0]

    def score(self, x: Any, t: float | Tensor = 0.0) -> Float[Tensor, "B d"]:
        """The gradient of `log_prob` with respect to x."""
        return self._density(x, t)[1]

    forward = log_prob

    def _density(self, x: Any, t: float | Tensor) -> tuple[Tensor, Tensor]:
        variance, term = self._noise_variance(t), self.term
        if variance:
            term = NoisyMixtureTerm(self.term.network, self.factor, variance / self.scale_d.square())
        lse_B, mean_BV = self._fold(term, x, None, None)
        count = len(self.standardized_Kd)
        constant = math.log(count) + 0.5 * self.d * math.log(2 * math.pi) + self.scale_d.log().sum()
        return lse_B - constant, mean_BV[:, : self.d] / self.scale_d

    def _noise_variance(self, t: float | Tensor) -> float:
        """In the data's units."""
        try:
            time = float(t)
        except (TypeError, ValueError, RuntimeError):
            time = math.nan
        if not (math.isfinite(time) and time >= 0):
            raise InputError(f"t is {t!r}; give a time of 0 or more, one number")
        return self.config.beta**2 * time

    def _fold(self, term: nn.Module, x: Any, strategy: str | None, chunk_size: Any) -> tuple[Tensor, Tensor]:
        x_Bd, standardized_Kd = self.standardize(x), self.standardized_Kd
        sharded = self.sharded and dist.is_initialized() and dist.get_world_size() > 1
        strategy = strategy or self.strategy
        if sharded:
            strategy = "model_parallel"
            standardized_Kd = standardized_Kd[dist.get_rank() :: dist.get_world_size()]
        elif strategy == "model_parallel":
            strategy = "chunked"  # one rank has all the centers
        with torch.autocast(x_Bd.device.type, enabled=False):
            return fold(
                term,
                standardized_Kd,
                x_Bd,
                chunk_size=self.chunk_size if chunk_size is None else chunk_size,
                strategy=strategy,
                budget=self.budget,
                group=True if sharded else None,
            )

    def standardize(self, x: Any) -> Float[Tensor, "B d"]:
        """Rows of the data in standardized units."""
        try:
            x_Bd = torch.as_tensor(native(x), device=self.shift_d.device)
            if x_Bd.layout != torch.strided:
                raise TypeError("sparse")
            if x_Bd.is_complex():
                raise TypeError("complex numbers")
            x_Bd = x_Bd.to(self.dtype)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"samples are a {type(x).__name__}; give numbers of shape (samples, {self.d})") from error
        if x_Bd.ndim != 2 or x_Bd.shape[1] != self.d:
            raise InputError(f"samples have the shape {tuple(x_Bd.shape)}; give (samples, {self.d}), as the centers")
        return (x_Bd - self.shift_d) / self.scale_d

    @torch.no_grad()
    def sample(
        self,
        n: SupportsIndex,
        t: float | Tensor = 0.0,
        *,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "n d"]:
        """Samples of the mixture at noise level t: a center uniformly, then a normal sample around it.

        Args:
            seed: of the random numbers; by default others each time.
            generator: a generator on the CPU instead of a seed.
        """
        if isinstance(n, Tensor) and n.ndim == 0 and not n.is_floating_point():
            n = int(n)
        if not isinstance(n, numbers.Integral) or isinstance(n, bool) or int(n) < 0:
            raise InputError(f"n is {n!r}; give a number of samples, 0 or more")
        n = int(n)
        n = int(n)
        if generator is None:
            generator = torch.Generator()
            generator.seed() if seed is None else generator.manual_seed(seed)
        variance, device = self._noise_variance(t), self.shift_d.device
        component_n = torch.randint(len(self.standardized_Kd), (n,), generator=generator)
        e_nE = torch.randn(n, self.factor.noise_features, generator=generator, dtype=self.dtype)
        x_nd = torch.empty(n, self.d, dtype=self.dtype, device=device)
        chunk_size = max(1, _MAX_FACTOR_ENTRIES // self.factor.out_features)
        for component_k, row_km, valid_km in _group_by_component(component_n, chunk_size):
            center_kd = self.standardized_Kd[component_k.to(device)]
            factor_kO = self.factor.constrain(self.term.network(center_kd))
            sample_kmd = center_kd[:, None] + self.factor.sample(factor_kO, e_nE[row_km].to(device))
            x_nd[row_km[valid_km].to(device)] = sample_kmd[valid_km.to(device)]
        x_nd = x_nd * self.scale_d + self.shift_d
        if variance:
            x_nd += math.sqrt(variance) * torch.randn(n, self.d, generator=generator, dtype=self.dtype).to(device)
        return x_nd


def _group_by_component(component_n: Tensor, chunk_size: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The distinct components, some at a time, with the rows of each (padded) and a mask of those that are real."""
    order_n = torch.argsort(component_n, stable=True)
    component_k, count_k = torch.unique_consecutive(component_n[order_n], return_counts=True)
    start_k = count_k.cumsum(0) - count_k
    for first in range(0, len(component_k), chunk_size):
        chunk = slice(first, first + chunk_size)
        offset_m = torch.arange(int(count_k[chunk].max()))
        index_km = (start_k[chunk][:, None] + offset_m).clamp(max=len(order_n) - 1)
        yield component_k[chunk], order_n[index_km], offset_m < count_k[chunk][:, None]
