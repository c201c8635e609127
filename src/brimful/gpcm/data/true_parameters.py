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
from ...core.runs.files import write_atomic

FILE = "true_irt_parameters.json"


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What is true of synthetic students and questions.

    Attributes:
        theta_B: abilities, by the students' numbers.
        alpha_Q: discriminations.
        beta_QH: thresholds, ascending.
    """

    theta_B: Float[np.ndarray, " B"]
    alpha_Q: Float[np.ndarray, " Q"]
    beta_QH: Float[np.ndarray, "Q H"]

    def theta(self, ids: np.ndarray) -> np.ndarray:
        """The abilities of students by name; NaN for one it does not know."""
        number = np.array([int(each) if each.isdigit() else -1 for each in ids.tolist()], np.int64)
        known = (number >= 0) & (number < len(self.theta_B))
        return np.where(known, self.theta_B[np.where(known, number, 0)] if len(self.theta_B) else np.nan, np.nan)


def write(folder: Path, truth: Truth) -> None:
    """Writes the file, in the layout that deep-gpcm writes."""
    body = {
        "student_abilities": {"theta": truth.theta_B.tolist()},
        "question_params": {
            "discrimination": {"alpha": truth.alpha_Q.tolist()},
            "difficulties": {"beta": truth.beta_QH.tolist()},
        },
        "model_info": {"model_type": "GPCM", "n_cats": truth.beta_QH.shape[1] + 1},
    }
    write_atomic(folder / FILE, json.dumps(body).encode())


def read(path: Path) -> Truth:
    """Reads the file; both of deep-gpcm's layouts, and theta, alpha and beta side by side, are understood."""
    try:
        body: Any = json.loads(path.read_text())
        items = body.get("question_params") or body.get("question_parameters")
        found = (
            (body["theta"], body["alpha"], body["beta"])
            if items is None
            else (body["student_abilities"]["theta"], items["discrimination"]["alpha"], items["difficulties"]["beta"])
        )
        theta, alpha, beta = (np.asarray(each, dtype=np.float64) for each in found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} does not hold theta, alpha and beta: {error!r}; take it away, or correct it"
        ) from error
    alpha = alpha.reshape(-1)
    if beta.ndim != 2 or len(beta) != len(alpha):
        raise InputError(f"{path} has {len(alpha)} alphas and betas of shape {beta.shape}; give one row a question")
    return Truth(theta.reshape(-1), alpha, beta)
