"""The last active tasks as one Triton kernel: one program per task, with all the steps that it still needs.

One lane per task (`likelihood.py`) is fastest for many tasks, and takes as long for a single one. Few tasks are left
after some steps, so here a whole program works on each: it sweeps the covariance (Gauss-Jordan, symmetric throughout),
with the targets and the regressors of the mean as further rows, and steps as `scoring_step.py` does until the task has
ended. Symmetric matrices are summed along their first axis, which lies within a thread. Which tasks come here depends
on each of them alone, never on how many there are: a fit does not change with its neighbors.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import triton
import triton.language as tl

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..optimize.scoring import ScoringOptions
from . import likelihood, scoring_step
from .cholesky import fit_mean, value_of
from .layout import ActiveTasks, TaskLayout
from .likelihood import Evaluations
from .scoring_step import Descent, step

MOST_POINTS = 60
_ACROSS = 64  # the rows of a task's matrix: its points, and three more for targets and regressors
_WARPS = 4


@triton.jit
def _known(known, i, t, T, NP):
    """The noise that is known of each point, -inf at a missing one; as `cholesky.known4` has it."""
    if known.dtype.element_ty == tl.int32:
        bits = tl.load(known + (i // 4) * T + t, mask=i < NP, other=0)
        return tl.where(((bits >> (i % 4)) & 1) != 0, 0.0, float("-inf")).to(tl.float64)
    else:  # noqa: RET505, the branch that is not taken is not compiled
        return tl.load(known + i * T + t, mask=i < NP, other=float("-inf"))


@triton.jit
def _at(z, i, k):
    return tl.sum(tl.where(i == k, z, 0.0), axis=0)


@triton.jit
def _row(A, i, k):
    """A row of a symmetric matrix, which is also its column."""
    return tl.sum(tl.where((i == k)[:, None], A, 0.0), axis=0)


@triton.jit
def _border(A, z, i, k):
    """The matrix with z as row and column k, and 0 where they meet."""
    A = tl.where((i == k)[:, None], z[None, :], A)
    return tl.where((i == k)[None, :], z[:, None], A)


@triton.jit
def _apart(x, d, i, XN, NP, scale):
    """Squared distances along one dimension."""
    a = tl.load(x + (d * NP + i) * XN, mask=i < NP, other=0.0)
    gap = a[:, None] - a[None, :]
    return gap * gap * scale


@triton.jit
def _shape(
    x, theta, i, XN, NP, zero, N: tl.constexpr, D: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr
):  # fmt: skip
    """Squared distances, and a kernel's values and derivatives there."""
    R = tl.zeros([N, N], tl.float64)
    for d in range(D):
        R += _apart(x, d, i, XN, NP, tl.exp(-2.0 * tl.load(theta + 1 + d * ARD)) + zero)
    value, derivative = value_of(R, SHAPE)
    return R, value, derivative


@triton.jit
def _evaluate(
    x, y, known, theta, out_value, out_beta, out_gradient, out_info, t, n, T, XN, NP,
    N: tl.constexpr, D: tl.constexpr, P: tl.constexpr, PB: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr,
    ARD: tl.constexpr,
):  # fmt: skip
    """The likelihood of task t and its derivatives; n: no points come after so many."""
    i, p = tl.arange(0, N), tl.arange(0, PB)
    diagonal = i[:, None] == i[None, :]
    floor = _known(known, i, t, T, NP)
    there = tl.where(floor == float("-inf"), 0.0, 1.0).to(tl.float64)
    variance, noise = tl.exp(tl.load(theta)), tl.exp(tl.load(theta + P - 1))
    _R, value, _derivative = _shape(x, theta, i, XN, NP, 0.0, N, D, SHAPE, ARD)
    lifted = tl.where(there > 0.0, variance + noise + floor, 1.0)
    A = tl.where(diagonal, lifted[:, None], value * (there[:, None] * there[None, :]) * variance)
    target = tl.load(y + i * T + t, mask=i < NP, other=0.0)
    A = _border(A, target, i, N - 1)
    across = there * 0.0
    if Q > 0:
        A = _border(A, there, i, N - 2)
    if Q > 1:
        across = there * tl.load(x + i * XN, mask=i < NP, other=0.0)
        A = _border(A, across, i, N - 3)

    # Each point in turn: what it explains of all others is taken out of them. What is left of the rows at the border
    # are the weights, and between them the products, negative.
    logdet = variance * 0.0
    least = logdet + 1.0
    for k in range(n):
        row = _row(A, i, k)
        pivot = _at(row, i, k)
        least = tl.minimum(least, pivot)
        pivot = tl.where(pivot > 0.0, pivot, 1.0)
        logdet += tl.log(pivot)
        over = 1.0 / pivot
        scaled = tl.where(i == k, -over, row * over)
        swept = tl.where((i == k)[None, :], scaled[:, None], A - row[:, None] * (row * over)[None, :])
        A = tl.where((i == k)[:, None], scaled[None, :], swept)
    z = _row(A, i, N - 1)
    z0, z1 = z * 0.0, z * 0.0
    if Q > 0:
        z0 = _row(A, i, N - 2)
    if Q > 1:
        z1 = _row(A, i, N - 3)
    yy, y0, y1, h01 = -_at(z, i, N - 1), -_at(z0, i, N - 1), -_at(z1, i, N - 1), -_at(z1, i, N - 2)
    c0, c1, n00, n01, n11 = fit_mean(y0, y1, -_at(z0, i, N - 2), h01, -_at(z1, i, N - 3), Q)

    z0 *= there
    z1 *= there
    a = z * there - c0 * z0 - c1 * z1
    floors = tl.where(there > 0.0, noise + floor, 0.0)
    inverse = tl.sum(tl.where(diagonal, -A, 0.0), axis=0)
    u = target - c0 * there - c1 * across - floors * a
    first = 0.5 * (tl.sum(there, axis=0) - tl.sum(inverse * floors, axis=0) - tl.sum(u * a, axis=0))
    last = 0.5 * noise * (tl.sum(inverse * there, axis=0) - tl.sum(a * a, axis=0))
    g = tl.where(p == 0, first, tl.where(p == P - 1, last, 0.0))
    U = tl.where((p == 0)[:, None], u[None, :], tl.where((p == P - 1)[:, None], (noise * a)[None, :], 0.0))
    # Made again rather than kept, for which there are too few registers; the zero has the compiler believe it.
    R, _value, derivative = _shape(x, theta, i, XN, NP, least * 0.0, N, D, SHAPE, ARD)
    derivative *= (there[:, None] * there[None, :]) * variance
    for s in range(1, P - 1):
        if ARD:
            R = _apart(x, s - 1, i, XN, NP, tl.exp(-2.0 * tl.load(theta + s)))
        dK = derivative * R
        total = tl.sum(tl.sum((-A - a[:, None] * a[None, :]) * dK, axis=0), axis=0)
        g = tl.where(p == s, 0.5 * total, g)
        u = tl.sum(dK * a[:, None], axis=0)
        U = tl.where((p == s)[:, None], u[None, :], U)
    info = tl.zeros([PB, PB], tl.float64)
    u0, u1 = tl.sum(U * z0[None, :], axis=1), tl.sum(U * z1[None, :], axis=1)
    for q in range(P):
        u = tl.sum(tl.where((p == q)[:, None], U, 0.0), axis=0)
        v = tl.sum(-A * u[:, None], axis=0)
        q0, q1 = _at(u0, p, q), _at(u1, p, q)
        # Without what the mean would take up of it.
        products = tl.sum(U * v[None, :], axis=1) - u0 * (n00 * q0 + n01 * q1) - u1 * (n01 * q0 + n11 * q1)
        info = tl.where((p == q)[None, :], products[:, None], info)
    info = 0.25 * (info + tl.trans(info))

    good = least > 0.0
    tl.store(out_value, tl.where(good, yy - c0 * y0 - c1 * y1, float("inf")))
    tl.store(out_value + 1, tl.where(good, logdet, float("inf")))
    if Q > 0:
        tl.store(out_beta, c0)
    if Q > 1:
        tl.store(out_beta + 1, c1)
    tl.store(out_gradient + p, g, mask=p < P)
    tl.store(out_info + p[:, None] * P + p[None, :], info, mask=(p < P)[:, None] & (p < P)[None, :])


@triton.jit(do_not_specialize=["T", "XT", "XN", "NP", "limit"])
def _descend(
    index, count, x, y, known, last, value, beta, gradient, info, starts, counts, start, made, trial, now,
    kept_gradient, kept_info, kept_beta, steps, changes, numbers, best, best_beta, best_numbers, iterations, ending,
    going, low, high, center, precision, fixed, points, tolerance, max_step, limit, T, XT, XN, NP,
    N: tl.constexpr, D: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr, INTERPRETED: tl.constexpr,
    P: tl.constexpr, PB: tl.constexpr, Q: tl.constexpr, R: tl.constexpr, STARTS: tl.constexpr, PATIENCE: tl.constexpr,
    FAILED: tl.constexpr, UNFINISHED: tl.constexpr, CONVERGED: tl.constexpr,
):  # fmt: skip
    slot = tl.program_id(0).to(tl.int64)
    t = tl.load(index + slot).to(tl.int64)
    x += t * XT
    slot_1, t_1 = slot + tl.zeros([1], tl.int64), t + tl.zeros([1], tl.int64)
    while (slot < tl.load(count)) & (tl.load(going + t) != 0):
        # The interpreter loops to no bound that was loaded.
        _evaluate(x, y, known, trial + t * P, value + 2 * slot, beta + slot * Q, gradient + slot * P,
                  info + slot * P * P, t, N - 4 if INTERPRETED else 4 * tl.load(last + t), T, XN, NP, N, D, P, PB, Q,
                  SHAPE, ARD)  # fmt: skip
        tl.debug_barrier()  # what some threads have written is for others to read
        step(slot_1, t_1, slot_1 >= 0, value, beta, gradient, info, starts, counts, start, made, trial, now,
             kept_gradient, kept_info, kept_beta, steps, changes, numbers, best, best_beta, best_numbers, iterations,
             ending, going, low, high, center, precision, fixed, points, tolerance, max_step, limit, P, PB, Q, R,
             STARTS,
             PATIENCE, FAILED, UNFINISHED, CONVERGED)  # fmt: skip
        tl.debug_barrier()


def descend(
    kernel: Kernel, layout: TaskLayout, descent: Descent, active: ActiveTasks, limits: Limits, options: ScoringOptions
) -> Evaluations:
    """Steps tasks of at most `MOST_POINTS` points to their end; what was evaluated last."""
    L, (NP, T), P = len(active), layout.y_NT.shape, limits.low_TP.shape[1]
    evaluated, run = likelihood.empty_evaluations(L, P, layout, True), _descend
    if L:
        constants = likelihood.constants(kernel, layout, P) | scoring_step.compiled(descent, limits, options)
        run[(L,)](
            active.index_L, active.count, layout.x_DNT, layout.y_NT, layout.known, layout.last_T,
            *scoring_step.arguments(evaluated, descent, limits), layout.count_T, options.tolerance, options.max_step,
            options.steps, T, *layout.strides, NP, N=_ACROSS,
            **(constants | {"num_warps": _WARPS}),
        )  # fmt: skip
    return evaluated
