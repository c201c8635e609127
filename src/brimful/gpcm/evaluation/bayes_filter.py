"""The ceiling: predictions of someone who knows the true questions, and learns each student's ability by Bayes' rule.

Legend: B students, S steps, T steps of all, Q questions, K categories, G points of the grid of abilities.

Ability has the prior N(0, 1) the students were drawn from, on a grid. Before each answer the prediction is the mean of
the model's probabilities over what is believed; after it, belief is multiplied by the likelihood of the answer. No
model that must learn the questions from data can be better on average.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ...core.base.errors import InputError
from ..data.students import Students
from ..data.true_parameters import Truth
from ..model.partial_credit import probabilities

_BYTES = 256 * 2**20  # of probabilities looked up at once


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """What the filter says.

    Attributes:
        probability_TK: of each answer, from those before it.
        theta_B, spread_B: mean and standard deviation of each student's ability after the last answer.
    """

    probability_TK: Float[np.ndarray, "T K"]
    theta_B: Float[np.ndarray, " B"]
    spread_B: Float[np.ndarray, " B"]


def bayes(students: Students, truth: Truth, points: int = 161, width: float = 5.0) -> Filtered:
    """Filters all students side by side, step by step.

    Args:
        students: whose questions are the truth's, in its order, none unknown.
        truth: the questions' parameters; the abilities in it are not looked at.
        points, width: the grid, from -width to width.
    """
    if students.unknown or truth.beta_QH.shape != (len(students.questions), students.categories - 1):
        raise InputError(
            f"the truth is of {len(truth.beta_QH)} questions with {truth.beta_QH.shape[1] + 1} categories, and the "
            f"students have {len(students.questions)} with {students.categories}, {students.unknown} steps with an "
            f"unknown one; give the truth they were drawn from"
        )
    grid_G = np.linspace(-width, width, points)
    p_QGK = probabilities(grid_G[None, :], truth.alpha_Q[:, None], truth.beta_QH[:, None, :])
    prior_G = np.exp(-0.5 * grid_G**2)
    found_TK = np.empty((students.steps, students.categories))
    theta_B, spread_B = np.empty(len(students)), np.empty(len(students))
    block = max(1, _BYTES // (8 * points * students.categories))
    order = np.argsort(-students.lengths, kind="stable")  # those of a block end at nearly the same step
    for start in range(0, len(students), block):
        rows = order[start : start + block]
        belief_BG = _filter(students, rows, p_QGK, prior_G, found_TK)
        theta_B[rows] = belief_BG @ grid_G
        spread_B[rows] = np.sqrt(np.maximum(belief_BG @ grid_G**2 - theta_B[rows] ** 2, 0.0))
    return Filtered(found_TK, theta_B, spread_B)


def _filter(
    students: Students, rows: np.ndarray, p_QGK: np.ndarray, prior_G: np.ndarray, found_TK: np.ndarray
) -> np.ndarray:
    """Filters some students, longest first; writes their predictions, gives the beliefs at the end."""
    begins, steps = students.offsets[:-1][rows], students.lengths[rows]
    belief_BG = np.tile(prior_G / prior_G.sum(), (len(rows), 1))
    for step in range(int(steps.max(initial=0))):
        going = int(np.searchsorted(-steps, -step, side="left"))  # the first ones, which are longer than this step
        place = begins[:going] + step
        p_BGK = p_QGK[students.question[place]]
        found_TK[place] = np.einsum("bg,bgk->bk", belief_BG[:going], p_BGK)
        belief_BG[:going] *= p_BGK[np.arange(going), :, students.response[place]]
        belief_BG[:going] /= belief_BG[:going].sum(1, keepdims=True)
    return belief_BG
