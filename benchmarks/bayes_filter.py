"""The upper bound: predictions of a Bayes filter that knows the true questions and learns each student's ability.

Legend: B students, S steps, T steps of all, Q questions, K categories, G points of the grid of abilities.

Ability has the prior N(0, 1) that the students were drawn from, on a grid. Before each answer the prediction is the
mean of the model's probabilities under the posterior; after it, the posterior is multiplied by the likelihood of the
answer. No model that must learn the questions from data can be better on average.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from brimful.core.base.errors import InputError
from brimful.gpcm.data.students import Students
from brimful.gpcm.data.true_parameters import TrueParameters
from brimful.gpcm.model.partial_credit import probabilities

_BYTES = 256 * 2**20  # of probabilities looked up at once


@dataclass(frozen=True, slots=True, eq=False)
class FilterResult:
    """Predictions and abilities.

    Attributes:
        probability_TK: of each answer, from those before it.
        theta_B, deviation_B: posterior mean and standard deviation of each student's ability after the last answer.
    """

    probability_TK: Float[np.ndarray, "T K"]
    theta_B: Float[np.ndarray, " B"]
    deviation_B: Float[np.ndarray, " B"]


def bayes_filter(
    students: Students, true_parameters: TrueParameters, points: int = 161, width: float = 5.0
) -> FilterResult:
    """Filters all students together, step by step.

    Args:
        students: their questions are those of the true parameters, in that order, none unknown.
        true_parameters: those of the questions are used; the abilities are not.
        points, width: the grid, from -width to width.
    """
    beta_QH = true_parameters.beta_QH
    if students.unknown or beta_QH.shape != (len(students.questions), students.categories - 1):
        raise InputError(
            f"the true parameters are of {len(beta_QH)} questions with {beta_QH.shape[1] + 1} categories, and the "
            f"students have {len(students.questions)} with {students.categories}, {students.unknown} steps with an "
            f"unknown one; give the parameters they were drawn from"
        )
    grid_G = np.linspace(-width, width, points)
    p_QGK = probabilities(grid_G[None, :], true_parameters.alpha_Q[:, None], beta_QH[:, None, :])
    prior_G = np.exp(-0.5 * grid_G**2)
    p_TK = np.empty((students.steps, students.categories))
    theta_B, deviation_B = np.empty(len(students)), np.empty(len(students))
    block = max(1, _BYTES // (8 * points * students.categories))
    order = np.argsort(-students.lengths, kind="stable")  # those of a block end at nearly the same step
    for start in range(0, len(students), block):
        rows = order[start : start + block]
        posterior_BG = _filter(students, rows, p_QGK, prior_G, p_TK)
        theta_B[rows] = posterior_BG @ grid_G
        deviation_B[rows] = np.sqrt(np.maximum(posterior_BG @ grid_G**2 - theta_B[rows] ** 2, 0.0))
    return FilterResult(p_TK, theta_B, deviation_B)


def _filter(
    students: Students, rows: np.ndarray, p_QGK: np.ndarray, prior_G: np.ndarray, p_TK: np.ndarray
) -> np.ndarray:
    """Filters some students, longest first; writes their predictions, and returns the final posteriors."""
    begins, steps = students.offsets[:-1][rows], students.lengths[rows]
    posterior_BG = np.tile(prior_G / prior_G.sum(), (len(rows), 1))
    for step in range(int(steps.max(initial=0))):
        active = int(np.searchsorted(-steps, -step, side="left"))  # the first ones, which are longer than this step
        index = begins[:active] + step
        p_BGK = p_QGK[students.question[index]]
        p_TK[index] = np.einsum("bg,bgk->bk", posterior_BG[:active], p_BGK)
        posterior_BG[:active] *= p_BGK[np.arange(active), :, students.response[index]]
        posterior_BG[:active] /= posterior_BG[:active].sum(1, keepdims=True)
    return posterior_BG
