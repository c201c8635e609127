"""The plan of training: the memory of every strategy by part, and the fastest that fits; by arithmetic alone.

Legend: K centers, B samples of a batch on one rank, d dimensions.
"""

import math
from dataclasses import dataclass, replace

import torch

from ..core.base.errors import BudgetError, ConfigError
from ..core.base.units import format_bytes, format_count
from ..core.memory.cost import Cost
from ..core.memory.plan import Candidate, Parts, Plan, choose
from ..engine.train.optim import optimizers
from .model.score_model import ScoreModel

_MAX_CHUNK, _MAX_CHUNK_BYTES = 1024, 2e9  # larger chunks are no faster
_EFFICIENT_CHUNK = 16  # centers: smaller chunks read the last layer too often
_FUSED_VECTORS, _KERNEL_VECTORS, _AUTOGRAD_VECTORS = 10, 16, 16  # of d numbers, that a backward pass holds per pair
_STRIP = 256  # rows of a triangle unpacked at a time, where no kernel reads them packed
_CHUNK_SLOWNESS, _SMALL_CHUNK_SLOWNESS, _MICRO_BATCH_SLOWNESS, _COMMUNICATION_SLOWNESS = 1e-4, 0.5, 0.1, 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSizes:
    """What decides the memory: the model, the batch of one rank, the optimizer, and data on the device.

    Attributes:
        K, d: centers and dimensions.
        entries: numbers of a center's factor.
        features: of all hidden layers together.
        parameters: of the network.
        itemsize: bytes of a number.
        fused: whether the term has its own backward pass.
        strips: whether triangles are unpacked strip by strip, without a kernel.
        batch: samples of a batch on one rank.
        ranks: that train together.
        optimizer: bytes of its state, and of averaged weights.
        data: bytes of the data on the device.
    """

    K: int
    d: int
    entries: int
    features: int
    parameters: int
    itemsize: int
    fused: bool
    strips: bool
    batch: int
    ranks: int = 1
    optimizer: int = 0
    data: int = 0

    @classmethod
    def measure(cls, model: ScoreModel, batch: int, ranks: int, ema: bool, device: torch.device) -> "TrainingSizes":
        parameters = list(model.parameters())
        count = sum(parameter.numel() for parameter in parameters)
        itemsize = model.dtype.itemsize
        return cls(
            K=len(model.standardized_Kd),
            d=model.d,
            entries=model.factor.out_features,
            features=model.config.depth * model.config.hidden,
            parameters=count,
            itemsize=itemsize,
            fused=model.config.factor == "triangle",
            strips=device.type == "cpu",
            batch=math.ceil(batch / ranks),
            ranks=ranks,
            optimizer=optimizers.state_bytes(parameters) + ema * count * itemsize,
        )

    def fixed(self, samples: int) -> dict[str, int]:
        """Bytes that do not depend on the chunk; "data" has samples, their states and gradients, and the gradient of
        the last bias."""
        weights = self.parameters * self.itemsize
        return {
            "parameters": weights,
            "gradients": weights,
            "optimizer": self.optimizer,
            "centers": self.K * self.d * self.itemsize,
            "data": (samples * 6 * (self.d + 2) + self.entries) * self.itemsize + self.data,
        }

    def per_center(self, samples: int) -> dict[str, int]:
        """Bytes of one center of a chunk: its factor with the network's activations, and what each sample adds."""
        strip = 3 * min(_STRIP, self.d) * self.d if self.strips else 0
        entries = self.entries + strip if self.fused else 4 * self.entries
        vectors = _AUTOGRAD_VECTORS if not self.fused else _FUSED_VECTORS if self.strips else _KERNEL_VECTORS
        return {
            "factors": (entries + 2 * self.features) * self.itemsize,
            "activations": samples * (vectors * self.d + 8) * self.itemsize,
        }

    def cost(self, samples: int) -> Cost:
        return Cost(sum(self.fixed(samples).values()), sum(self.per_center(samples).values()))

    def parts(self, samples: int, chunk_size: int) -> Parts:
        """The memory by part."""
        per_chunk = {name: chunk_size * size for name, size in self.per_center(samples).items()}
        return tuple((self.fixed(samples) | per_chunk).items())


def plan_training(
    sizes: TrainingSizes,
    budget: int,
    *,
    strategy: str = "auto",
    chunk_size: int | None = None,
    accumulation_steps: int | None = None,
    device: str = "cpu",
) -> tuple[Plan, int]:
    """The fastest strategy that fits, or the one that was asked for: its plan, whose items are the centers and whose
    batch is a chunk, and its micro-batches per batch.

    Args:
        sizes: the model, the batch and the ranks.
        budget: bytes allowed on a device.
        strategy: "auto" chooses.
        chunk_size: centers at a time; by default as many as fit.
        accumulation_steps: micro-batches per batch; by default as few as fit.
        device: where it runs.
    """
    if strategy == "model_parallel" and sizes.ranks == 1:
        raise ConfigError("model_parallel splits the centers over ranks; name several with --devices 0,1 or --ranks 2")
    strategy = "single" if strategy == "single_gpu" else strategy
    rows = {
        name: _row(name, sizes, budget, chunk_size, accumulation_steps, device)
        for name in ("single", "chunked", "gradient_accumulation", *(["model_parallel"] if sizes.ranks > 1 else []))
    }
    allowed = [candidate for name, (candidate, _, _) in rows.items() if strategy in ("auto", name)]
    try:
        plan = choose(f"wpo train, chunks of {format_count(sizes.K)} centers", allowed, budget)
    except BudgetError as error:
        weights = 2 * sizes.parameters * sizes.itemsize + sizes.optimizer
        raise BudgetError(
            f"{error} The network's weights, gradients and optimizer take {format_bytes(weights)}; "
            "factor='lowrank' has far fewer"
        ) from error
    _, chunk, micro_batches = rows[plan.strategy]
    if chunk_size is not None:  # as it was asked for, rather than in equal parts
        plan = replace(plan, batch=chunk, predicted=plan.cost.at(chunk))

    def parts(name: str, chunk: int) -> Parts:
        return sizes.parts(_samples(name, sizes, rows[name][2]), chunk)

    rejected = tuple(replace(other, parts=parts(other.strategy, rows[other.strategy][1])) for other in plan.rejected)
    return replace(plan, parts=parts(plan.strategy, plan.batch), rejected=rejected), micro_batches


def _samples(strategy: str, sizes: TrainingSizes, micro_batches: int) -> int:
    """Samples at a time on one rank; ranks that split the centers see the samples of all."""
    return math.ceil(sizes.batch / micro_batches) * (sizes.ranks if strategy == "model_parallel" else 1)


def _row(
    name: str, sizes: TrainingSizes, budget: int, chunk_size: int | None, accumulation_steps: int | None, device: str
) -> tuple[Candidate, int, int]:
    """A strategy, its largest chunk that fits, and its micro-batches."""
    ranks = sizes.ranks if name == "model_parallel" else 1
    count = math.ceil(sizes.K / ranks)
    useful = int(_MAX_CHUNK_BYTES / sum(sizes.per_center(sizes.batch * ranks).values()))
    largest = count if name == "single" else min(count, chunk_size or max(1, min(_MAX_CHUNK, useful)))
    accumulates = name == "gradient_accumulation"
    micro_batches = accumulation_steps or min(1 + accumulates, sizes.batch)
    cost = sizes.cost(_samples(name, sizes, micro_batches))
    while accumulates and not accumulation_steps and micro_batches < sizes.batch:
        if cost.capacity(budget) >= min(largest, _EFFICIENT_CHUNK):
            break
        micro_batches = min(2 * micro_batches, sizes.batch)
        cost = sizes.cost(_samples(name, sizes, micro_batches))
    fits = name == "single" or math.isinf(cost.capacity(budget))
    chunk = largest if fits else max(1, min(largest, math.floor(cost.capacity(budget))))
    slowness = 1 + _CHUNK_SLOWNESS * (math.ceil(count / chunk) - 1) + _MICRO_BATCH_SLOWNESS * (micro_batches - 1)
    slowness += _SMALL_CHUNK_SLOWNESS * (max(1.0, min(_EFFICIENT_CHUNK, count) / chunk) - 1)
    candidate = Candidate(
        strategy=name,
        cost=cost,
        items=count,
        most=largest,
        divisible=name != "single",
        piece="center",
        slowness=slowness if ranks == 1 else slowness / ranks + _COMMUNICATION_SLOWNESS,
        devices=(device,) * sizes.ranks,
        precision="float64" if sizes.itemsize == 8 else "float32",
    )
    return candidate, chunk, micro_batches
