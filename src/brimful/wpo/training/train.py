"""`wpo.train`: implicit score matching by `brimful.train`, the centers gone over as the memory table says.

Legend: N samples, M held out, d dimensions.

The loss is in the model's units: it does not depend on the data's scale, and neither do learning rate and clipping.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...core.base.errors import ConfigError, InputError
from ...core.memory import devices
from ...engine.distributed.collectives import torchrun_rank
from ...engine.train import train as train_model
from ...engine.train.step.loss import Weighted
from .. import memory_table
from ..evaluation.scores import Shown, score
from ..memory_table import Table
from ..model.score_model import STRATEGIES, ScoreModel, checked
from ..options import MONITORS
from ..trained import Trained
from .calibrate import Settled, settle

WORK = "wpo train"
_LOOKED_AT = 512  # held-out rows whose likelihood is measured after an epoch
_SPLIT = 0.1


def train(
    model: ScoreModel,
    samples: Any,
    *,
    steps: int = 3000,
    batch_size: int = 256,
    strategy: str = "auto",
    chunk: int | str = "auto",
    accumulate: int | None = None,
    budget: Any = None,
    device: Any = "auto",
    ranks: int | None = None,
    held_out: Any = _SPLIT,
    objective: str = "score",
    monitor: str = "log_likelihood",
    settled: bool = True,
    grown: bool = False,
    patience: int | None = None,
    optimizer: Any = "adamw",
    lr: float = 3e-3,
    weight_decay: float = 1e-4,
    schedule: Any = "cosine",
    warmup: float = 0.05,
    clip: float | None = 100.0,
    average: float = 0.1,
    ema: float | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    seed: int = 0,
    progress: Any = None,
    explained: Callable[[Table], None] | None = None,
    image: tuple[int, int, int] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Trained:
    """Trains a score model.

    Args:
        model: with its centers, which must not be among the samples.
        samples: (N, d), to train on.
        steps: of the optimizer.
        batch_size: samples of a batch, over all ranks.
        strategy: how the centers are gone over: "auto" takes the fastest that fits the budget, out of "single" (or
            "single_gpu"), "chunked", "gradient_accumulation" and, on several ranks, "model_parallel". All give the same
            gradient.
        chunk: centers at a time; "auto" as many as fit.
        accumulate: micro-batches of a batch; as few as fit unless said.
        budget, device, ranks, patience, optimizer, lr, weight_decay, schedule, warmup, clip: see `brimful.train`.
        out, resume, seed, progress: likewise.
        held_out: (M, d) to measure the loss on, or the share of the samples to hold out for that.
        objective: "score" for implicit score matching; "likelihood" to maximise the likelihood of the samples instead.
        monitor: what the epoch is chosen by: "log_likelihood" of held-out samples, or "valid_loss". The loss hardly
            sees how much of the data lies in each of several parts that are far from each other.
        settled: after training, move the centers together and scale the width of all components to what makes held-out
            samples likeliest (`settle.py`).
        grown: with that, make the training samples centers too. It costs as much again for every multiple of the
            centers, in `log_prob` alone, and the model must not be trained on these samples any further.
        average: weights are averaged over about this share of all steps; 0 for none.
        ema: the decay of that average itself, in place of a share.
        explained: gets the memory table before training begins; printed where progress is shown unless said.
        image: (colours, height, width) where a row is an image, for the report.
        settings: what to store of where the data came from.
        more: further options of `brimful.train`, such as checkpoint_every.

    Example:
        >>> import torch
        >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> found = train(ScoreModel(x[:50]), x[50:], steps=5, batch_size=50, device="cpu", progress=False)
        >>> found.table.row.strategy, len(found.curve)
        ('single_gpu', 5)
    """
    started = time.monotonic()
    prepared = prepare(
        model,
        samples,
        batch_size=batch_size,
        strategy=strategy,
        chunk=chunk,
        accumulate=accumulate,
        budget=budget,
        device=device,
        ranks=ranks,
        held_out=held_out,
        seed=seed,
        averaged=average > 0 or ema is not None,
    )
    if monitor not in MONITORS:
        raise ConfigError(f"monitor is {monitor!r}; choose one of {', '.join(MONITORS)}")
    if objective not in OBJECTIVES:
        raise ConfigError(f"objective is {objective!r}; choose one of {', '.join(OBJECTIVES)}")
    if grown and not settled:
        raise ConfigError("grown needs settled: the width that was learned is of fewer centers; leave settled as it is")
    table, row = prepared.table, prepared.table.row
    if explained is None and progress in (None, True):
        explained = _say
    if explained is not None and (torchrun_rank() or (0,))[0] == 0:
        explained(table)
    known_Nd = torch.cat((prepared.samples_Nd, model.centers.cpu()))
    use(model, row.strategy, row.chunk)
    try:
        result = train_model(
            model,
            OBJECTIVES[objective],
            {"x": prepared.samples_Nd},
            steps=steps,
            batch_size=batch_size,
            budget=budget,
            device=device,
            ranks=ranks,
            valid={"x": prepared.held_out_Md},
            metrics=Measured(prepared.held_out_Md[:_LOOKED_AT]),
            monitor=monitor,
            mode=MONITORS[monitor],
            patience=patience,
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
            schedule=schedule,
            warmup=warmup,
            clip=clip,
            ema=decay(average, steps) if ema is None else ema,
            precision="float64" if model.dtype == torch.float64 else "float32",
            accumulate=row.accumulate,
            loader={"drop_last": len(prepared.samples_Nd) >= batch_size},
            out=out,
            resume=resume,
            seed=seed,
            progress=progress,
            name=WORK,
            **more,
        )
    finally:
        use(model, "auto", "auto")
    model.budget = budget
    chosen = Settled()
    if settled:
        chosen = settle(model, prepared.held_out_Md, prepared.samples_Nd if grown else None)
    found = score(model, known_Nd, prepared.held_out_Md)
    trained = Trained(
        model=model,
        scores=found,
        shown=Shown.of(model, known_Nd, prepared.held_out_Md),
        history=result.history,
        curve=result.curve,
        best=int((result.best or result.history[-1])["epoch"]) - 1,
        table=table,
        predicted=row.total if table.plan.devices[0] == "cpu" else result.predicted,  # a CPU's probe sees no fold
        observed=result.observed,
        settings={
            "steps": steps,
            "batch_size": batch_size,
            "lr": lr,
            "seed": seed,
            "objective": objective,
            "settled_at": asdict(chosen),
            **(settings or {}),
        },
        image=image,
        seconds=time.monotonic() - started,
    )
    if out is not None and result.out is not None:
        trained.save(out)
    return trained


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What is trained on, and how the centers will be gone over."""

    samples_Nd: Tensor
    held_out_Md: Tensor
    table: Table


def prepare(
    model: ScoreModel,
    samples: Any,
    *,
    batch_size: int,
    strategy: str,
    chunk: int | str,
    accumulate: int | None,
    budget: Any,
    device: Any,
    ranks: int | None,
    held_out: Any,
    seed: int,
    averaged: bool,
) -> Prepared:
    """Checks all of it, cuts held-out samples off where there are none, and makes the memory table."""
    if not isinstance(model, ScoreModel):
        raise InputError(f"model is a {type(model).__name__}; give a wpo.ScoreModel")
    if strategy not in STRATEGIES:
        raise ConfigError(f"strategy is {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    samples_Nd = _rows(model, samples, "samples")
    if isinstance(held_out, float):
        samples_Nd, held_out_Md = _split(samples_Nd, held_out, seed)
    else:
        held_out_Md = _rows(model, held_out, "held_out")
    places = devices.resolve_all(device)
    started = torchrun_rank()
    count = ranks or (started[1] if started is not None else len(places))
    if strategy == "model_parallel":
        whole = count * (accumulate or 1)
        if batch_size % whole:
            raise ConfigError(
                f"batch_size is {batch_size}, and {count} ranks that share the centers"
                + (f" take it in {accumulate} micro-batches" if accumulate else "")
                + f": give a multiple of {whole}, such as {-(-batch_size // whole) * whole}"
            )
        if len(samples_Nd) < batch_size:
            raise ConfigError(f"batch_size is {batch_size} and there are {len(samples_Nd)} samples; give a smaller one")
    even = batch_size % (count * (accumulate or 1)) == 0 and len(samples_Nd) >= batch_size  # else centers stay together
    sizes = memory_table.Sizes.of(model, min(batch_size, len(samples_Nd)), count, averaged, places[0])
    beside = (samples_Nd.nbytes + held_out_Md.nbytes) if places[0].type == "cuda" else 0
    table = memory_table.table(
        replace(sizes, data=beside),
        memory_table.limit(budget, places[0]),
        strategy="chunked" if strategy == "auto" and not even else strategy,
        chunk=chunk,
        accumulate=accumulate,
        device=str(places[0]),
    )
    return Prepared(samples_Nd, held_out_Md, table)


def use(model: ScoreModel, strategy: str, chunk: int | str) -> None:
    """How a model goes over its centers from here on."""
    model.sharded = strategy == "model_parallel"
    model.strategy = "chunked" if strategy == "gradient_accumulation" else strategy
    model.chunk = chunk


def batch_loss(model: ScoreModel, batch: Mapping[str, Tensor]) -> Weighted:
    """The loss of a batch."""
    found_B = model.losses(batch["x"])
    return Weighted(found_B.sum(), torch.full_like(found_B.detach().sum(), len(found_B)))


def batch_surprise(model: ScoreModel, batch: Mapping[str, Tensor]) -> Weighted:
    """The negative log-likelihood of a batch."""
    found_B = -model.log_prob(batch["x"])
    return Weighted(found_B.sum(), torch.full_like(found_B.detach().sum(), len(found_B)))


OBJECTIVES: dict[str, Callable[[Any, Any], Weighted]] = {"score": batch_loss, "likelihood": batch_surprise}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What is measured after an epoch: the likelihood of some held-out rows, and memory, in MB."""

    rows_Md: Tensor

    def __call__(self, model: Any, batches: Any) -> dict[str, float]:
        found = {"log_likelihood": float(model.log_prob(self.rows_Md).mean())}
        device = model.unit_d.device
        if device.type == "cuda":
            found["allocated_mb"] = torch.cuda.memory_allocated(device) / 1e6
            found["reserved_mb"] = torch.cuda.memory_reserved(device) / 1e6
        else:
            found["resident_mb"] = devices.resident_bytes() / 1e6
        return found


def decay(share: float, steps: int) -> float | None:
    """The decay of a moving average that looks back over a share of all steps; none where that is no step."""
    if not (math.isfinite(share) and 0 <= share <= 1):
        raise ConfigError(f"average is {share!r}; give a share of all steps, from 0 to 1")
    back = share * steps
    return 1 - 1 / back if back > 1 else None


def _rows(model: ScoreModel, rows: Any, what: str) -> Tensor:
    found = checked(rows, what).to("cpu", model.dtype)
    if found.shape[1] != model.d:
        raise InputError(f"{what} have {found.shape[1]} columns and the centers {model.d}; give as many")
    return found


def _split(samples_Nd: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    count = max(1, round(share * len(samples_Nd)))
    if not 0 < share < 1 or count >= len(samples_Nd):
        raise ConfigError(
            f"held_out is {share} of {len(samples_Nd)} samples; give a share that leaves some to train on, or rows"
        )
    order = torch.randperm(len(samples_Nd), generator=torch.Generator().manual_seed(seed))
    return samples_Nd[order[count:]], samples_Nd[order[:count]]


def _say(table: Table) -> None:
    print(table, file=sys.stderr, flush=True)
