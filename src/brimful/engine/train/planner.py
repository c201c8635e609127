"""The plan of a training run: where the data lives, how many micro-batches, whether to recompute, in what precision."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ...core.base.errors import BudgetError, ConfigError
from ...core.base.units import format_bytes
from ...core.memory import devices
from ...core.memory.cost import Cost
from ...core.memory.limit import MemoryLimit
from ...core.memory.monitor import Peak
from ...core.memory.oom import clear_frames, is_out_of_memory
from ...core.memory.plan import Candidate, Plan, Rejected, choose
from ...data import loader as make_loader
from ...data.loader import Loader
from ...data.residency import TIERS
from ..distributed.collectives import Group, in_step
from .config import Settings
from .optim import optimizers
from .step import recompute, rng
from .step.loss import weighted
from .step.microbatches import cut, samples
from .step.optimizer_step import Loss
from .step.precision import Precision, resolve

_PINNED, _PIECE, _AGAIN = 1.2, 0.05, 10.0  # slowness: of the pinned tier, of each micro-batch, of recomputing


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A plan and what it speaks of.

    Attributes:
        plan: its items are the samples of a batch (of this rank), its steps the micro-batches.
        loader, valid: the batches.
        precision: what to compute in.
        recomputed: submodules to run again in the backward pass.
    """

    plan: Plan
    loader: Loader
    valid: Loader | None
    precision: Precision
    recomputed: tuple[str, ...]

    @property
    def pieces(self) -> int:
        return self.plan.steps or 1


def prepare(
    model: nn.Module,
    loss: Loss,
    data: Any,
    valid: Any,
    settings: Settings,
    memory_limit: MemoryLimit,
    group: Group,
    fingerprint: str = "",
) -> Prepared:
    """Plans a run of a model that is on its device already, in training mode. The loss is called on a few samples, to
    see what they need; random numbers, buffers and gradients are then as they were."""
    device = memory_limit.device
    parameters = optimizers.trained(model)
    precision = resolve(settings.precision, device, {each.dtype for each in parameters})
    state = _state_bytes(settings, parameters, device)
    validating = _validating(valid, settings, device, state)
    beside = 0 if validating is None else validating.plan.predicted
    loaders, rejected = _loaders(data, settings, device, group, fingerprint)
    batch = _first_batch(loaders[-1])
    count = samples(batch)
    if device.type == "cuda":
        devices.release_cache(device)
        state += memory_limit.used()  # the weights, and whatever else lies there
    names = recompute.names(model, settings.recompute)
    forced = settings.recompute not in ("auto", False)
    together = in_step(model, group)
    if together:
        _check_even(settings, group, loaders[-1].plan.items or 0)
    room = memory_limit.bytes - state - beside
    told = None if together else room  # ranks may not differ in how often they run
    plain = None if forced else _measured(model, loss, batch, precision, device, (), told)
    needs_less = plain is None or plain.at(1) > room
    again = _measured(model, loss, batch, precision, device, names, told) if names and needs_less else None
    del batch
    if plain is None and again is None:
        raise BudgetError(
            f"{settings.name}: even one sample does not fit into the budget of {format_bytes(memory_limit.bytes)}, of "
            f"which {format_bytes(state + beside)} are taken. Use a larger budget. {_advice(model, names)}"
        )
    candidates = []
    for loader in loaders:
        for cost, chosen in ((plain, ()), (again, names)):
            if cost is not None:
                # The rows of a loader that was given are there by now, and counted in what is used.
                rows = 0 if isinstance(data, Loader) and device.type == "cuda" else loader.plan.predicted
                fixed = cost.fixed + state + beside + rows
                whole = Cost(fixed, cost.per_unit, source=cost.source)
                candidates.append(
                    _candidate(whole, loader, count, memory_limit.bytes, settings, precision, bool(chosen))
                )
    try:
        plan = choose(f"{settings.name}, micro-batches of a batch of {count}", candidates, memory_limit.bytes)
    except BudgetError as error:
        raise BudgetError(f"{error} {_advice(model, names)}") from error
    if settings.accumulate != "auto" or together:
        pieces = min(1 if settings.accumulate == "auto" else int(settings.accumulate), max(1, count))
        size = -(-count // pieces)
        plan = replace(plan, batch=size, steps=pieces, predicted=plan.cost.at(size))
    plan = replace(plan, rejected=plan.rejected + rejected)
    loader = next(each for each in loaders if each.plan.tier == plan.tier)
    return Prepared(plan, loader, validating, precision, names if "recomputing" in plan.strategy else ())


def _check_even(settings: Settings, group: Group, samples: int) -> None:
    """Ranks that hold parts of one model must call its loss equally often, so have as many samples as each other."""
    size = settings.batch_size or 0
    pieces = 1 if settings.accumulate == "auto" else int(settings.accumulate)
    if size % (group.ranks * pieces) or not (settings.loader.get("drop_last") or samples % size == 0):
        raise ConfigError(
            "the ranks hold parts of one model (sharded = True) and must have equal shares of every batch: "
            f"batch_size is {size}; give a multiple of {group.ranks * pieces} (ranks times micro-batches), and "
            'loader={"drop_last": True}'
        )


def _candidate(
    cost: Cost, loader: Loader, count: int, limit: int, settings: Settings, precision: Precision, again: bool
) -> Candidate:
    room = cost.capacity(limit)
    pieces = 1 if room >= count else count if room < 1 else -(-count // int(room))
    slowness = _PINNED if loader.plan.tier == "pinned" else 1.0
    return Candidate(
        strategy=f"{loader.plan.tier} tier" + (", recomputing" if again else ""),
        cost=cost,
        items=max(1, count),
        most=None if settings.accumulate == "auto" else -(-count // int(settings.accumulate)) or 1,
        piece="sample",
        slowness=(slowness + _PIECE * (pieces - 1)) * (_AGAIN if again else 1.0),
        devices=(str(loader.device),),
        precision=f"{precision.name} ({precision.why})",
        tier=loader.plan.tier,
    )


def _advice(model: nn.Module, names: tuple[str, ...]) -> str:
    if names or not any(model.children()):
        return "A lower precision or smaller samples help too."
    return "recompute= with the names of large submodules, or a lower precision, helps too."


def _state_bytes(settings: Settings, parameters: list[nn.Parameter], device: torch.device) -> int:
    """What comes to the weights: optimizer state, the average, and gradients; these are in what is measured on CUDA."""
    weights = sum(each.numel() * each.element_size() for each in parameters)
    total = optimizers.state_bytes(parameters) + (weights if settings.ema is not None else 0)
    return total + (weights if device.type == "cpu" else 0)


_SHARED = ("ragged", "pad", "num_workers", "transform")  # what holds for validation data as well


def _validating(valid: Any, settings: Settings, device: torch.device, state: int) -> Loader | None:
    if valid is None or isinstance(valid, Loader):
        return valid
    options = {name: value for name, value in settings.loader.items() if name in _SHARED}
    size = settings.batch_size or 1024
    return make_loader(
        valid, batch_size=size, shuffle=False, device=device, budget=settings.budget, reserve=state, **options
    )


def _loaders(
    data: Any, settings: Settings, device: torch.device, group: Group, fingerprint: str
) -> tuple[list[Loader], tuple[Rejected, ...]]:
    """The loader of each tier that fits at all, the fastest first."""
    if isinstance(data, Loader):
        return [data], ()
    if settings.batch_size is None:
        raise ConfigError("batch_size is missing; give the samples of a batch, over all ranks together")
    found, rejected, failed = [], [], None
    for tier in TIERS if settings.tier == "auto" else (settings.tier,):
        try:
            found.append(
                make_loader(
                    data,
                    batch_size=settings.batch_size,
                    budget=settings.budget,
                    seed=settings.seed,
                    device=device,
                    tier=tier,
                    rank=group.rank,
                    ranks=group.ranks,
                    fingerprint=fingerprint,
                    **settings.loader,
                )
            )
        except BudgetError as error:
            failed = error
            rejected.append(Rejected(f"{tier} tier", 0, str(error).split(". ")[0]))
    if failed is not None and not found:
        raise failed
    return found, tuple(rejected)


def _first_batch(loader: Loader) -> Any:
    batches = loader.epoch(0)
    try:
        return next(batches)
    finally:
        batches.close()  # pyright: ignore[reportAttributeAccessIssue]


def _measured(
    model: nn.Module,
    loss: Loss,
    batch: Any,
    precision: Precision,
    device: torch.device,
    names: tuple[str, ...],
    room: float | None,
) -> Cost | None:
    """Bytes of forward and backward by the number of samples, from two small runs; None where not even one sample
    fits. The allocator rounds up what is small, so on CUDA a third run has as many samples as seem to fit; with no room
    given, there are two runs whatever happens."""
    count = samples(batch)
    if count == 0:  # a rank without samples
        return Cost(0, 0, source="guess")
    kept = [(each, each.clone()) for each in model.buffers()]

    def run(size: int) -> tuple[float, float] | None:
        rng.sow(device, rng.seed_of(0, rng.START, 0, 0))
        try:
            return float(size), float(_peak(model, loss, cut(batch, count, 0, size), precision, device))
        except Exception as error:
            if not is_out_of_memory(error) or room is None:
                raise
            clear_frames(error)
            return None
        finally:
            model.zero_grad(set_to_none=True)
            with torch.no_grad():
                for each, before in kept:
                    each.copy_(before)

    with recompute.recomputing(model, names):
        size = min(count, max(2, count // 16))
        while (first := run(size)) is None:
            if size == 1:
                return None
            size //= 2
        second = run(min(count, 2 * size)) if size < count else None
        if second is None:
            return Cost(0, first[1] / first[0], source="probe")
        cost = Cost.fit([first, second])
        most, third = int(min(cost.capacity(max(0.0, room or 0.0)), count)), None
        while third is None and device.type == "cuda" and room is not None and most > second[0]:
            third, most = run(most), most // 2
        return cost if third is None else Cost.fit([second, third])


def _peak(model: nn.Module, loss: Loss, part: Any, precision: Precision, device: torch.device) -> int:
    """On CUDA the peak itself, less what was there; on a CPU, whose peak says little of so small a run, the bytes that
    the backward pass waits for."""
    size = samples(part)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        devices.release_cache(device)
        before = torch.cuda.memory_reserved(device)
        with Peak(device) as peak, precision.context():
            weighted(loss(model, part), size, device).sum.backward()
        torch.cuda.synchronize(device)
        return max(0, peak.bytes - before)
    own = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = min(storage.nbytes(), tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), precision.context():
        found = weighted(loss(model, part), size, device)
    del found
    return sum(kept.values())
