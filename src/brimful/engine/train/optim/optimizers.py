"""Optimizers: torch's by name, by class or as they are, or by a function; and their state as plain tensors."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ....core.base.errors import ConfigError, CorruptError, InputError

NAMED: dict[str, type[torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "rmsprop": torch.optim.RMSprop,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "adamax": torch.optim.Adamax,
}
"""The optimizers that are known by name; weight decay and all else are torch's by default."""

_FUSED = ("adamw", "adam", "sgd", "adagrad")
_CAPTURABLE = ("adamw", "adam", "rmsprop", "nadam", "radam", "adadelta", "adamax")
_NOT_SAVED = ("params", "lr", "fused", "foreach", "capturable")  # the schedule's, and how a step is computed

OptimizerFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
OptimizerLike = str | type[torch.optim.Optimizer] | torch.optim.Optimizer | OptimizerFactory
"""Whatever `build` makes an optimizer of."""


def check(spec: Any) -> None:
    """Refuses what is no optimizer, and those whose step needs more than a gradient."""
    made_by = spec.func if isinstance(spec, functools.partial) else spec
    kind = made_by if isinstance(made_by, type) else type(made_by)
    if not isinstance(spec, str | torch.optim.Optimizer) and not callable(spec):
        raise ConfigError(
            f"optimizer is {spec!r}; give a name ({', '.join(NAMED)}), a class of torch.optim, an optimizer of the "
            "model's parameters, or a function of them that makes one"
        )
    if issubclass(kind, torch.optim.Optimizer):
        _check_step(kind)


def _check_step(kind: type[torch.optim.Optimizer]) -> None:
    closure = inspect.signature(kind.step).parameters.get("closure")
    if issubclass(kind, torch.optim.LBFGS) or (closure is not None and closure.default is inspect.Parameter.empty):
        raise ConfigError(
            f"optimizer is {kind.__name__}, whose step evaluates the loss again by a closure; here each batch has one "
            "gradient, so choose one that needs no more, such as adamw"
        )
    if issubclass(kind, torch.optim.SparseAdam):
        raise ConfigError(
            "optimizer is SparseAdam, which takes sparse gradients only, and gradients are dense here; choose adamw, "
            "and embeddings with sparse=False"
        )


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that require a gradient."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        frozen = sum(1 for _ in model.parameters())
        raise InputError(
            f"the model has {frozen} parameter(s) and none that requires a gradient; give one with parameters, or set "
            "requires_grad_() on those to train"
        )
    return parameters


def build(
    spec: OptimizerLike,
    parameters: list[nn.Parameter],
    *,
    lr: float,
    weight_decay: float | None,
    capturable: bool = False,
) -> torch.optim.Optimizer:
    """The optimizer that an `optimizer=` argument asks for.

    Args:
        spec: a name, or a class of torch, which get `lr` and, where it is given, `weight_decay`; or an optimizer of the
            model's parameters, or a function of them that returns one, whose rates and decay are their own.
        capturable: whether its step goes into a CUDA graph.
    """
    if isinstance(spec, str):
        return _named(spec, parameters, lr, weight_decay, capturable)
    if isinstance(spec, torch.optim.Optimizer):
        optimizer = spec
    elif isinstance(spec, type):
        decay = {} if weight_decay is None else {"weight_decay": weight_decay}
        made_by: Any = spec
        optimizer = made_by(parameters, lr=lr, **decay)
    else:
        optimizer = spec(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"optimizer made a {type(optimizer).__name__}; it must return a torch.optim.Optimizer")
    _check_step(type(optimizer))
    given = {id(parameter) for parameter in parameters}
    if any(id(parameter) not in given for group in optimizer.param_groups for parameter in group["params"]):
        if isinstance(spec, torch.optim.Optimizer):
            raise ConfigError("the optimizer has parameters that are not the model's, or are frozen; make it of those")
        raise ConfigError("the optimizer was made of other parameters than those it was given; use its argument")
    return optimizer


def _named(
    name: str, parameters: list[nn.Parameter], lr: float, weight_decay: float | None, capturable: bool
) -> torch.optim.Optimizer:
    options: dict[str, Any] = {} if weight_decay is None else {"weight_decay": weight_decay}
    if name in _FUSED:
        floating = (value.device.type in ("cuda", "cpu") and value.is_floating_point() for value in parameters)
        options["fused"] = all(floating)
    if capturable and name in _CAPTURABLE:
        options["capturable"] = True
        lr = torch.tensor(lr, dtype=torch.float32, device=parameters[0].device)  # pyright: ignore[reportAssignmentType]
    made_by: Any = NAMED[name]
    return made_by(parameters, lr=lr, **options)


def skips_on_device(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its step changes nothing when `found_inf` is set, without waiting for the device."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def state_bytes(parameters: list[nn.Parameter], spec: OptimizerLike = "adam") -> int:
    """What an optimizer keeps beside the parameters: it is made for parameters without memory, and makes a step there;
    where it cannot, it is taken to keep what Adam does."""
    own = None if spec in ("adam", "adamw") else _state_without_memory(parameters, spec)
    adam = sum(2 * parameter.numel() * parameter.element_size() + 4 for parameter in parameters)
    return adam if own is None else own


def _state_without_memory(parameters: list[nn.Parameter], spec: Any) -> int | None:
    like = [nn.Parameter(torch.empty_like(parameter, device="meta")) for parameter in parameters]
    try:
        kind = NAMED[spec] if isinstance(spec, str) else type(spec)
        known = isinstance(spec, str | torch.optim.Optimizer)
        optimizer = kind(like, **getattr(spec, "defaults", {})) if known else spec(like)
        mine = {id(parameter) for parameter in like}
        if any(id(parameter) not in mine for group in optimizer.param_groups for parameter in group["params"]):
            return None
        for parameter in like:
            parameter.grad = torch.empty_like(parameter)
        optimizer.step()
    except Exception:  # what it raises for the real parameters is said when it is made for those
        return None
    tensors = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return sum(value.numel() * value.element_size() for value in tensors)


def capture(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state as tensors by name, and the rest as JSON values."""
    state = optimizer.state_dict()
    tensors, plain = {}, {}
    for index, values in state["state"].items():
        for key, value in values.items():
            (tensors if isinstance(value, Tensor) else plain)[f"{index}/{key}"] = value
    groups = [
        {key: value for key, value in group.items() if key not in _NOT_SAVED and _is_plain(value)}
        for group in state["param_groups"]
    ]
    return tensors, {"plain": plain, "groups": groups}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def restore(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], rest: dict[str, Any]) -> None:
    """Puts back what `capture` gave."""
    state: dict[int, dict[str, Any]] = {}
    for name, value in [*tensors.items(), *rest["plain"].items()]:
        index, _, key = name.partition("/")
        state.setdefault(int(index), {})[key] = value
    now = optimizer.state_dict()
    if len(now["param_groups"]) != len(rest["groups"]):
        raise CorruptError(f"the checkpoint has {len(rest['groups'])} parameter groups; this optimizer is another")
    groups = [{**group, **saved} for group, saved in zip(now["param_groups"], rest["groups"], strict=True)]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
