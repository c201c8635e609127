"""The step of torch's fused Adam and AdamW, called as it is: what torch does around it takes longer than a small model.

Gradients are divided on the way, and nothing changes where the step is bad, without anybody waiting for the device.
"""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

_EVERYWHERE = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One of the optimizer's groups of parameters, with their state."""

    options: dict[str, Any]
    parameters: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    steps: list[Tensor]


class FusedAdam:
    """Steps of an optimizer that torch made; its own `step` does the first one, and those this one leaves to it."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer, self._parts = optimizer, list[_Part]()
        self._known = type(optimizer) in (torch.optim.AdamW, torch.optim.Adam)

    def step(self, divisor: Tensor | None, bad: Tensor) -> None:
        """A step by gradients that are divided first; none where `bad` is 1."""
        if not self._ready():
            self._optimizer.grad_scale = divisor  # pyright: ignore[reportAttributeAccessIssue]
            self._optimizer.found_inf = bad  # pyright: ignore[reportAttributeAccessIssue]
            self._optimizer.step()
            return
        for part in self._parts:
            options = part.options
            call = torch._fused_adamw_ if options["decoupled_weight_decay"] else torch._fused_adam_
            beta1, beta2 = options["betas"]
            torch._foreach_add_(part.steps, 1)
            call(
                part.parameters,
                [each.grad for each in part.parameters if each.grad is not None],
                part.first,
                part.second,
                [],
                part.steps,
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
            torch._foreach_sub_(part.steps, [bad] * len(part.steps))

    def _ready(self) -> bool:
        """Whether the state is there, nobody wants to hear of steps, and every parameter has a gradient."""
        optimizer = self._optimizer
        hooks = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks, *_EVERYWHERE)
        if not self._known or any(hooks):
            return False
        if not self._parts or not self._is_current():
            self._parts = self._found()
        return bool(self._parts) and all(each.grad is not None for part in self._parts for each in part.parameters)

    def _is_current(self) -> bool:
        """Restoring a state makes new tensors."""
        part = self._parts[0]
        return self._optimizer.state[part.parameters[0]].get("exp_avg") is part.first[0]

    def _found(self) -> list[_Part]:
        found, optimizer = [], self._optimizer
        for options in optimizer.param_groups:
            parameters = options["params"]
            odd = ("amsgrad", "maximize", "differentiable")
            alike = {(each.device, each.dtype) for each in parameters}
            known = all("exp_avg" in optimizer.state.get(each, {}) for each in parameters)
            if not options["fused"] or any(options[name] for name in odd) or len(alike) != 1 or not known:
                return []
            states = [optimizer.state[each] for each in parameters]
            first, second, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
            found.append(_Part(options, parameters, first, second, steps))
        return found
