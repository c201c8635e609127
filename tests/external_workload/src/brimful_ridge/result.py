"""What `ridge fit` gives back, in Python and after loading.

Legend: T tasks, D inputs.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

import brimful
from brimful.workloads import Result


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RidgeResult(Result):
    """Many regressions.

    Attributes:
        w_TD: the coefficients of each.
        error_T: their mean squared errors.
    """

    w_TD: Tensor
    error_T: Tensor

    @classmethod
    def from_map(cls, mapped: brimful.MapResult) -> "RidgeResult":
        values: Any = mapped.values
        measured: dict[str, Any] = {"plan": mapped.plan, "observed": mapped.observed, "seconds": mapped.seconds}
        return cls(values["w"], values["error"], **measured)

    def summary(self) -> dict[str, Any]:
        return {"tasks": len(self.w_TD), "mean_error": float(self.error_T.mean()), **Result.summary(self)}
