"""First guesses for tasks that share their inputs: one eigendecomposition a lengthscale serves them all.

Legend: T tasks, N points, Q regressors of the mean, L lengthscales, R noise ratios, S starts, P parameters.

With E = V diag(e) V^T for a lengthscale, z = V^T y and the ratio r of noise to signal variance, the covariance is
diagonal: twice the negative log likelihood is N log(q / N) + sum(log(e + r)), q = sum(z^2 / (e + r)) less what the mean
takes, at the best signal variance q / N. For all tasks and all ratios that is a few products of matrices. Curves
through the neighbours of the lowest points, first along the ratio, then along the lengthscale, put the guess close to
where scoring.py then goes.
"""

import functools
import math
from collections.abc import Sequence
from importlib.util import find_spec

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .kernels import Kernel
from .priors import Limits
from .tasks import Tasks, regressors

_LENGTHS, _RATIOS = (0.011, 12.0, 49), (1e-8, 10.0, 32)  # first, last, how many
_AT_ONCE = 4096  # tasks: enough for the products of matrices, and few enough for the caches
_WORTH = 3.0  # nats: a hollow this much above the best is not followed
MOST_POINTS = 256
"""Points up to which it pays: of more, the bases take longer than they save, and gigabytes."""


def serves(kernel: object) -> bool:
    """Whether a kernel has one nonlinear parameter only, so that a grid of lengthscales is all there is to it."""
    return isinstance(kernel, Kernel) and len(kernel.factors) == 1 and kernel.kinds == ("variance", "lengthscale")


def starts(kernel: Kernel, tasks: Tasks, limits: Limits, most: int) -> tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]:
    """First guesses, best first, and how many each task has. The tasks share their inputs, and none is missing."""
    log_l, log_r = (torch.linspace(math.log(a), math.log(b), c, dtype=torch.float64) for a, b, c in (_LENGTHS, _RATIOS))
    bases = _bases(kernel, tasks, log_l, torch.exp(log_r))
    y_TN = tasks.y_TN
    if fused(y_TN.device, y_TN.shape[1], tasks.coefficients):
        from . import _eigen

        return _eigen.starts(y_TN, bases, limits, log_l, log_r, most, _WORTH)
    parts = []
    for index in torch.arange(len(tasks), device=y_TN.device).split(_AT_ONCE):
        parts.append(begin(*lowest(y_TN[index], bases, limits.pick(index), log_l, log_r), log_l, most))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def fused(device: torch.device, points: int, regressors: int) -> bool:
    """Whether a kernel does it there."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    from . import _eigen

    return _eigen.serves(points, regressors)


Bases = tuple[Float[Tensor, "L N N"], Float[Tensor, "L N R"], Float[Tensor, "L Q N R"], Float[Tensor, "L R"]]
"""For each lengthscale: the eigenvectors, 1 / (e + r), the mean's part, and sum(log(e + r))."""


def _bases(kernel: Kernel, tasks: Tasks, log_l: Tensor, ratio_R: Tensor) -> Bases:
    """The bases, in float32."""
    x_ND, grids = tasks.x_TND[0].double().cpu().contiguous(), (tuple(log_l.tolist()), tuple(ratio_R.tolist()))
    made = _remembered(kernel, tasks.mean, x_ND.numpy().tobytes(), x_ND.shape[1], *grids)
    V_LNN, W_LNR, M_LQNR, logdet_LR = (each.to(tasks.y_TN.device) for each in made)
    return V_LNN, W_LNR, M_LQNR, logdet_LR


@functools.lru_cache(maxsize=8)
def _remembered(
    kernel: Kernel, mean: str, x: bytes, dimensions: int, log_l: tuple[float, ...], ratio: tuple[float, ...]
) -> Bases:
    """Kept from batch to batch: every one of a fit has the same inputs."""
    x_ND = torch.frombuffer(bytearray(x), dtype=torch.float64).reshape(-1, dimensions)
    return _make(kernel, mean, x_ND, *(torch.tensor(each, dtype=torch.float64) for each in (log_l, ratio)))


def _make(kernel: Kernel, mean: str, x_ND: Tensor, log_l: Tensor, ratio_R: Tensor) -> Bases:
    """The bases, made in float64."""
    x_LND, H_NQ = x_ND.expand(len(log_l), -1, -1), regressors(x_ND[None], mean)[0]
    theta_LP = torch.stack([torch.zeros_like(log_l), log_l], dim=1)
    e_LN, V_LNN = torch.linalg.eigh(kernel(x_LND, x_LND, theta_LP))
    both_LNR = e_LN.clamp(min=0)[:, :, None] + ratio_R
    W_LNR = 1 / both_LNR
    G_LNQ = V_LNN.mT @ H_NQ
    A_LRQQ = torch.einsum("lnp,lnr,lnq->lrpq", G_LNQ, W_LNR, G_LNQ)
    C_LRQQ = torch.linalg.cholesky(torch.linalg.inv(A_LRQQ)) if G_LNQ.shape[2] else A_LRQQ
    M_LQNR = torch.einsum("lnr,lnp,lrpq->lqnr", W_LNR, G_LNQ, C_LRQQ)
    return V_LNN.float(), W_LNR.float(), M_LQNR.float(), both_LNR.log().sum(1).float()


def lowest(
    y_TN: Tensor, bases: Bases, limits: Limits, log_l: Tensor, log_r: Tensor
) -> tuple[Float[Tensor, "T L"], Float[Tensor, "T L"], Float[Tensor, "T L"]]:
    """For each task and lengthscale the lowest score over a continuous ratio, with the ratio and the variance there."""
    T, N = y_TN.shape
    L, R = len(log_l), len(log_r)
    device, pulled = y_TN.device, bool(limits.precision_P.any())
    y_NT, log_r = y_TN.float().mT.contiguous(), log_r.to(device)  # tasks innermost: every step runs along them
    moves_51 = torch.arange(-2, 3, device=device)[:, None]
    place_LT = torch.empty(L, T, dtype=torch.int64, device=device)
    score_L5T, log_v_L5T = torch.empty(L, 5, T, device=device), torch.empty(L, 5, T, device=device)
    for place, (V_NN, W_NR, M_QNR, logdet_R) in enumerate(zip(*bases, strict=True)):
        z_NT = V_NN.mT @ y_NT
        q_RT = W_NR.mT @ z_NT.square()
        for M_NR in M_QNR:
            q_RT -= (M_NR.mT @ z_NT).square_()
        log_v_RT = q_RT.mul_(1 / N).clamp_(min=1e-30).log_()
        score_RT = torch.add(0.5 * logdet_R[:, None], log_v_RT, alpha=0.5 * N)
        if pulled:
            score_RT += _pull(log_v_RT, log_l[place], log_r, limits)
        torch.clamp(score_RT.min(0).indices, 2, R - 3, out=place_LT[place])
        around_5T = place_LT[place] + moves_51
        torch.gather(score_RT, 0, around_5T, out=score_L5T[place])
        torch.gather(log_v_RT, 0, around_5T, out=log_v_L5T[place])
    return _along_ratio(score_L5T, log_v_L5T, log_r, place_LT)


def begin(
    best_TL: Tensor, ratio_TL: Tensor, log_v_TL: Tensor, log_l: Tensor, most: int
) -> tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]:
    """First guesses from the lowest scores of all lengthscales."""
    place_TS, count_T = _hollows(best_TL, most)
    middle_TS = place_TS.clamp(2, len(log_l) - 3)  # at an edge, the curve of the points beside it
    around = [middle_TS + move for move in range(-2, 3)]
    step_TS = _lowest(_curve([torch.gather(best_TL, 1, place) for place in around]))
    ratio_TS, log_v_TS = (
        _value(_curve([torch.gather(each, 1, place) for place in around]), step_TS) for each in (ratio_TL, log_v_TL)
    )
    log_l_TS = log_l.to(best_TL.device)[middle_TS] + step_TS * float(log_l[1] - log_l[0])
    return torch.stack([log_v_TS, log_l_TS, log_v_TS + ratio_TS], dim=2).double(), count_T


def _along_ratio(
    score_L5T: Tensor, log_v_L5T: Tensor, log_r: Tensor, place_LT: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """For each lengthscale the lowest score over a continuous ratio, with the ratio and the variance there. Guesses
    follow the valley along which lengthscale and variance grow together only if each lengthscale has its own best."""
    score = _curve(score_L5T.unbind(1))
    step_LT = _lowest(score)
    ratio_LT = log_r.float()[place_LT] + step_LT * float(log_r[1] - log_r[0])
    return _value(score, step_LT).mT, ratio_LT.mT, _value(_curve(log_v_L5T.unbind(1)), step_LT).mT


def _curve(values: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The polynomial of degree four through five points a step apart, by its coefficients around the middle one."""
    a, b, c, d, e = values
    return (
        c,
        (a - 8 * b + 8 * d - e) / 12,
        (-a + 16 * b - 30 * c + 16 * d - e) / 24,
        (-a + 2 * b - 2 * d + e) / 12,
        (a - 4 * b + 6 * c - 4 * d + e) / 24,
    )


def _lowest(curve: tuple[Tensor, ...]) -> Tensor:
    """Where a curve is lowest near its middle, in steps from there: a few of Newton's steps."""
    _, first, second, third, fourth = curve
    step = torch.zeros_like(first)
    for _ in range(4):
        slope = first + step * (2 * second + step * (3 * third + step * 4 * fourth))
        bend = 2 * second + step * (6 * third + step * 12 * fourth)
        step = (step - torch.where(bend > 0, slope / bend.clamp(min=1e-6), torch.sign(slope))).clamp(-1.0, 1.0)
    return step


def _value(curve: tuple[Tensor, ...], step: Tensor) -> Tensor:
    return curve[0] + step * (curve[1] + step * (curve[2] + step * (curve[3] + step * curve[4])))


def _pull(log_v_RT: Tensor, log_l: Tensor, log_r: Tensor, limits: Limits) -> Tensor:
    """What the priors add, up to what is the same for all."""
    centre_PT, precision_P = limits.centre_TP.float().mT, limits.precision_P.tolist()
    by_v = (log_v_RT - centre_PT[0]).square_().mul_(0.5 * precision_P[0])
    by_l = (float(log_l) - centre_PT[1]).square_().mul_(0.5 * precision_P[1])
    by_n = (log_v_RT + (log_r.float()[:, None] - centre_PT[2])).square_().mul_(0.5 * precision_P[2])
    return by_v.add_(by_l).add_(by_n)


def _hollows(best_TL: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The lengthscales without a better neighbour, best first, and how many of them to follow."""
    edge_T1 = torch.full_like(best_TL[:, :1], math.inf)
    before_TL, after_TL = torch.cat([edge_T1, best_TL[:, :-1]], 1), torch.cat([best_TL[:, 1:], edge_T1], 1)
    value_TL = torch.where((best_TL <= before_TL) & (best_TL <= after_TL), best_TL, math.inf)
    top_TS, place_TS = value_TL.topk(min(most, value_TL.shape[1]), dim=1, largest=False)
    return place_TS, (top_TS <= top_TS[:, :1] + _WORTH).sum(1).clamp(min=1)
