"""`wpo.train`: maximum likelihood or score matching by `brimful.train`, with the centers split as the plan says.

Legend: N training rows, M held out, d dimensions.

The loss is in standardized units: it does not depend on the data's scale, and neither do learning rate and clipping.
"""

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from ...core.base.errors import ConfigError, InputError
from ...core.declare.config import build
from ...core.memory import devices
from ...core.memory.budget import BudgetLike
from ...core.memory.cost import Cost
from ...core.memory.devices import DeviceLike
from ...core.memory.limit import MemoryLimit
from ...core.memory.plan import Plan
from ...core.runs.events import Event, Planned
from ...engine.distributed.environment import is_first_rank, launched_rank
from ...engine.train import plan_train as plan_model
from ...engine.train import train as train_model
from ...engine.train.step.loss import Weighted
from ..data.datasets import ImageShape, check_rows
from ..evaluation.scores import evaluate
from ..keywords import ScoreTrainKeywords
from ..model.score_model import ScoreModel
from ..options import MONITORS, ScoreTrainOptions
from ..planner import TrainingSizes, plan_training
from ..result import WPOResult
from ..store import save
from .calibrate import Calibration, calibrate
from .overlap import Overlap, without_overlap

_EVALUATED = 512  # held-out rows whose likelihood is computed after each epoch


def train(
    model: ScoreModel,
    samples: Any,
    *,
    held_out: Any = 0.1,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    out: str | Path | None = None,
    resume: bool = True,
    seed: int = 0,
    progress: bool | Callable[[Event], None] | None = None,
    callbacks: Any = (),
    cancel: threading.Event | None = None,
    image_shape: ImageShape | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Unpack[ScoreTrainKeywords],
) -> WPOResult:
    """Trains a score model.

    Args:
        model: with its centers, a sample of its own.
        samples: (N, d), to train on. Those that equal a center are left out, with a warning.
        held_out: (M, d) to evaluate on, or the fraction of the samples to hold out for that. Those that equal a center
            or a training row are left out, with a warning.
        budget, device, out, resume, seed, progress, callbacks, cancel: see `brimful.train`.
        image_shape: (channels, height, width) where a row is an image, for the report.
        settings: what to store about the origin of the data.
        options: the fields of `wpo.options.ScoreTrainOptions`: `steps`, `batch_size`, `strategy`, `chunk_size`,
            `accumulation_steps`, `ranks`, `objective`, `monitor`, `calibrate`, `add_training_points`, and the options
            of optimizer and checkpoints of `brimful.train`.

    Example:
        >>> import torch
        >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> result = train(ScoreModel(x[:50]), x[50:], steps=5, batch_size=50, device="cpu", progress=False)
        >>> result.plan.strategy, len(result.curve)
        ('single', 5)
    """
    config = build(ScoreTrainOptions, dict(options))
    if config.add_training_points and not config.calibrate:
        raise ConfigError("add_training_points needs calibrate: the learned width is that of fewer centers")
    overlap, prepared = prepare(model, samples, held_out, budget, device, seed, config)
    samples_Nd, held_out_Md, plan, accumulation_steps = prepared
    if callable(progress) and is_first_rank():
        progress(Planned(plan=plan.to_dict()))
    centers_Kd = model.centers
    known_Nd = torch.cat((samples_Nd, centers_Kd.cpu()))
    calibration = calibrate(model, held_out_Md) if config.calibrate else Calibration()
    told = _OfPlan(progress, plan) if callable(progress) else progress
    result = call_engine(
        train_model,
        model,
        config,
        *prepared,
        metrics=EpochMetrics(held_out_Md[:_EVALUATED]),
        monitor=config.monitor,
        mode=MONITORS[config.monitor],
        best=config.best,
        budget=budget,
        device=device,
        ranks=config.ranks,
        loader={"drop_last": len(samples_Nd) >= config.batch_size},
        out=out,
        resume=resume,
        seed=seed,
        progress=told,
        callbacks=callbacks,
        cancel=cancel,
        name="wpo train",
    )
    model.budget = budget
    if config.calibrate:
        added = samples_Nd if config.add_training_points else None
        calibration = calibrate(model, held_out_Md, added, centers=centers_Kd, start=calibration)
    scores, report_samples = evaluate(model, known_Nd, held_out_Md)
    plan = refined(plan, result.predicted, result.plan.tier)
    trained = WPOResult(
        model=model,
        scores=scores,
        report_samples=report_samples,
        history=result.history,
        curve=result.curve,
        best_epoch=int((result.best or result.history[-1])["epoch"]) - 1,
        plan=plan,
        observed=result.observed,
        seconds=result.seconds,
        compiling=result.compiling,
        settings={
            "steps": config.steps,
            "batch_size": config.batch_size,
            "accumulation_steps": accumulation_steps,
            "lr": config.lr,
            "seed": seed,
            "objective": config.objective,
            "calibration": asdict(calibration),
            "overlap": asdict(overlap),
            **(settings or {}),
        },
        image_shape=image_shape,
    )
    if result.out is not None:
        save(trained, result.out)
    return trained


@dataclass(frozen=True, slots=True)
class _OfPlan:
    """Tells events; what the trainer says of its plan is said of this one, by whose parts the memory was planned."""

    tell: Callable[[Event], None]
    plan: Plan

    def __call__(self, event: Event) -> None:
        if isinstance(event, Planned):
            event = Planned(plan=refined(self.plan, event.plan["predicted"], event.plan["tier"]).to_dict())
        self.tell(event)


def refined(plan: Plan, measured: int, tier: str | None) -> Plan:
    """The plan with the tier of its data and, on a GPU, the peak that was measured on a micro-batch, which is that of
    its activations. On a CPU the formula is nearer: a probe does not see what the C library keeps."""
    plan = replace(plan, tier=tier)
    if plan.devices[0] == "cpu":
        return plan
    *others, (name, size) = plan.parts
    return replace(plan, predicted=measured, parts=(*others, (name, max(0, size + measured - plan.predicted))))


def plan_train(
    model: ScoreModel,
    samples: Any,
    *,
    held_out: Any = 0.1,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    seed: int = 0,
    probe: bool = False,
    **options: Unpack[ScoreTrainKeywords],
) -> Plan:
    """The plan that `train` would follow; its arguments are those of `train`.

    Args:
        probe: measure the peak of the strategy that arithmetic chooses, by the loss of a few samples. Of several ranks
            it is not measured.
    """
    config = build(ScoreTrainOptions, dict(options))
    _, prepared = prepare(model, samples, held_out, budget, device, seed, config)
    plan = prepared[2]
    if not probe or len(plan.devices) > 1:
        return plan
    measured = call_engine(plan_model, model, config, *prepared, budget=budget, device=device)
    growing = plan.cost.per_unit * plan.batch
    cost = Cost(max(0.0, measured.predicted - growing), plan.cost.per_unit, source="probe")
    return replace(plan, predicted=measured.predicted, cost=cost)


def prepare(
    model: ScoreModel,
    samples: Any,
    held_out: Any,
    budget: BudgetLike,
    device: DeviceLike,
    seed: int,
    config: ScoreTrainOptions,
) -> tuple[Overlap, tuple[Tensor, Tensor, Plan, int]]:
    """The rows left out; training samples and held-out samples, checked, the plan, and its micro-batches per batch."""
    if not isinstance(model, ScoreModel):
        raise InputError(f"model is a {type(model).__name__}; give a wpo.ScoreModel")
    if config.precision != "auto":
        model.to(getattr(torch, config.precision))
    samples_Nd = check_rows(samples, "samples", model.d).to("cpu", model.dtype)
    if isinstance(held_out, float):
        samples_Nd, held_out_Md = _split(samples_Nd, held_out, seed)
    else:
        held_out_Md = check_rows(held_out, "held_out", model.d).to("cpu", model.dtype)
    samples_Nd, held_out_Md, overlap = without_overlap(model, samples_Nd, held_out_Md)
    used, launched = devices.resolve_all(device), launched_rank()
    ranks = config.ranks or (launched.ranks if launched is not None else len(used))
    batch_size, strategy = config.batch_size, config.strategy
    multiple = ranks * (config.accumulation_steps or 1)
    if strategy == "model_parallel" and batch_size % multiple:
        raise ConfigError(
            f"batch_size is {batch_size}, and {ranks} ranks that split the centers take it in {multiple} equal parts: "
            f"give a multiple of {multiple}, such as {-(-batch_size // multiple) * multiple}"
        )
    if strategy == "model_parallel" and len(samples_Nd) < batch_size:
        raise ConfigError(f"batch_size is {batch_size} and there are {len(samples_Nd)} samples; give a smaller one")
    if strategy == "auto" and (batch_size % multiple or len(samples_Nd) < batch_size):
        strategy = "chunked"  # ranks with unequal batches cannot split the centers
    averaged = config.ema_span > 0 or config.ema is not None
    sizes = TrainingSizes.measure(model, min(batch_size, len(samples_Nd)), ranks, averaged, used[0])
    if used[0].type == "cuda":
        sizes = replace(sizes, data=samples_Nd.nbytes + held_out_Md.nbytes)
    plan, accumulation_steps = plan_training(
        sizes,
        MemoryLimit(budget, used[0]).bytes,
        strategy=strategy,
        chunk_size=config.chunk_size,
        accumulation_steps=config.accumulation_steps,
        device=str(used[0]),
    )
    return overlap, (samples_Nd, held_out_Md, plan, accumulation_steps)


def call_engine(
    engine: Callable[..., Any],
    model: ScoreModel,
    config: ScoreTrainOptions,
    samples_Nd: Tensor,
    held_out_Md: Tensor,
    plan: Plan,
    accumulation_steps: int,
    **options: Any,
) -> Any:
    """Calls `brimful.train`, or its planner, with the centers split as the plan says."""
    precision = str(model.dtype).removeprefix("torch.")
    options |= config.train_options() | {"accumulation_steps": accumulation_steps, "precision": precision}
    loss = functools.partial(batch_loss, objective=config.objective)
    _set_strategy(model, plan.strategy, plan.batch)
    try:
        return engine(model, loss, {"x": samples_Nd}, valid={"x": held_out_Md}, **options)
    finally:
        _set_strategy(model, "auto", "auto")


def _set_strategy(model: ScoreModel, strategy: str, chunk_size: int | str) -> None:
    """How the model splits its centers from here on."""
    model.sharded = strategy == "model_parallel"
    model.strategy = "chunked" if strategy == "gradient_accumulation" else strategy
    model.chunk_size = chunk_size


def batch_loss(model: ScoreModel, batch: Mapping[str, Tensor], *, objective: str) -> Weighted:
    """The implicit score matching loss of a batch, or its negative log-likelihood."""
    loss_B = model.losses(batch["x"]) if objective == "score" else -model.log_prob(batch["x"])
    return Weighted(loss_B.sum(), torch.full_like(loss_B.detach().sum(), len(loss_B)))


@dataclass(frozen=True, slots=True, eq=False)
class EpochMetrics:
    """The metrics of an epoch: the likelihood of some held-out rows, and memory, in MB."""

    rows_Md: Tensor

    def __call__(self, model: Any, batches: Any) -> dict[str, float]:
        likelihood, device = float(model.log_prob(self.rows_Md).mean()), model.scale_d.device
        memory = {"resident_mb": devices.resident_bytes}
        if device.type == "cuda":
            memory = {
                "allocated_mb": functools.partial(torch.cuda.memory_allocated, device),
                "reserved_mb": functools.partial(torch.cuda.memory_reserved, device),
            }
        return {"log_likelihood": likelihood, **{name: read() / 1e6 for name, read in memory.items()}}


def _split(samples_Nd: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    count = max(1, round(fraction * len(samples_Nd)))
    if not 0 < fraction < 1 or count >= len(samples_Nd):
        raise ConfigError(
            f"held_out is {fraction} of {len(samples_Nd)} samples; give a fraction that leaves some to train on, or "
            "rows"
        )
    order = torch.randperm(len(samples_Nd), generator=torch.Generator().manual_seed(seed))
    return samples_Nd[order[count:]], samples_Nd[order[:count]]
