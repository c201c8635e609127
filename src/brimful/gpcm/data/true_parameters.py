"""The parameters that synthetic data was drawn from, and their file, `true_irt_parameters.json`.

Legend: B students, Q questions, H = K-1 thresholds.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ...core.base.errors import InputError

FILE = "true_irt_parameters.json"


@dataclass(frozen=True, slots=True, eq=False)
class TrueParameters:
    """The true parameters of synthetic students and questions.

    Attributes:
        theta_B: abilities, by the students' numbers.
        alpha_Q: discriminations.
        beta_QH: thresholds, ascending.
    """

    theta_B: Float[np.ndarray, " B"]
    alpha_Q: Float[np.ndarray, " Q"]
    beta_QH: Float[np.ndarray, "Q H"]

    def theta(self, ids: np.ndarray) -> np.ndarray:
        """The abilities of students by id; NaN for an unknown one."""
        number = np.array([int(text) if text.isdigit() else -1 for text in ids.tolist()], np.int64)
        known = (number >= 0) & (number < len(self.theta_B))
        return np.append(self.theta_B, np.nan)[np.where(known, number, -1)]


def read(path: Path) -> TrueParameters | None:
    """Reads the file, where there is one, in either of deep-gpcm's layouts, or with theta, alpha and beta at the top
    level."""
    if not path.exists():
        return None
    try:
        body: Any = json.loads(path.read_text())
        items = body.get("question_params") or body.get("question_parameters")
        values = (
            (body["theta"], body["alpha"], body["beta"])
            if items is None
            else (body["student_abilities"]["theta"], items["discrimination"]["alpha"], items["difficulties"]["beta"])
        )
        theta, alpha, beta = (np.asarray(value, dtype=np.float64) for value in values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} does not hold theta, alpha and beta: {error!r}; correct it, or remove it") from error
    if beta.ndim != 2 or len(beta) != alpha.size:
        raise InputError(f"{path} has {alpha.size} alphas and betas of shape {beta.shape}; give one row per question")
    return TrueParameters(theta.reshape(-1), alpha.reshape(-1), beta)
