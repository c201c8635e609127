"""Optimizers: AdamW and Adam as torch has them, or one of the user's, and their state as plain tensors."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ....core.base.errors import ConfigError, CorruptError, InputError

WEIGHT_DECAY = {"adamw": 0.01, "adam": 0.0}
"""The optimizers that are known by name, and the weight decay that each has by default."""

_CLASSES = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}
_NOT_SAVED = ("params", "lr", "fused", "foreach", "capturable")  # the schedule's, and how a step is computed

OptimizerFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
OptimizerLike = str | OptimizerFactory
"""Whatever `build` makes an optimizer of."""


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
    spec: str | OptimizerFactory,
    parameters: list[nn.Parameter],
    *,
    lr: float,
    weight_decay: float | None,
    capturable: bool = False,
) -> torch.optim.Optimizer:
    """The optimizer that an `optimizer=` argument asks for.

    Args:
        spec: "adamw", "adam", or a function of the parameters that returns an optimizer; `lr` and `weight_decay` are
            then its own.
        capturable: whether its step goes into a CUDA graph.
    """
    if isinstance(spec, str):
        fused = all(value.device.type in ("cuda", "cpu") and value.is_floating_point() for value in parameters)
        return _CLASSES[spec](
            parameters,
            lr=torch.tensor(lr, dtype=torch.float32, device=parameters[0].device) if capturable else lr,
            weight_decay=WEIGHT_DECAY[spec] if weight_decay is None else weight_decay,
            fused=fused,
            capturable=capturable,
        )
    optimizer = spec(parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"optimizer made a {type(optimizer).__name__}; it must return a torch.optim.Optimizer")
    given = {id(parameter) for parameter in parameters}
    if any(id(parameter) not in given for group in optimizer.param_groups for parameter in group["params"]):
        raise ConfigError("the optimizer was made of other parameters than those it was given; use its argument")
    return optimizer


def skips_on_device(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its step changes nothing when `found_inf` is set, without waiting for the device."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def state_bytes(parameters: list[nn.Parameter], spec: str | OptimizerFactory = "adam") -> int:
    """What an optimizer keeps beside the parameters: one of the user's is made for parameters without memory, and
    makes a step there; where it cannot, it is taken to keep what Adam does."""
    own = None if isinstance(spec, str) else _state_without_memory(parameters, spec)
    adam = sum(2 * parameter.numel() * parameter.element_size() + 4 for parameter in parameters)
    return adam if own is None else own


def _state_without_memory(parameters: list[nn.Parameter], spec: OptimizerFactory) -> int | None:
    like = [nn.Parameter(torch.empty_like(parameter, device="meta")) for parameter in parameters]
    try:
        optimizer = spec(like)
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
