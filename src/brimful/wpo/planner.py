"""The plan of training: the memory of a score model by part, for the planner of `fold`; by arithmetic alone.

Legend: K centers, B samples of a batch on one rank, d dimensions.
"""

import math
from dataclasses import dataclass

import torch

from ..core.base.errors import BudgetError, ConfigError
from ..core.base.formatting import format_bytes, format_count
from ..core.memory.cost import Cost
from ..core.memory.plan import Plan
from ..engine.fold.plan import FoldCost, FoldSizes, Slowness, plan_strategies
from ..engine.train.optim import optimizers
from .model.score_model import ScoreModel

_MAX_CHUNK, _MAX_CHUNK_BYTES = 1024, 2e9  # larger chunks are no faster
_FUSED_VECTORS, _KERNEL_VECTORS, _AUTOGRAD_VECTORS = 10, 16, 16  # of d numbers, that a backward pass holds per pair
_KEPT = 1.25  # of the activations, on a CPU: with what its C library keeps of freed ones
_STRIP = 256  # rows of a triangle unpacked at a time, where no kernel reads them packed
_SLOWNESS = Slowness(
    recompute=1.0, block=0.1, small_chunk=0.5, efficient_chunk=16
)  # small chunks read the last layer often


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
        optimizer: bytes of its state.
        average: bytes of averaged weights.
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
    average: int = 0
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
            optimizer=optimizers.state_bytes(parameters),
            average=ema * count * itemsize,
        )

    def cost(self, samples: int) -> FoldCost:
        """Bytes by part. Of what does not depend on the chunk, "data" has samples, their states and gradients, and the
        gradient of the last bias; one center of a chunk has its factor with the network's activations, and what each
        sample adds."""
        weights = self.parameters * self.itemsize
        strip = 3 * min(_STRIP, self.d) * self.d if self.strips else 0
        entries = self.entries + strip if self.fused else 4 * self.entries
        vectors = _AUTOGRAD_VECTORS if not self.fused else _FUSED_VECTORS if self.strips else _KERNEL_VECTORS
        kept = _KEPT if self.strips else 1.0
        return FoldCost(
            {
                "parameters": weights,
                "gradients": weights,
                "optimizer": self.optimizer,
                **({"moving average": self.average} if self.average else {}),
                "centers": self.K * self.d * self.itemsize,
                "data": (samples * 6 * (self.d + 2) + self.entries) * self.itemsize + self.data,
            },
            {
                "factors": (entries + 2 * self.features) * self.itemsize,
                "activations": round(kept * samples * (vectors * self.d + 8) * self.itemsize),
            },
        )


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
    folded = FoldSizes(
        components=sizes.K,
        samples=sizes.batch,
        ranks=sizes.ranks,
        chunk=chunk_size,
        max_chunk=_max_chunk,
        blocks=accumulation_steps,
        slowness=_SLOWNESS,
        device=device,
        precision="float64" if sizes.itemsize == 8 else "float32",
        component="center",
    )
    work = f"wpo train, chunks of {format_count(sizes.K)} centers"
    try:
        planned = plan_strategies(work, folded, sizes.cost, budget, "single" if strategy == "single_gpu" else strategy)
    except BudgetError as error:
        weights = 2 * sizes.parameters * sizes.itemsize + sizes.optimizer + sizes.average
        raise BudgetError(
            f"{error} The network's weights, gradients and optimizer take {format_bytes(weights)}; "
            "factor='lowrank' has far fewer"
        ) from error
    return planned.plan, planned.blocks


def _max_chunk(cost: Cost) -> int:
    return max(1, min(_MAX_CHUNK, int(_MAX_CHUNK_BYTES / cost.per_unit)))
