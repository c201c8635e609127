"""First-order fitting, for kernels of one's own: Adam on every task at once, each with its own clipping and stopping.

Legend: T tasks, P parameters (logarithms, the noise variance last), S starts.
"""

import math

import torch
from torch import Tensor

from .kernels import Custom, Kernel
from .likelihood import nlml, nlml_of, solve, with_noise
from .priors import Limits
from .scoring import CONVERGED, FAILED, UNFINISHED, Fitted
from .tasks import Tasks

_RATE, _WARM, _PATIENCE = 0.1, 10, 20
_GAIN = 1e-4  # nats in _PATIENCE steps that count as going on
_FACTORS = (1.0, 0.3, 3.0)  # of the first guess
_CLIP = 10.0


def fit(kernel: Custom | Kernel, tasks: Tasks, limits: Limits, start_P: Tensor, steps: int = 300) -> Fitted:
    """Fits every task from a few multiples of a first guess, and keeps the best end of each.

    The rate rises over the first steps and then falls along a cosine. A task whose gradient is large has it scaled down
    by itself; one that has gained nothing for a while stops, and leaves the batch.
    """
    best: Fitted | None = None
    score_T = torch.empty(0)
    for factor in _FACTORS:
        theta_TP = (start_P + math.log(factor)).expand(len(tasks), -1).clone()
        theta_TP[:, -1] = start_P[-1]
        found, reached_T = _descend(kernel, tasks, limits, theta_TP, steps)
        if best is None:
            best, score_T = found, reached_T
            continue
        takes_T = reached_T < score_T
        score_T = torch.where(takes_T, reached_T, score_T)
        best.iterations_T.add_(found.iterations_T)
        for name in ("theta_TP", "nlml_T", "gradient_T", "ending_T", "beta_TQ"):
            getattr(best, name)[takes_T] = getattr(found, name)[takes_T]
    assert best is not None
    return best


def _inside(theta_TP: Tensor, limits: Limits) -> Tensor:
    return torch.where(limits.fixed_P, theta_TP, theta_TP.clamp(limits.low_TP, limits.high_TP))


def _descend(
    kernel: Custom | Kernel, tasks: Tasks, limits: Limits, theta_TP: Tensor, steps: int
) -> tuple[Fitted, Tensor]:
    T = len(theta_TP)
    theta_TP = _inside(theta_TP, limits)
    first_TP, second_TP = torch.zeros_like(theta_TP), torch.zeros_like(theta_TP)
    lowest_T, lowest_TP = torch.full_like(theta_TP[:, 0], math.inf), theta_TP.clone()
    slope_T, since_T = torch.full_like(lowest_T, math.inf), torch.zeros_like(lowest_T)
    mark_T = lowest_T.clone()
    iterations_T = torch.zeros(T, dtype=torch.int64, device=theta_TP.device)
    ending_T = torch.full((T,), FAILED, device=theta_TP.device)
    active = torch.arange(T, device=theta_TP.device)
    for step in range(steps):
        if len(active) == 0:
            break
        now = theta_TP[active].requires_grad_()
        value, gradient = _value_and_gradient(kernel, tasks.pick(active), limits.pick(active), now)
        iterations_T[active] += 1
        good = torch.isfinite(value) & torch.isfinite(gradient).all(1)
        to = active[good & (value < lowest_T[active])]
        keep = good & (value < lowest_T[active])
        lowest_T[to], lowest_TP[to] = value[keep], now.detach()[keep]
        slope_T[to] = gradient[keep].abs().amax(1)
        ending_T[to] = UNFINISHED
        better = lowest_T[active] < mark_T[active] - _GAIN
        mark_T[active[better]] = lowest_T[active[better]]
        since_T[active] = torch.where(better, 0.0, since_T[active] + 1)
        gradient = torch.where(good[:, None], gradient, 0.0)
        gradient = gradient * (_CLIP / gradient.norm(dim=1, keepdim=True).clamp(min=_CLIP))
        first_TP[active] = 0.9 * first_TP[active] + 0.1 * gradient
        second_TP[active] = 0.99 * second_TP[active] + 0.01 * gradient.square()
        rate = _RATE * min(1.0, (step + 1) / _WARM) * 0.5 * (1 + math.cos(math.pi * step / steps))
        size = (first_TP[active] / (1 - 0.9 ** (step + 1))) / (
            (second_TP[active] / (1 - 0.99 ** (step + 1))).sqrt() + 1e-8
        )
        theta_TP[active] = _inside(now.detach() - rate * size, limits.pick(active))
        done = since_T[active] >= _PATIENCE
        ending_T[active[done & (ending_T[active] == UNFINISHED)]] = CONVERGED
        active = active[~done]
    ending_T[active[ending_T[active] == UNFINISHED]] = UNFINISHED
    K_TNN = kernel(tasks.x_TND, tasks.x_TND, lowest_TP[:, :-1])
    solved = solve(with_noise(K_TNN, tasks, lowest_TP), tasks)
    return Fitted(lowest_TP, nlml_of(solved, tasks), iterations_T, slope_T, ending_T, solved.beta_TQ), lowest_T


def _value_and_gradient(
    kernel: Custom | Kernel, tasks: Tasks, limits: Limits, theta_TP: Tensor
) -> tuple[Tensor, Tensor]:
    value_T = nlml(kernel, tasks, theta_TP) + limits.pull(theta_TP)
    finite_T = torch.isfinite(value_T)
    (gradient_TP,) = torch.autograd.grad(torch.where(finite_T, value_T, 0.0).sum(), theta_TP)
    gradient_TP = torch.where(limits.fixed_P, 0.0, gradient_TP)
    at_edge = ((theta_TP <= limits.low_TP) & (gradient_TP > 0)) | ((theta_TP >= limits.high_TP) & (gradient_TP < 0))
    return value_T.detach(), torch.where(at_edge, 0.0, gradient_TP).detach()
