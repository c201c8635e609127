"""The score model: a mixture of normal distributions around fixed centers, their precisions made by a network.

Legend: K centers, B samples, d dimensions.

    p(x) = 1/K sum_k N(x; c_k, (L_k L_k^T)^-1),   L_k = network(c_k)

It is trained by implicit score matching, and then gives the density, its score and draws at any noise level in closed
form: at time t the covariances are P^-1 + beta^2 t I.

Inside, lengths are measured in units of the model's own: along each axis the centers' standard deviation, times the
bandwidth of a kernel density estimate on them. The network then begins at the identity whatever the data's scale is,
and no axis weighs more in the loss for being narrow. Points, densities and scores are taken and given in the data's.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn

from ...core.base.errors import ConfigError, InputError
from ...engine.fold import fold
from .bandwidth import bandwidth, spread_of, spreads
from .factor_types import FACTORS, factor_of
from .factors import Factor
from .fold_term import Noisy, Term, TriangleTerm
from .network import Network

STRATEGIES = ("auto", "single", "single_gpu", "chunked", "gradient_accumulation", "model_parallel")
_HIGHEST = 0.9  # the least entry of a diagonal, at most: they begin at 1
_DRAWN = 2**25  # numbers of the factors that are held at once while drawing


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The sizes of a model; see `ScoreModel`."""

    hidden: int = 64
    depth: int = 5
    stability: float = 1.0
    factor: str = "triangle"
    rank: int = 16
    beta: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("hidden", 1), ("depth", 1), ("rank", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} is {value!r}; give a whole number from {least} on")
        for name in ("stability", "beta"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name} is {value!r}; give a number above 0")
        if self.factor not in FACTORS:
            raise ConfigError(f"factor is {self.factor!r}; choose one of {', '.join(FACTORS)}")


class ScoreModel(nn.Module):
    """A mixture around centers whose precisions are learned.

    Args:
        centers: (K, d), an independent draw of the data: none of them may be trained or tested on.
        hidden, depth: features and number of the network's hidden layers.
        stability: the least entry of a factor's diagonal, times the spread (standard deviation) of the centers: 1 lets
            a component get about as wide as all of the data, and a larger one less.
        factor: "triangle" for full precisions, "lowrank" for D^2 + F F^T, with far fewer numbers.
        rank: columns of F.
        beta: how fast noise grows: at time t its variance is beta^2 t.
        unit: one unit of length for all axes; found for each from the centers unless said. With 1 the loss is in the
            data's own units.
        seed: of the first weights.

    Attributes:
        strategy, chunk, budget: how `fold` goes over the centers, unless a call says otherwise.
        sharded: whether ranks that train together share the centers among them, instead of the samples alone.

    Example:
        >>> import torch
        >>> model = ScoreModel(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)))
        >>> model.loss(torch.zeros(5, 2)).shape, model.sample(3, seed=1).shape
        (torch.Size([]), torch.Size([3, 2]))
    """

    unit_d: Tensor
    shift_d: Tensor
    inner_Kd: Tensor
    term: Term
    strategy: str
    chunk: int | str
    budget: Any

    def __init__(
        self,
        centers: Any,
        *,
        hidden: int = 64,
        depth: int = 5,
        stability: float = 1.0,
        factor: str = "triangle",
        rank: int = 16,
        beta: float = 1.0,
        unit: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.config = Config(hidden=hidden, depth=depth, stability=stability, factor=factor, rank=rank, beta=beta)
        centers_Kd = checked(centers, "centers")
        if unit is not None and not (math.isfinite(unit) and unit > 0):
            raise ConfigError(f"unit is {unit!r}; give a length above 0")
        along_d = spreads(centers_Kd) if unit is None else centers_Kd.new_full(centers_Kd.shape[1:], unit)
        self.register_buffer("unit_d", along_d * bandwidth(centers_Kd / along_d) if unit is None else along_d)
        self.register_buffer("shift_d", centers_Kd.mean(0))
        self.register_buffer("inner_Kd", (centers_Kd - self.shift_d) / self.unit_d)
        spread = spread_of(self.inner_Kd)
        self.factor = self._factor(spread)
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            network = Network(self.factor, hidden, depth, spread)
        self.term = (TriangleTerm if factor == "triangle" else Term)(network, self.factor)
        self.register_load_state_dict_post_hook(_loaded)
        self.strategy, self.chunk, self.budget = "auto", "auto", None
        self.sharded = False

    def _factor(self, spread: Tensor) -> Factor:
        config = self.config
        return factor_of(config.factor, self.d, min(_HIGHEST, config.stability / float(spread)), config.rank)

    def remake(self) -> None:
        """The least entry of a diagonal again, after the units or the centers changed."""
        self.factor = self.term.factor = self._factor(self.term.network.spread)

    @property
    def d(self) -> int:
        return self.inner_Kd.shape[1]

    @property
    def centers(self) -> Float[Tensor, "K d"]:
        """In the data's units."""
        return self.inner_Kd * self.unit_d + self.shift_d

    @property
    def dtype(self) -> torch.dtype:
        return self.inner_Kd.dtype

    def extra_repr(self) -> str:
        return f"{len(self.inner_Kd)} centers of {self.d} dimensions, {self.config}"

    def loss(self, samples: Any, *, strategy: str | None = None, chunk: Any = None) -> Float[Tensor, ""]:
        """The mean of 2 tr(grad s) + |s|^2 over the samples, in the model's units; differentiable."""
        return self.losses(samples, strategy=strategy, chunk=chunk).mean()

    def losses(self, samples: Any, *, strategy: str | None = None, chunk: Any = None) -> Float[Tensor, " B"]:
        """The loss of each sample. One that is not a number has a loss that is none, and leaves the others alone."""
        _, mean_BV = self._fold(self.term, samples, strategy, chunk)
        s_Bd, A_B = mean_BV[:, : self.d], mean_BV[:, self.d]
        return 2 * A_B - s_Bd.square().sum(-1)

    def log_prob(self, x: Any, t: float = 0.0) -> Float[Tensor, " B"]:
        """The logarithm of the density, at noise level t; differentiable."""
        return self._density(x, t)[0]

    def score(self, x: Any, t: float = 0.0) -> Float[Tensor, "B d"]:
        """The gradient of `log_prob` with respect to x."""
        return self._density(x, t)[1]

    def forward(self, x: Any, t: float = 0.0) -> Float[Tensor, " B"]:
        return self.log_prob(x, t)

    def _density(self, x: Any, t: float) -> tuple[Tensor, Tensor]:
        variance = self._noise(t)
        term = Noisy(self.term.network, self.factor, variance / self.unit_d.square()) if variance else self.term
        lse_B, mean_BV = self._fold(term, x, None, None)
        constant = math.log(self._count()) + 0.5 * self.d * math.log(2 * math.pi) + self.unit_d.log().sum()
        return lse_B - constant, mean_BV[:, : self.d] / self.unit_d

    def _noise(self, t: float) -> float:
        """The variance of the noise, in the data's units."""
        if not (math.isfinite(t) and t >= 0):
            raise InputError(f"t is {t!r}; give a time of 0 or more")
        return self.config.beta**2 * t

    def _fold(self, term: nn.Module, x: Any, strategy: str | None, chunk: Any) -> tuple[Tensor, Tensor]:
        x_Bd = self.inside(x)
        together = self.sharded and dist.is_initialized() and dist.get_world_size() > 1
        inner_Kd = self.inner_Kd[dist.get_rank() :: dist.get_world_size()] if together else self.inner_Kd
        name = "model_parallel" if together else strategy or self.strategy
        if name == "model_parallel" and not together:
            name = "chunked"  # one rank has all the centers
        chosen = self.chunk if chunk is None else chunk
        with torch.autocast(x_Bd.device.type, enabled=False):
            return fold(
                term,
                inner_Kd,
                x_Bd,
                chunk_size=chosen,
                strategy=name,
                budget=self.budget,
                group=True if together else None,
            )

    def _count(self) -> int:
        return len(self.inner_Kd)

    def inside(self, x: Any) -> Float[Tensor, "B d"]:
        """Rows in the model's units."""
        x_Bd = torch.as_tensor(x, device=self.inner_Kd.device).to(self.dtype)
        if x_Bd.ndim != 2 or x_Bd.shape[1] != self.d:
            raise InputError(f"samples have the shape {tuple(x_Bd.shape)}; give (samples, {self.d}), as the centers")
        return (x_Bd - self.shift_d) / self.unit_d

    @torch.no_grad()
    def sample(
        self, n: int, t: float = 0.0, *, seed: int | None = None, generator: torch.Generator | None = None
    ) -> Float[Tensor, "n d"]:
        """Draws from the mixture at noise level t: a center, then a normal draw around it.

        Args:
            seed: the same seed, the same draws; another each time unless said.
            generator: a generator on the CPU instead of a seed.
        """
        if not isinstance(n, int) or isinstance(n, bool) or n < 0:
            raise InputError(f"n is {n!r}; give a number of samples, 0 or more")
        if generator is None:
            generator = torch.Generator()
            generator.seed() if seed is None else generator.manual_seed(seed)
        variance = self._noise(t)
        chosen_n = torch.randint(len(self.inner_Kd), (n,), generator=generator)
        e_nE = torch.randn(n, self.factor.noise, generator=generator, dtype=self.dtype)
        x_nd = torch.empty(n, self.d, dtype=self.dtype, device=self.inner_Kd.device)
        for centers_k, rows_km, there_km in _by_center(chosen_n, max(1, _DRAWN // self.factor.outputs)):
            inner_kd = self.inner_Kd[centers_k.to(self.inner_Kd.device)]
            shaped_kO = self.factor.shape(self.term.network(inner_kd))
            drawn_kmd = inner_kd[:, None] + self.factor.draw(shaped_kO, e_nE[rows_km].to(inner_kd.device))
            x_nd[rows_km[there_km].to(x_nd.device)] = drawn_kmd[there_km.to(x_nd.device)]
        x_nd = x_nd * self.unit_d + self.shift_d
        if variance:
            x_nd += math.sqrt(variance) * torch.randn(n, self.d, generator=generator, dtype=self.dtype).to(x_nd.device)
        return x_nd


def _loaded(model: ScoreModel, _: Any) -> None:
    """The least entry of a diagonal follows from the centers, which were exchanged."""
    model.remake()


def _by_center(chosen_n: Tensor, most: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Centers that were chosen, some at a time, with the rows that chose each (padded) and which of these are real."""
    order_n = torch.argsort(chosen_n, stable=True)
    centers, counts = torch.unique_consecutive(chosen_n[order_n], return_counts=True)
    begins = counts.cumsum(0) - counts
    for start in range(0, len(centers), most):
        part = slice(start, start + most)
        within = torch.arange(int(counts[part].max()))
        there_km = within < counts[part][:, None]
        places_km = (begins[part][:, None] + within).clamp(max=len(order_n) - 1)
        yield centers[part], order_n[places_km], there_km


def checked(rows: Any, what: str) -> Float[Tensor, "N d"]:
    """Rows of finite numbers, float32 or float64, or an error that names the row."""
    try:
        found = torch.as_tensor(rows)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{what} cannot be read as numbers: {error}; give an array of shape (rows, d)") from error
    if found.ndim != 2 or 0 in found.shape:
        raise InputError(f"{what} have the shape {tuple(found.shape)}; give (rows, d), at least one row and column")
    if found.is_complex() or found.dtype == torch.bool:
        raise InputError(f"{what} are {found.dtype}; give real numbers")
    if found.dtype not in (torch.float32, torch.float64):
        found = found.float()
    bad = torch.nonzero(~found.isfinite().all(1)).flatten()
    if len(bad):
        raise InputError(
            f"{what} have {len(bad)} row(s) with NaN or infinity, the first is row {int(bad[0])}; leave these out"
        )
    return found.detach()
