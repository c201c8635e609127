"""What each strategy needs in memory, part by part, and which is chosen: by arithmetic, before anything runs.

Legend: K centers, B samples of a batch on one rank, d dimensions, O numbers of a factor, H hidden features.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ..core.base.errors import BudgetError, ConfigError
from ..core.base.text_table import format_table
from ..core.base.units import format_bytes, format_count
from ..core.memory.cost import Cost
from ..core.memory.limit import MemoryLimit
from ..core.memory.plan import Candidate, Plan, choose
from ..engine.train.optim import optimizers
from .model.score_model import ScoreModel

NAMES = {"single": "single_gpu"}
"""Strategies whose name on the command line is another one."""

_MOST, _BYTES = 1024, 2e9  # centers of a chunk, and their bytes: from there on larger ones are no faster
_ENOUGH = 16  # centers of a chunk: fewer read the last layer too often for what they do
_FUSED = 10  # numbers a center, sample and dimension that the triangles' own backward pass holds
_KERNEL = 16  # the same by the kernels, which want their vectors transposed and split
_PLAIN = 16  # the same of autograd
_STRIP = 256  # rows of a triangle that are unpacked at a time, where no kernel reads them packed
_PIECE = 1e-4  # slowness: of each further chunk
_SMALL = 0.5  # of chunks half as large as is enough
_AGAIN = 0.1  # of each further micro-batch, which makes the factors anew
_TALK = 0.15  # of sharing the samples' states among ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One strategy: bytes on one device, part by part.

    Attributes:
        strategy: its name.
        chunk: centers at a time.
        accumulate: micro-batches of a batch.
        ranks: devices, or processes, that share the centers.
        weights, gradients: the network's.
        centers: all of them.
        optimizer: its state, and the averaged weights where there are any.
        factors: the factors of a chunk.
        activations: what lies beside them for each sample of a micro-batch.
        why: why it was taken, or not.
    """

    strategy: str
    chunk: int
    accumulate: int
    ranks: int
    weights: int
    centers: int
    factors: int
    gradients: int
    optimizer: int
    activations: int
    why: str = ""

    @property
    def total(self) -> int:
        return self.weights + self.centers + self.factors + self.gradients + self.optimizer + self.activations


@dataclass(frozen=True, slots=True)
class Table:
    """The strategies beside each other, and the one that is taken.

    Attributes:
        rows: one a strategy.
        chosen: its place among them.
        budget: bytes allowed on a device.
        plan: the same as a `Plan`.
    """

    rows: tuple[Row, ...]
    chosen: int
    budget: int
    plan: Plan

    @property
    def row(self) -> Row:
        return self.rows[self.chosen]

    def __str__(self) -> str:
        names = ("weights", "centers", "factors", "gradients", "optimizer", "activations", "total")
        body = [
            (
                ("> " if place == self.chosen else "  ") + each.strategy,
                format_count(each.chunk),
                format_count(each.accumulate),
                *(format_bytes(getattr(each, name)) for name in names),
                each.why,
            )
            for place, each in enumerate(self.rows)
        ]
        header = ("  strategy", "chunk", "micro-batches", *names, "why")
        return f"memory on each device, budget {format_bytes(self.budget)}\n" + format_table(body, header, "")

    def to_dict(self) -> dict[str, Any]:
        rows = [asdict(each) | {"total": each.total} for each in self.rows]
        return {"rows": rows, "chosen": self.chosen, "budget": self.budget, "plan": self.plan.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Table":
        rows = (Row(**{name: value for name, value in each.items() if name != "total"}) for each in data["rows"])
        return cls(tuple(rows), data["chosen"], data["budget"], Plan.from_dict(data["plan"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What decides the memory: the model, a batch of one rank, the optimizer's state, and data on the device."""

    K: int
    d: int
    outputs: int
    hidden: int
    depth: int
    parameters: int
    itemsize: int
    fused: bool
    strips: bool
    batch: int
    ranks: int = 1
    ema: bool = False
    state: int = 0
    data: int = 0

    @classmethod
    def of(cls, model: ScoreModel, batch: int, ranks: int, ema: bool, device: torch.device) -> "Sizes":
        weights = list(model.parameters())
        return cls(
            K=len(model.inner_Kd),
            d=model.d,
            outputs=model.factor.outputs,
            hidden=model.config.hidden,
            depth=model.config.depth,
            parameters=sum(each.numel() for each in weights),
            itemsize=model.dtype.itemsize,
            fused=model.config.factor == "triangle",
            strips=device.type == "cpu",
            batch=-(-batch // ranks),
            ranks=ranks,
            ema=ema,
            state=optimizers.state_bytes(weights),
        )

    def factors(self) -> int:
        """Bytes of one center's factor, and of what it goes through."""
        strip = 3 * min(_STRIP, self.d) * self.d if self.strips else 0
        numbers = self.outputs + strip if self.fused else 4 * self.outputs
        return (numbers + 2 * self.depth * self.hidden) * self.itemsize

    def activations(self, samples: int) -> int:
        """Bytes of one center beside so many samples."""
        held = _PLAIN if not self.fused else _FUSED if self.strips else _KERNEL
        return samples * (held * self.d + 8) * self.itemsize

    def fixed(self) -> dict[str, int]:
        weights = self.parameters * self.itemsize
        return {
            "weights": weights,
            "centers": self.K * self.d * self.itemsize,
            "gradients": weights,
            "optimizer": self.state + (weights if self.ema else 0),
        }

    def beside(self, samples: int) -> int:
        """Bytes that do not depend on the chunk: the data, samples, their states and gradients, the last bias's
        gradient."""
        return (samples * 6 * (self.d + 2) + self.outputs) * self.itemsize + self.data


def table(
    sizes: Sizes,
    budget: int,
    *,
    strategy: str = "auto",
    chunk: int | str = "auto",
    accumulate: int | None = None,
    device: str = "cpu",
) -> Table:
    """All strategies, and the cheapest that fits, or the one that was asked for.

    Args:
        sizes: the model, the batch and the ranks.
        budget: bytes allowed on a device.
        strategy: "auto" chooses.
        chunk: centers at a time; "auto" as many as fit.
        accumulate: micro-batches of a batch; as few as fit unless said.
    """
    strategy = {"single_gpu": "single"}.get(strategy, strategy)
    names = ["single", "chunked", "gradient_accumulation", *(["model_parallel"] if sizes.ranks > 1 else [])]
    if strategy == "model_parallel" and sizes.ranks == 1:
        raise ConfigError("model_parallel shares the centers among ranks; name several with --devices 0,1 or --ranks 2")
    if strategy != "auto" and strategy not in names:
        raise ConfigError(f"strategy is {strategy!r}; choose auto, {', '.join(names)}")
    if chunk != "auto" and (not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1):
        raise ConfigError(f"chunk is {chunk!r}; give a whole number of centers from 1 on, or 'auto'")
    made = [_candidate(name, sizes, budget, chunk, accumulate, device) for name in names]
    allowed = [each for each in made if strategy in ("auto", each.candidate.strategy)]
    try:
        plan = choose(
            f"wpo train, chunks of {format_count(sizes.K)} centers", [each.candidate for each in allowed], budget
        )
    except BudgetError as error:
        raise BudgetError(
            f"{error} The network's weights, gradients and optimizer take {format_bytes(sum(sizes.fixed().values()))}; "
            "factor='lowrank' has far fewer"
        ) from error
    reasons = {each.strategy: each.reason for each in plan.rejected}
    rows = tuple(each.row(plan, reasons, strategy) for each in made)
    place = next(place for place, each in enumerate(made) if each.candidate.strategy == plan.strategy)
    return Table(rows, place, budget, plan)


@dataclass(frozen=True, slots=True)
class _Made:
    candidate: Candidate
    sizes: Sizes
    accumulate: int
    chunk: int
    even: bool

    def row(self, plan: Plan, reasons: dict[str, str], asked: str) -> Row:
        sizes, name = self.sizes, self.candidate.strategy
        chosen = name == plan.strategy
        chunk = plan.batch if chosen and self.even else self.chunk
        samples = -(-sizes.batch // self.accumulate) * (sizes.ranks if name == "model_parallel" else 1)
        why = (
            ("asked for" if asked != "auto" else "the fastest that fits")
            if chosen
            else reasons.get(name, "not asked for")
        )
        return Row(
            strategy=NAMES.get(name, name),
            chunk=chunk,
            accumulate=self.accumulate,
            ranks=sizes.ranks,
            factors=chunk * sizes.factors(),
            activations=chunk * sizes.activations(samples) + sizes.beside(samples),
            why=why,
            **sizes.fixed(),
        )


def _candidate(name: str, sizes: Sizes, budget: int, chunk: int | str, accumulate: int | None, device: str) -> _Made:
    shared = sizes.ranks if name == "model_parallel" else 1
    count = -(-sizes.K // shared)
    most = count if name == "single" else min(count, _largest(sizes, shared) if chunk == "auto" else int(chunk))
    least = 2 if name == "gradient_accumulation" else 1

    def cost(pieces: int) -> Cost:
        samples = -(-sizes.batch // pieces) * shared
        fixed = sum(sizes.fixed().values()) + sizes.beside(samples)
        return Cost(fixed, sizes.factors() + sizes.activations(samples))

    pieces = accumulate or min(least, sizes.batch)
    if accumulate is None and name == "gradient_accumulation":
        while pieces < sizes.batch and cost(pieces).capacity(budget) < min(most, _ENOUGH):
            pieces = min(2 * pieces, sizes.batch)
    found = cost(pieces)
    room = found.capacity(budget)
    held = most if name == "single" else max(1, min(most, math.floor(room) if math.isfinite(room) else most))
    steps = -(-count // held)
    small = max(1.0, min(_ENOUGH, count) / held) - 1
    slowness = 1 + _PIECE * (steps - 1) + _SMALL * small + _AGAIN * (pieces - 1)
    slowness = slowness / shared + (_TALK if shared > 1 else 0)
    candidate = Candidate(
        strategy=name,
        cost=found,
        items=count,
        most=most,
        divisible=name != "single",
        piece="center",
        slowness=slowness,
        devices=(device,) * sizes.ranks,
        precision="float64" if sizes.itemsize == 8 else "float32",
    )
    return _Made(candidate, sizes, pieces, held, even=chunk == "auto")


def _largest(sizes: Sizes, shared: int) -> int:
    """The largest chunk that is of use."""
    return max(1, min(_MOST, int(_BYTES / (sizes.factors() + sizes.activations(sizes.batch * shared)))))


def limit(budget: Any, device: torch.device) -> int:
    """Bytes that a budget allows on a device."""
    return MemoryLimit(budget, device).bytes
