"""Torch's fused Adam and AdamW kernels, called directly: what torch does around them takes longer than a small model.

Gradients are divided on the way, and nothing changes where the step is bad, without waiting for the device.
"""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

_GLOBAL_HOOKS = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)


@dataclass(frozen=True, slots=True, eq=False)
class _ParameterGroup:
    """One of the optimizer's parameter groups, with its state."""

    options: dict[str, Any]
    parameters: list[Tensor]
    exp_avg: list[Tensor]
    exp_avg_sq: list[Tensor]
    steps: list[Tensor]


class FusedAdam:
    """Steps of an optimizer that torch made. Its own `step` does the first one, and those that this cannot do."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer, self._groups = optimizer, list[_ParameterGroup]()
        self._supported = type(optimizer) in (torch.optim.AdamW, torch.optim.Adam)

    def step(self, divisor: Tensor | None, bad: Tensor) -> None:
        """A step by gradients that are divided first; none where `bad` is 1."""
        if not self._ready():
            self._optimizer.grad_scale = divisor  # pyright: ignore[reportAttributeAccessIssue]
            self._optimizer.found_inf = bad  # pyright: ignore[reportAttributeAccessIssue]
            self._optimizer.step()
            return
        for group in self._groups:
            options = group.options
            kernel = torch._fused_adamw_ if options["decoupled_weight_decay"] else torch._fused_adam_
            beta1, beta2 = options["betas"]
            torch._foreach_add_(group.steps, 1)
            kernel(
                group.parameters,
                [parameter.grad for parameter in group.parameters if parameter.grad is not None],
                group.exp_avg,
                group.exp_avg_sq,
                [],
                group.steps,
                lr=options["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=options["weight_decay"],
                eps=options["eps"],
                amsgrad=False,
                maximize=False,
                grad_scale=divisor,
                found_inf=bad,
            )
            torch._foreach_sub_(group.steps, [bad] * len(group.steps))

    def _ready(self) -> bool:
        """Whether the state exists, no hook waits for steps, and every parameter has a gradient."""
        optimizer = self._optimizer
        hooks = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks, *_GLOBAL_HOOKS)
        if not self._supported or any(hooks):
            return False
        if not self._groups or not self._is_current():
            self._groups = self._read_groups()
        gradients = (parameter.grad for group in self._groups for parameter in group.parameters)
        return bool(self._groups) and all(gradient is not None for gradient in gradients)

    def _is_current(self) -> bool:
        """Restoring a state makes new tensors."""
        group = self._groups[0]
        return self._optimizer.state[group.parameters[0]].get("exp_avg") is group.exp_avg[0]

    def _read_groups(self) -> list[_ParameterGroup]:
        groups, state = [], self._optimizer.state
        for options in self._optimizer.param_groups:
            parameters = options["params"]
            unsupported = any(options[name] for name in ("amsgrad", "maximize", "differentiable"))
            kinds = {(parameter.device, parameter.dtype) for parameter in parameters}
            has_state = all("exp_avg" in state.get(parameter, {}) for parameter in parameters)
            if not options["fused"] or unsupported or len(kinds) != 1 or not has_state:
                return []
            moments = (
                [state[parameter][name] for parameter in parameters] for name in ("exp_avg", "exp_avg_sq", "step")
            )
            groups.append(_ParameterGroup(options, parameters, *moments))
        return groups
