"""The plan of a training run: where the data lives, how many micro-batches, whether to recompute, in what precision."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ...core.base.errors import BudgetError, ConfigError
from ...core.base.formatting import format_bytes
from ...core.base.rng import PROBE, derive_seed, seed_generators
from ...core.memory import devices
from ...core.memory.cost import Cost
from ...core.memory.limit import MemoryLimit
from ...core.memory.oom import OutOfMemory, is_out_of_memory
from ...core.memory.plan import Candidate, Parts, Plan, Rejected, choose
from ...core.memory.probe import peak_bytes, probe, resident_peak, start_up_bytes
from ...data import loader as make_loader
from ...data.loading import Loader
from ...data.residency import TIERS, TierOptions
from ..distributed.collectives import Group, calls_in_lockstep
from .config import TrainConfig
from .optim import optimizers
from .step.buffers import BufferBackup
from .step.loss import LossOutput
from .step.microbatches import count_samples, slice_batch
from .step.precision import Precision, resolve
from .step.recompute import recomputable, recomputing
from .task import TrainTask

# Expected time, relative to the device tier in one micro-batch: of each tier, per micro-batch, of recomputing.
_TIER: dict[str | None, float] = dict(zip(TIERS, (1.0, 1.2, 1.5), strict=True))
_PER_MICRO_BATCH, _RECOMPUTING = 0.05, 10.0

_KEPT = 0.4  # of the gradients, once they are freed: what the C library keeps of them on a CPU
_LARGE = 4_000_000  # bytes of gradients, or of a step, from which that matters
_RESIDENT = "probe of the resident set"
_STEPS = 5  # in which what the C library keeps of freed memory shows
_ROOM = 1.15  # times the prediction: a budget that has room for it, since it differs from run to run


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTraining:
    """A plan and what it refers to.

    Attributes:
        plan: its items are the samples of a batch (of this rank), its steps the micro-batches.
        loader, valid: the batches.
        precision: what to compute in.
        recomputed: submodules to run again in the backward pass.
        trims: hand freed gradients back to the system after every step, which makes it slower: on a CPU, where they are
            much of the memory and the budget has no room for what the C library keeps of them.
    """

    plan: Plan
    loader: Loader
    valid: Loader | None
    precision: Precision
    recomputed: tuple[str, ...]
    trims: bool = False

    @property
    def micro_batches(self) -> int:
        return self.plan.steps or 1


def prepare(
    task: TrainTask, memory_limit: MemoryLimit, group: Group, given: Cost | None = None, in_memory: bool = True
) -> PreparedTraining:
    """Plans a run of a model that is on its device already, in training mode. Unless a cost is given, the loss is
    called on a few samples, to measure what they need; random numbers, buffers and gradients are then as they were.

    Args:
        in_memory: whether the best weights are kept in host memory, for want of a directory.
    """
    model, config, device = task.model, task.config, memory_limit.device
    parameters = optimizers.trainable(model)
    precision = resolve(config.precision, device, {parameter.dtype for parameter in parameters})
    weights = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    state = {
        "optimizer": optimizers.state_bytes(parameters, config.optimizer),
        "moving average": weights if config.averages else 0,
    }
    if device.type == "cpu" and in_memory and config.best:
        state["best weights"] = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    valid = _validation_loader(task, device, sum(state.values()))
    state["validation data"] = 0 if valid is None else valid.plan.predicted
    loaders, rejected = _loaders(task, device, group)
    batches = [loaders[-1].batch(0, number) for number in loaders[-1].heaviest()]
    if device.type == "cuda":
        devices.release_cache(device)
        state["parameters"] = memory_limit.used()  # and whatever else is there
    names = recomputable(model, config.recompute)
    together = calls_in_lockstep(model, group)
    if together:
        _check_equal_shares(config, group, loaders[-1].plan.items or 0)
    if device.type == "cpu" and given is None:
        memory_limit.baseline += _start_up(task, batches[0], precision, device)
    room = memory_limit.bytes - sum(state.values())
    forced = config.recompute not in ("auto", False, None)
    batch, plain = batches[-1], given
    if given is None and not forced:
        costs = [_measure(task, each, precision, device, (), room, together) for each in batches]
        batch, plain = max(zip(batches, costs, strict=True), key=_bytes_of_batch)
    count = count_samples(batch)
    needs_less = given is None and (plain is None or plain.at(1) > room)
    recomputed = _measure(task, batch, precision, device, names, room, together) if names and needs_less else None
    del batch, batches
    if plain is None and recomputed is None:
        raise BudgetError(
            f"{config.name}: even one sample does not fit into the budget of {format_bytes(memory_limit.bytes)}, of "
            f"which {format_bytes(sum(state.values()))} are taken. Use a larger budget. {_advice(model, names)}"
        )
    candidates = []
    for loader in loaders:
        # The rows of a loader that was given are there by now, and counted in what is used.
        rows = 0 if isinstance(task.data, Loader) and device.type == "cuda" else loader.plan.predicted
        parts = tuple((name, size) for name, size in {**state, "data": rows, "gradients": weights}.items() if size)
        fixed = sum(state.values()) + rows
        for cost, again in ((plain, False), (recomputed, True)):
            if cost is not None:
                whole = Cost(cost.fixed + fixed, cost.per_unit, source=cost.source)
                candidates.append(_candidate(whole, parts, loader, count, memory_limit.bytes, config, precision, again))
    try:
        plan = choose(f"{config.name}, micro-batches of a batch of {count}", candidates, memory_limit.bytes)
    except BudgetError as error:
        raise BudgetError(f"{error} {_advice(model, names)}") from error
    if config.accumulation_steps is not None or together:
        micro_batches = min(config.accumulation_steps or 1, max(1, count))
        size = -(-count // micro_batches)
        predicted, (rest, working) = plan.cost.at(size), plan.parts[-1]
        parts = (*plan.parts[:-1], (rest, max(0, working + predicted - plan.predicted)))
        plan = replace(plan, batch=size, steps=micro_batches, predicted=predicted, parts=parts)
    plan = replace(plan, rejected=plan.rejected + rejected)
    loader = next(loader for loader in loaders if loader.plan.tier == plan.tier)
    kept = _kept_gradients(plan, weights) if device.type == "cpu" else 0
    resident = plan.cost.source == _RESIDENT  # which has it already
    trims = _ROOM * (plan.predicted + (0 if resident else kept)) > memory_limit.bytes
    if kept and not trims and not resident:
        parts = (*plan.parts[:-1], ("freed gradients", kept), plan.parts[-1])
        plan = replace(plan, predicted=plan.predicted + kept, parts=parts)
    return PreparedTraining(plan, loader, valid, precision, names if plan.recompute else (), bool(kept) and trims)


def _kept_gradients(plan: Plan, gradients: int) -> int:
    """What the C library keeps of the last step's gradients, into whose gaps the next ones do not fit."""
    working = plan.parts[-1][1] if plan.parts else 0
    return int(_KEPT * gradients) if gradients >= max(_LARGE, working) else 0


def _check_equal_shares(config: TrainConfig, group: Group, samples: int) -> None:
    """Ranks that hold parts of one model must call its loss equally often, so have as many samples as each other."""
    if config.loader.get("balance"):
        raise ConfigError(
            "the ranks hold parts of one model (sharded = True) and must have equal shares of every batch, and "
            "balanced batches have any number of samples; leave balance= out of loader="
        )
    size, multiple = config.batch_size or 0, group.ranks * (config.accumulation_steps or 1)
    if size % multiple or not (config.loader.get("drop_last") or samples % size == 0):
        raise ConfigError(
            "the ranks hold parts of one model (sharded = True) and must have equal shares of every batch: "
            f"batch_size is {size}; give a multiple of {multiple} (ranks times micro-batches), and "
            'loader={"drop_last": True}'
        )


def _candidate(
    cost: Cost,
    parts: Parts,
    loader: Loader,
    count: int,
    limit: int,
    config: TrainConfig,
    precision: Precision,
    recompute: bool,
) -> Candidate:
    room = cost.capacity(limit)
    micro_batches = 1 if room >= count else count if room < 1 else -(-count // int(room))
    slowness = _TIER[loader.plan.tier]
    return Candidate(
        strategy=f"{loader.plan.tier} tier" + (", recomputing" if recompute else ""),
        cost=cost,
        items=max(1, count),
        most=None if config.accumulation_steps is None else -(-count // config.accumulation_steps) or 1,
        unit="sample",
        slowness=(slowness + _PER_MICRO_BATCH * (micro_batches - 1)) * (_RECOMPUTING if recompute else 1.0),
        devices=(str(loader.device),),
        precision=f"{precision.name} ({precision.reason})",
        tier=loader.plan.tier,
        recompute=recompute,
        parts=parts,
    )


def _advice(model: nn.Module, names: tuple[str, ...]) -> str:
    if names or not any(model.children()):
        return "A lower precision or smaller samples help too."
    return "recompute= with the names of large submodules, or a lower precision, helps too."


_SHARED = ("ragged", "pad", "num_workers", "transform")  # what holds for validation data as well


def _validation_loader(task: TrainTask, device: torch.device, reserve: int) -> Loader | None:
    config = task.config
    if task.valid is None or isinstance(task.valid, Loader):
        return task.valid
    options: dict[str, Any] = {name: value for name, value in config.loader.items() if name in _SHARED}
    options |= {"device": device, "budget": config.budget, "reserve": reserve, "preload_to_gpu": config.preload_to_gpu}
    return make_loader(task.valid, batch_size=config.batch_size or 1024, shuffle=False, **options)


def _loaders(task: TrainTask, device: torch.device, group: Group) -> tuple[list[Loader], tuple[Rejected, ...]]:
    """The loader of each tier that fits at all, the fastest first."""
    if isinstance(task.data, Loader):
        return [task.data], ()
    config = task.config
    assert config.batch_size is not None
    loaders, rejected, failed = [], [], None
    options = TierOptions(config.tier, config.preload_to_gpu)
    for tier in TIERS:
        if options.unwanted(tier) is not None:
            continue
        if tier == "window" and config.tier == "auto" and loaders and "window" not in config.loader:
            continue  # all samples are shuffled wherever they fit
        try:
            loaders.append(
                make_loader(
                    task.data,
                    batch_size=config.batch_size,
                    budget=config.budget,
                    seed=config.seed,
                    device=device,
                    tier=tier,
                    rank=group.rank,
                    ranks=group.ranks,
                    fingerprint=task.fingerprint,
                    **config.loader,
                )
            )
        except BudgetError as error:
            failed = error
            rejected.append(Rejected(f"{tier} tier", 0, str(error).split(". ")[0]))
    if failed is not None and not loaders:
        raise failed
    return loaders, tuple(rejected)


def _bytes_of_batch(measured: tuple[Any, Cost | None]) -> float:
    batch, cost = measured
    return math.inf if cost is None else cost.at(count_samples(batch))


def _first_samples(count: int) -> int:
    """The samples of the smallest run that is measured."""
    return min(count, max(2, count // 16))


def _backward(task: TrainTask, part: Any, precision: Precision, device: torch.device) -> Callable[[], None]:
    """Forward and backward of some samples, with the same random numbers each time it is made."""
    seed_generators(device, derive_seed(0, PROBE, 0, 0))

    def backward() -> None:
        with precision.context():
            output = LossOutput.of(task.loss(task.model, part), count_samples(part)).weighted()
        if output.sum.requires_grad:
            output.sum.backward()

    return backward


def _start_up(task: TrainTask, batch: Any, precision: Precision, device: torch.device) -> int:
    """Bytes of libraries and compiled code that the first call of a loss loads, once and whatever is trained."""
    count = count_samples(batch)
    if count == 0:
        return 0
    buffers = BufferBackup(task.model)
    buffers.save()
    backward = _backward(task, slice_batch(batch, count, 0, _first_samples(count)), precision, device)

    def step() -> None:
        backward()
        task.model.zero_grad(set_to_none=True)

    try:
        return start_up_bytes(step)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return 0  # what is measured next meets it again
    finally:
        task.model.zero_grad(set_to_none=True)
        buffers.restore()


def _measure(
    task: TrainTask,
    batch: Any,
    precision: Precision,
    device: torch.device,
    names: tuple[str, ...],
    room: float,
    together: bool,
) -> Cost | None:
    """Bytes of forward and backward by the number of samples, from two small runs; None where not even one sample
    fits. The allocator rounds up what is small, so on CUDA a third run has as many samples as seem to fit; so it has on
    a CPU where it takes much, by the resident set, since the C library keeps some of what was freed. Ranks that hold
    parts of one model run exactly twice, whatever happens."""
    model, count = task.model, count_samples(batch)
    if count == 0:  # a rank without samples
        return Cost(0, 0, source="guess")
    first = _first_samples(count)
    buffers = BufferBackup(model)
    buffers.save()

    def peak(size: int) -> float:
        backward = _backward(task, slice_batch(batch, count, 0, size), precision, device)

        def steps() -> None:
            for _ in range(_STEPS):
                backward()
                model.zero_grad(set_to_none=True)

        try:
            if device.type == "cpu" and size > 2 * first:
                whole.append(size)
                return resident_peak(steps)
            return peak_bytes(backward, device, reserved=True)
        except Exception as error:
            if together and is_out_of_memory(error):
                raise BudgetError(f"{size} samples do not fit: {error}. Use a larger budget") from error
            raise
        finally:
            model.zero_grad(set_to_none=True)
            buffers.restore()

    most, whole = -(-count // (task.config.accumulation_steps or 1)), list[int]()

    def following(cost: Cost, size: int) -> int | None:
        if size <= first:
            return min(count, 2 * size)
        if together or size > 2 * first:
            return None
        third = int(min(cost.capacity(max(0.0, room)), most))
        return third if device.type == "cuda" or cost.at(third) >= _LARGE else None

    with recomputing(model, names):
        try:
            cost = probe(peak, first, following, device)
            return replace(cost, source=_RESIDENT) if whole else cost
        except OutOfMemory:
            return None
        finally:
            if device.type == "cpu" and not whole:  # the gradients are gone, but the C library keeps their memory
                devices.trim_heap()
