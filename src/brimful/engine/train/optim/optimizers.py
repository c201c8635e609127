"""Optimizers: AdamW and Adam as torch has them, or one of the user's, and their state as plain tensors."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ....core.base.errors import ConfigError, CorruptError, InputError

_KINDS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}

_OF_THIS_RUN = ("params", "lr", "fused", "foreach", "capturable")  # the schedule's, and how a step is computed

Maker = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def trained(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are to change."""
    found = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not found:
        frozen = sum(1 for _ in model.parameters())
        raise InputError(
            f"the model has {frozen} parameter(s) and none that requires a gradient; give one with parameters, or set "
            "requires_grad_() on those to train"
        )
    return found


def build(
    spec: str | Maker,
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
        if spec not in _KINDS:
            raise ConfigError(f"optimizer is {spec!r}; choose adamw or adam, or give a function of the parameters")
        decay = {"adamw": 0.01, "adam": 0.0}[spec] if weight_decay is None else weight_decay
        options: dict[str, Any] = {"fused": all(_fuses(each) for each in parameters)}
        if capturable:
            options["capturable"] = True
            rate: Any = torch.tensor(lr, dtype=torch.float32, device=parameters[0].device)
        else:
            rate = lr
        return _KINDS[spec](parameters, lr=rate, weight_decay=decay, **options)
    made = spec(parameters)
    if not isinstance(made, torch.optim.Optimizer):
        raise ConfigError(f"optimizer made a {type(made).__name__}; it must return a torch.optim.Optimizer")
    known = {id(each) for each in parameters}
    if any(id(each) not in known for group in made.param_groups for each in group["params"]):
        raise ConfigError("the optimizer was made of other parameters than those it was given; use its argument")
    return made


def _fuses(parameter: nn.Parameter) -> bool:
    return parameter.device.type in ("cuda", "cpu") and parameter.is_floating_point()


def skips_by_itself(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its step leaves everything as it was when `found_inf` is set, without anybody waiting for the device."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def state_bytes(parameters: list[nn.Parameter]) -> int:
    """What Adam keeps beside the parameters; for an optimizer of the user's, a guess."""
    return sum(2 * each.numel() * each.element_size() + 4 for each in parameters)


def capture(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state as tensors by name, and the rest as JSON values."""
    state = optimizer.state_dict()
    tensors, plain = {}, {}
    for index, values in state["state"].items():
        for key, value in values.items():
            (tensors if isinstance(value, Tensor) else plain)[f"{index}/{key}"] = value
    groups = [
        {key: value for key, value in group.items() if key not in _OF_THIS_RUN and _is_plain(value)}
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
