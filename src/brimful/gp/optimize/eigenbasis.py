"""Initial values for tasks that share their inputs: one eigendecomposition a lengthscale serves them all.

Legend: T tasks, N points, Q regressors of the mean, L lengthscales, R noise ratios, S starts, P parameters, C points of
a curve.

With E = V diag(e) V^T for a lengthscale, z = V^T y and the ratio r of noise to signal variance, the covariance is
diagonal: twice the negative log likelihood is N log(q / N) + sum(log(e + r)), q = sum(z^2 / (e + r)) less what the mean
takes, at the best signal variance q / N. For all tasks and all ratios that is a few products of matrices. Curves
through the neighbors of the lowest points, first along the ratio, then along the lengthscale, put the start so close
to where scoring.py then goes that most tasks need no step from there. For that the lengthscales lie closest where the
likelihood changes fastest, around a seventh of the extent of the inputs, and a prior moves the best variance.
"""

import functools
import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch, regressors
from . import polynomial

_LENGTHS, _RATIOS = (0.011, 12.0, 49), (1e-8, 10.0, 32)  # first, last, how many
_MIDDLE, _WIDTH = math.log(0.15), 1.0  # where the lengthscales lie closest, and over how much of their logarithm
REACH = 3  # points on each side of the lowest that its curve goes through
_AT_ONCE = 4096  # tasks: enough for the products of matrices, and few enough for the caches
_FEWEST = 16  # tasks: of fewer columns a product of matrices may add in another order
WORTH = 3.0  # nats: a local minimum this much above the best starts no descent
MOST_POINTS, _ALWAYS = 1000, 256  # points up to which it may pay, and for however few tasks
_TASKS, _TASKS_PER_POINT = 32, 4  # of larger tasks, from which on it does: on a CPU; on a GPU, which has fast matrices


def serves(kernel: object) -> bool:
    """Whether a kernel has one nonlinear parameter only, so that a grid of lengthscales is all there is to it."""
    return isinstance(kernel, Kernel) and len(kernel.factors) == 1 and kernel.kinds == ("variance", "lengthscale")


def pays(points: int, tasks: int, device: torch.device) -> bool:
    """Whether the bases of tasks of so many points take less than they save."""
    enough = _TASKS if device.type == "cpu" else _TASKS_PER_POINT * points
    return points <= _ALWAYS or (points <= MOST_POINTS and tasks >= enough)


def basis_bytes(points: int) -> int:
    """What the bases take in memory."""
    return 4 * _LENGTHS[2] * points * points


Grids = tuple[Float[Tensor, " L"], Float[Tensor, " L"], Float[Tensor, " R"]]
"""The places of the lengthscales, evenly spaced; their logarithms; those of the noise ratios, evenly spaced."""


def _grids() -> Grids:
    (shortest, longest, L), (least, most, R) = _LENGTHS, _RATIOS
    first, last = (math.asinh((math.log(item) - _MIDDLE) / _WIDTH) for item in (shortest, longest))
    grid_L = torch.linspace(first, last, L, dtype=torch.float64)
    return grid_L, _log_lengths(grid_L), torch.linspace(math.log(least), math.log(most), R, dtype=torch.float64)


def _log_lengths(position: Tensor) -> Tensor:
    return _MIDDLE + _WIDTH * torch.sinh(position)


Bases = tuple[Float[Tensor, "L N N"], Float[Tensor, "L N R"], Float[Tensor, "L Q N R"], Float[Tensor, "L R"]]
"""For each lengthscale: the eigenvectors, 1 / (e + r), the mean's part, and sum(log(e + r))."""


def _bases(kernel: Kernel, tasks: TaskBatch, grids: Grids) -> Bases:
    """The bases, in float32."""
    x_ND, known = tasks.x_TND[0].double().cpu().contiguous(), (tuple(item.tolist()) for item in grids[1:])
    return _moved(tasks.y_TN.device, kernel, tasks.mean, x_ND.numpy().tobytes(), x_ND.shape[1], *known)


@functools.lru_cache(maxsize=1)
def _moved(device: torch.device, *made_of: Any) -> Bases:
    """On their device, where only those of the last inputs are kept, from batch to batch: every one of a fit has the
    same. A megabyte for 40 points, 17 for 256, 210 for 1,000; those of many points are made there too."""
    large = len(made_of[2]) > 8 * made_of[3] * _ALWAYS
    V_LNN, W_LNR, M_LQNR, logdet_LR = (
        item.to(device) for item in (_decomposed(device, *made_of) if large else _make(*made_of))
    )
    return V_LNN, W_LNR, M_LQNR, logdet_LR


@functools.lru_cache(maxsize=8)
def _make(*made_of: Any) -> Bases:
    """In host memory, where those of the last few inputs are kept."""
    return _decomposed(torch.device("cpu"), *made_of)


def _decomposed(device: torch.device, kernel: Kernel, mean: str, x: bytes, dimensions: int, *grids: Any) -> Bases:
    """In float64; of many points one lengthscale at a time, since all would take gigabytes."""
    x_ND = torch.frombuffer(bytearray(x), dtype=torch.float64).reshape(-1, dimensions).to(device)
    log_l_L, log_r_R = (torch.tensor(item, dtype=torch.float64, device=device) for item in grids)
    some = log_l_L.split(len(log_l_L) if len(x_ND) <= _ALWAYS else 1)
    parts = [_basis(kernel, mean, x_ND, part_L, log_r_R) for part_L in some]
    V_LNN, W_LNR, M_LQNR, logdet_LR = (torch.cat(part) for part in zip(*parts, strict=True))
    return V_LNN, W_LNR, M_LQNR, logdet_LR


def _basis(kernel: Kernel, mean: str, x_ND: Tensor, log_l_L: Tensor, log_r_R: Tensor) -> Bases:
    x_LND, H_NQ = x_ND.expand(len(log_l_L), -1, -1), regressors(x_ND[None], mean)[0]
    theta_LP = torch.stack([torch.zeros_like(log_l_L), log_l_L], dim=1)
    e_LN, V_LNN = torch.linalg.eigh(kernel(x_LND, x_LND, theta_LP))
    both_LNR = e_LN.clamp(min=0)[:, :, None] + torch.exp(log_r_R)
    W_LNR = 1 / both_LNR
    G_LNQ = V_LNN.mT @ H_NQ
    A_LRQQ = torch.einsum("lnp,lnr,lnq->lrpq", G_LNQ, W_LNR, G_LNQ)
    C_LRQQ = torch.linalg.cholesky(torch.linalg.inv(A_LRQQ)) if G_LNQ.shape[2] else A_LRQQ
    M_LQNR = torch.einsum("lnr,lnp,lrpq->lqnr", W_LNR, G_LNQ, C_LRQQ)
    return V_LNN.float(), W_LNR.float(), M_LQNR.float(), both_LNR.log().sum(1).float()


def search(
    y_TN: Tensor, bases: Bases, limits: Limits, grids: Grids, most: int
) -> tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]:
    """The local minima of the score over the grids, best first, and how many each task has."""
    parts = []
    for index in torch.arange(len(y_TN), device=y_TN.device).split(_AT_ONCE):
        some = index.repeat(-(-_FEWEST // len(index)))
        result = begin(*lowest(y_TN[some], bases, limits.select(some), grids), grids[0], most)
        parts.append([part[: len(index)] for part in result])
    starts_TSP, count_T = (torch.cat(part) for part in zip(*parts, strict=True))
    return starts_TSP, count_T


def starts(
    kernel: Kernel, tasks: TaskBatch, limits: Limits, most: int, search: Any = search
) -> tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]:
    """Initial values, best first, and how many each task has. The tasks share their inputs, and none is missing.
    `search`: this module's, or its twin on a GPU."""
    grids = _grids()
    starts_TSP, count_T = search(tasks.y_TN, _bases(kernel, tasks, grids), limits, grids, most)
    starts_TSP[:, :, 1] = _log_lengths(starts_TSP[:, :, 1])
    return starts_TSP, count_T


def lowest(
    y_TN: Tensor, bases: Bases, limits: Limits, grids: Grids
) -> tuple[Float[Tensor, "T L"], Float[Tensor, "T L"], Float[Tensor, "T L"]]:
    """For each task and lengthscale the lowest score over a continuous ratio, with the ratio and the variance there.
    Starts lie along the valley in which lengthscale and variance grow together only if each has its own best."""
    T, N = y_TN.shape
    device, (log_l, log_r_R) = y_TN.device, (grids[1].tolist(), grids[2].float().to(y_TN.device))
    L, R, C = len(log_l), len(log_r_R), 2 * REACH + 1
    y_NT = y_TN.float().mT.contiguous()  # tasks innermost: every step runs along them
    priors = _PriorTerms(limits, log_r_R, N) if limits.precision_P.any() else None
    moves_C1 = torch.arange(-REACH, REACH + 1, device=device)[:, None]
    index_LT, middle_LT = (torch.empty(L, T, dtype=torch.int64, device=device) for _ in range(2))
    score_LCT, log_v_LCT = torch.empty(L, C, T, device=device), torch.empty(L, C, T, device=device)
    for position, (V_NN, W_NR, M_QNR, logdet_R) in enumerate(zip(*bases, strict=True)):
        z_NT = V_NN.mT @ y_NT
        q_RT = W_NR.mT @ z_NT.square()
        for M_NR in M_QNR:
            q_RT -= (M_NR.mT @ z_NT).square_()
        log_v_RT = q_RT.mul_(1 / N).clamp_(min=1e-30).log_()
        score_RT = torch.add(0.5 * logdet_R[:, None], log_v_RT, alpha=0.5 * N)
        if priors:
            priors.add(score_RT, log_v_RT, log_l[position])
        index_LT[position] = score_RT.min(0).indices
        torch.clamp(index_LT[position], REACH, R - 1 - REACH, out=middle_LT[position])
        around_CT = middle_LT[position] + moves_C1
        torch.gather(score_RT, 0, around_CT, out=score_LCT[position])
        torch.gather(log_v_RT, 0, around_CT, out=log_v_LCT[position])
    curve = polynomial.through(*score_LCT.unbind(1))
    step_LT = _lowest(curve, (index_LT - middle_LT).float())
    ratio_LT = log_r_R[middle_LT] + step_LT * (log_r_R[1] - log_r_R[0])
    log_v_LT = polynomial.value(polynomial.through(*log_v_LCT.unbind(1)), step_LT)
    return polynomial.value(curve, step_LT).mT, ratio_LT.mT, log_v_LT.mT


def begin(
    best_TL: Tensor, ratio_TL: Tensor, log_v_TL: Tensor, grid_L: Tensor, most: int
) -> tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]:
    """Initial values from the lowest scores of all lengthscales, with the places of these among them."""
    index_TS, count_T = _local_minima(best_TL, most)
    middle_TS = index_TS.clamp(REACH, len(grid_L) - 1 - REACH)
    around = [middle_TS + move for move in range(-REACH, REACH + 1)]
    best, ratio, log_v = (
        polynomial.through(*(torch.gather(values_TL, 1, position) for position in around))
        for values_TL in (best_TL, ratio_TL, log_v_TL)
    )
    step_TS = _lowest(best, (index_TS - middle_TS).float())
    ratio_TS, log_v_TS = polynomial.value(ratio, step_TS), polynomial.value(log_v, step_TS)
    between = float(grid_L[1] - grid_L[0])
    at_TS = grid_L.to(best_TL.device)[middle_TS] + step_TS * between
    return torch.stack([log_v_TS, at_TS, log_v_TS + ratio_TS], dim=2).double(), count_T


def _lowest(curve: tuple[Tensor, ...], near: Tensor) -> Tensor:
    """Where a polynomial is lowest within a step of the lowest of its points, in steps from its middle."""
    low, high, step = (near - 1).clamp(min=-REACH), (near + 1).clamp(max=REACH), near
    for _ in range(4):
        derivative, curvature = polynomial.derivative(curve, step), polynomial.curvature(curve, step)
        step = step - torch.where(curvature > 0, derivative / curvature.clamp(min=1e-6), torch.sign(derivative))
        step = torch.minimum(torch.maximum(step, low), high)
    return step


class _PriorTerms:
    """What the priors add to the scores, up to what is the same for all, and how they move the best variance v: by one
    of Newton's steps, corrected by the third derivative, exact enough for weak priors; for strong ones by many steps.

    With p and c precision and centre of variance, lengthscale and noise, and u = log v, they add
    p_v (u - c_v)^2 / 2 + p_n (u + log r - c_n)^2 / 2 + p_l (log l - c_l)^2 / 2, whose derivative by u is p u - s."""

    def __init__(self, limits: Limits, log_r_R: Tensor, N: int) -> None:
        (v_T, self.l_T, n_T), (by_v, self.by_l, by_n) = limits.center_TP.float().mT, limits.precision_P.tolist()
        noise_RT = n_T - log_r_R[:, None]
        self.N, self.both, self.curvature = N, by_v + by_n, 0.5 * N + by_v + by_n
        self.s_RT = by_v * v_T + by_n * noise_RT
        self.rest_RT = 0.5 * (by_v * v_T.square() + by_n * noise_RT.square())
        self.parts, self.steps = ((by_v, v_T), (by_n, noise_RT)), limits.steps(N)

    def add(self, score_RT: Tensor, log_v_RT: Tensor, log_l: float) -> None:
        """Adds to the scores, and moves the variances, in place."""
        N, curvature = self.N, self.curvature
        score_RT += (log_l - self.l_T).square_().mul_(0.5 * self.by_l)
        if self.steps:
            step_RT = torch.zeros_like(log_v_RT)
            for _ in range(self.steps):
                least_RT = torch.exp(-step_RT) * (0.5 * N)
                derivative_RT = 0.5 * N - least_RT
                for by, center in self.parts:
                    derivative_RT += by * (log_v_RT + step_RT - center)
                step_RT -= (derivative_RT / (least_RT + self.both)).clamp_(-2, 2)
            log_v_RT += step_RT
            score_RT += 0.5 * N * (step_RT + torch.exp(-step_RT) - 1)
            for by, center in self.parts:
                score_RT += 0.5 * by * (log_v_RT - center).square()
            return
        score_RT += self.rest_RT
        derivative_RT = torch.mul(log_v_RT, self.both).sub_(self.s_RT)
        score_RT += (derivative_RT - self.s_RT).mul_(log_v_RT).mul_(0.5)
        step_RT = torch.mul(derivative_RT, -1 / curvature).clamp_(-0.7, 0.7)
        step_RT.addcmul_(step_RT, step_RT, value=0.25 * N / curvature)
        log_v_RT += step_RT
        rise_RT = (
            torch.mul(step_RT, N / 48)
            .sub_(N / 12)
            .mul_(step_RT)
            .add_(0.5 * curvature)
            .mul_(step_RT)
            .add_(derivative_RT)
        )
        score_RT.addcmul_(rise_RT, step_RT)


def _local_minima(best_TL: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The lengthscales without a better neighbor, best first, and from how many of them to descend."""
    edge_T1 = torch.full_like(best_TL[:, :1], math.inf)
    before_TL, after_TL = torch.cat([edge_T1, best_TL[:, :-1]], 1), torch.cat([best_TL[:, 1:], edge_T1], 1)
    value_TL = torch.where((best_TL <= before_TL) & (best_TL <= after_TL), best_TL, math.inf)
    top_TS, index_TS = value_TL.topk(min(most, value_TL.shape[1]), dim=1, largest=False)
    return index_TS, (top_TS <= top_TS[:, :1] + WORTH).sum(1).clamp(min=1)
