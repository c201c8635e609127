"""The likelihood and its derivatives as one Triton kernel: a program a task, the matrix in registers.

The twin of `likelihood.evaluate`, for kernels of one stationary shape and a mean of at most two coefficients. The
inverse is made by the sweep operator, which keeps a symmetric matrix symmetric: for each point k with pivot d,
A_ij -= A_ik A_kj / d, A_ik /= d, A_kk = -1 / d; at the end A is minus the inverse, and the pivots' product the
determinant.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false
import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .kernels import SHAPES, Kernel
from .likelihood import Slopes
from .tasks import Tasks

MOST_POINTS = 128
_STATIONARY = ("rbf", "matern12", "matern32", "matern52")


def serves(kernel: object, points: int, regressors: int) -> bool:
    """Whether the fused kernel can evaluate it."""
    return (
        isinstance(kernel, Kernel)
        and len(kernel.factors) == 1
        and kernel.factors[0].shape in _STATIONARY
        and points <= MOST_POINTS
        and regressors <= 2
    )


@triton.jit
def _evaluate(
    x, y, keep, H, known, theta, out_value, out_beta, out_gradient, out_info, N,
    D: tl.constexpr, STEPS: tl.constexpr, B: tl.constexpr, P: tl.constexpr, PB: tl.constexpr, Q: tl.constexpr,
    SHAPE: tl.constexpr, ARD: tl.constexpr, WANT: tl.constexpr,
):  # fmt: skip
    # Sizes that loops run over are compiled in; points are rounded up to a multiple of 8, so that there are few.
    t = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, B)
    there = tl.load(keep + t * N + i, mask=i < N, other=0) != 0
    target = tl.load(y + t * N + i, mask=there, other=0.0)
    variance = tl.exp(tl.load(theta + t * P))
    noise = tl.exp(tl.load(theta + t * P + P - 1))
    both = there[:, None] & there[None, :]
    same = i[:, None] == i[None, :]
    r2 = tl.zeros((B, B), dtype=target.dtype)
    for d in range(D):
        at = tl.load(x + (t * N + i) * D + d, mask=there, other=0.0)
        length = tl.load(theta + t * P + 1 + d * ARD)
        apart = at[:, None] - at[None, :]
        r2 += apart * apart * tl.exp(-2.0 * length)
    if SHAPE == 0:
        shape = tl.exp(-0.5 * r2)
        slope = shape
    elif SHAPE == 1:
        r = tl.sqrt(r2)
        shape = tl.exp(-r)
        slope = tl.where(r > 0.0, shape / tl.where(r > 0.0, r, 1.0), 0.0)
    elif SHAPE == 2:
        r = tl.sqrt(3.0 * r2)
        e = tl.exp(-r)
        shape = (1.0 + r) * e
        slope = 3.0 * e
    else:
        r = tl.sqrt(5.0 * r2)
        e = tl.exp(-r)
        shape = (1.0 + r + r * r / 3.0) * e
        slope = (1.0 + r) * e * (5.0 / 3.0)
    floor = tl.where(there, noise + tl.load(known + t * N + i, mask=there, other=0.0), 0.0)
    A = tl.where(both, variance * shape, 0.0) + tl.where(same, tl.where(there, floor, 1.0)[:, None], 0.0)

    logdet = tl.sum(tl.zeros((B,), dtype=target.dtype), axis=0)
    least = logdet + 1.0
    for k in range(STEPS):
        across = tl.sum(tl.where(i[:, None] == k, A, 0.0), axis=0)
        down = tl.sum(tl.where(i[None, :] == k, A, 0.0), axis=1)
        pivot = tl.sum(tl.where(i == k, across, 0.0), axis=0)
        least = tl.minimum(least, pivot)
        safe = tl.where(pivot > 0.0, pivot, 1.0)
        logdet += tl.log(safe)
        swept = A - down[:, None] * (across / safe)[None, :]
        edge = (i[:, None] == k) | (i[None, :] == k)
        A = tl.where(edge, A / safe, swept)
        A = tl.where((i[:, None] == k) & (i[None, :] == k), -1.0 / safe, A)
    inverse = tl.where(both, -A, 0.0)

    direct = tl.sum(inverse * target[None, :], axis=1)
    weights = direct
    residual = target
    first = tl.zeros((B,), dtype=target.dtype)
    second = tl.zeros((B,), dtype=target.dtype)
    n00 = logdet * 0.0
    n01 = n00
    n11 = n00
    if Q > 0:
        h0 = tl.load(H + (t * N + i) * Q, mask=there, other=0.0)
        first = tl.sum(inverse * h0[None, :], axis=1)
        a00 = tl.sum(h0 * first, axis=0)
        n00 = tl.where(a00 > 0.0, 1.0 / tl.where(a00 > 0.0, a00, 1.0), 0.0)
        b0 = tl.sum(h0 * direct, axis=0)
        if Q == 2:
            h1 = tl.load(H + (t * N + i) * Q + 1, mask=there, other=0.0)
            second = tl.sum(inverse * h1[None, :], axis=1)
            a01 = tl.sum(h0 * second, axis=0)
            a11 = tl.sum(h1 * second, axis=0)
            whole = a00 * a11 - a01 * a01
            told = whole > 1e-10 * a00 * a11
            scale = tl.where(told, 1.0 / tl.where(told, whole, 1.0), 0.0)
            n00 = tl.where(told, a11 * scale, n00)
            n01 = -a01 * scale
            n11 = a00 * scale
            b1 = tl.sum(h1 * direct, axis=0)
            c0 = n00 * b0 + n01 * b1
            c1 = n01 * b0 + n11 * b1
            tl.store(out_beta + t * Q + 1, c1)
            weights = weights - c1 * second
            residual = residual - c1 * h1
        else:
            c0 = n00 * b0
        tl.store(out_beta + t * Q, c0)
        weights = weights - c0 * first
        residual = residual - c0 * h0
    quadratic = tl.sum(residual * weights, axis=0)
    good = least > 0.0
    tl.store(out_value + 2 * t, tl.where(good, quadratic, float("inf")))
    tl.store(out_value + 2 * t + 1, tl.where(good, logdet, float("inf")))

    if WANT:
        p = tl.arange(0, PB)
        own = tl.sum(tl.where(same, inverse, 0.0), axis=1)
        count = tl.sum(there.to(target.dtype), axis=0)
        by_v = residual - floor * weights
        U = tl.where(p[:, None] == 0, by_v[None, :], 0.0)
        U = tl.where(p[:, None] == P - 1, (noise * weights)[None, :], U)
        gradient = tl.where(p == 0, 0.5 * (count - tl.sum(floor * own, axis=0) - tl.sum(by_v * weights, axis=0)), 0.0)
        of_noise = 0.5 * noise * (tl.sum(own, axis=0) - tl.sum(weights * weights, axis=0))
        gradient = tl.where(p == P - 1, of_noise, gradient)
        for s in tl.static_range(1, P - 1):
            if ARD:
                at = tl.load(x + (t * N + i) * D + s - 1, mask=there, other=0.0)
                apart = at[:, None] - at[None, :]
                part = apart * apart * tl.exp(-2.0 * tl.load(theta + t * P + s))
            else:
                part = r2
            dK = tl.where(both, variance * slope * part, 0.0)
            u = tl.sum(dK * weights[None, :], axis=1)
            U = tl.where(p[:, None] == s, u[None, :], U)
            g = 0.5 * (tl.sum(tl.sum(inverse * dK, axis=1), axis=0) - tl.sum(u * weights, axis=0))
            gradient = tl.where(p == s, g, gradient)
        tl.store(out_gradient + t * P + p, gradient, mask=p < P)
        for s in tl.static_range(P):
            u = tl.sum(tl.where(p[:, None] == s, U, 0.0), axis=0)
            through = tl.sum(inverse * u[None, :], axis=1)
            if Q > 0:
                f = tl.sum(first * u, axis=0)
                g = tl.sum(second * u, axis=0)
                through = through - first * (n00 * f + n01 * g) - second * (n01 * f + n11 * g)
            line = 0.5 * tl.sum(U * through[None, :], axis=1)
            tl.store(out_info + (t * P + s) * P + p, line, mask=p < P)


def _launch(kernel: Kernel, tasks: Tasks, theta_TP: Tensor, want: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    T, N, D = tasks.x_TND.shape
    P, Q = theta_TP.shape[1], tasks.H_TNQ.shape[2]
    like: dict[str, Any] = {"dtype": tasks.y_TN.dtype, "device": tasks.y_TN.device}
    value_T2, beta_TQ = torch.empty(T, 2, **like), torch.zeros(T, Q, **like)
    gradient_TP = torch.empty(T, P, **like) if want else value_T2
    info_TPP = torch.empty(T, P, P, **like) if want else value_T2
    B = max(16, triton.next_power_of_2(N))
    if T:
        launch: Any = _evaluate
        launch[(T,)](
            tasks.x_TND.contiguous(), tasks.y_TN.contiguous(), tasks.keep_TN.contiguous().view(torch.int8),
            tasks.H_TNQ.contiguous(), tasks.known_TN.contiguous(), theta_TP.to(**like).contiguous(), value_T2, beta_TQ,
            gradient_TP, info_TPP, N, D=D, STEPS=min(B, -(-N // 8) * 8), B=B, P=P,
            PB=max(4, triton.next_power_of_2(P)), Q=Q, SHAPE=SHAPES.index(kernel.factors[0].shape),
            ARD=int(P > 3), WANT=want, num_warps=4 if B <= 64 else 8,
        )  # fmt: skip
    return value_T2, beta_TQ, gradient_TP, info_TPP


def _nlml(value_T2: Tensor, tasks: Tasks) -> Tensor:
    count_T = tasks.keep_TN.sum(1).to(value_T2.dtype)
    return 0.5 * (value_T2.sum(1) + math.log(2 * math.pi) * count_T)


def evaluate(kernel: Kernel, tasks: Tasks, theta_TP: Tensor) -> tuple[Tensor, Tensor, Slopes]:
    """The negative log marginal likelihood, the mean's coefficients, and the derivatives."""
    value_T2, beta_TQ, gradient_TP, info_TPP = _launch(kernel, tasks, theta_TP, True)
    return _nlml(value_T2, tasks), beta_TQ, Slopes(gradient_TP, info_TPP)


def score(kernel: Kernel, tasks: Tasks, theta_TP: Tensor) -> tuple[Tensor, Tensor]:
    """The negative log marginal likelihood, and the quadratic form in it."""
    value_T2, _, _, _ = _launch(kernel, tasks, theta_TP, False)
    return _nlml(value_T2, tasks), value_T2[:, 0]
