"""The likelihood and its derivatives, and the covariance in them, as loops of their own. Nothing here imports torch,
which would take as long as compiling half of them."""

import numpy as np

from .borrowed import Lent
from .covariance import covariance, is_linear
from .likelihood import derivatives, evaluate, evaluate_noise
from .simd_lanes import WIDTH
from .workspace import WORKSPACE, Loop, side

ALL, VALUE, NOISE, DERIVATIVES = range(4)
"""What to evaluate: the likelihood with what its derivatives need, or alone; the same where only the noise has changed
since; or its derivatives."""


def _covariance(want, workspace, factors):
    n = side(workspace)
    covariance(
        factors, workspace.theta, len(workspace.square), workspace.square, workspace.product, n * (n + 1) // 2,
        workspace.K, workspace.shapes, workspace.inverse, workspace.scale, workspace.dK, want == 1,
    )  # fmt: skip


def _evaluation(what, workspace, factors):
    if what == DERIVATIVES:
        derivatives(workspace)
    elif what == NOISE:
        evaluate_noise(workspace)
    else:
        evaluate(workspace, factors, 1 if what == ALL else 0)


COVARIANCE, EVALUATION = Loop(_covariance), Loop(_evaluation)


def make_workspace(N: int, D: int, P: int, Q: int, factors: np.ndarray) -> Lent:
    """Working memory for tasks of up to N points in D dimensions, P parameters and Q coefficients of the mean."""
    up, side, F = max(4, -(-N // 4) * 4), max(P, Q) + 2, len(factors)
    most = up * (up + 1) // 2
    products = most if is_linear(factors) else 1
    return WORKSPACE.make((
        (WIDTH,), (up, WIDTH), (D, most, WIDTH), (products, WIDTH),
        (up, WIDTH), (Q, up, WIDTH), (up, WIDTH), (P, WIDTH),
        (most, WIDTH), (F, most, WIDTH), (D, WIDTH), (WIDTH,),
        (P, most, WIDTH), (up, up, WIDTH), (up, up, WIDTH),
        (most, WIDTH), (up, WIDTH), (-(-(Q + 1) // 4) * 4, up, WIDTH),
        (-(-P // 4) * 4, up, WIDTH), (2, WIDTH), (P, WIDTH),
        (P, P, WIDTH), (Q, WIDTH), (side, side, WIDTH), (side, side),
        (side,), (side, side), (side,), (WIDTH, side),
        (N, D), EVALUATION.address, COVARIANCE.address,
    ))  # fmt: skip
