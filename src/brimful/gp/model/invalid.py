"""Why a task is `TaskStatus.INVALID`: one sentence per cause.

Legend: T tasks, N points, D input dimensions.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .tasks import TaskStatus, Units

_SENTENCES = (
    "a target is infinite",
    "an input is infinite",
    "a known noise variance is negative",
    "a known noise variance is NaN or infinite",
    "the targets vary by more than 1e17; divide them by a constant",
    "the targets vary by less than 1e-14; multiply them by a constant",
    "the inputs reach over more than 1e30; divide them by a constant",
    "the inputs reach over less than 1e-30; multiply them by a constant",
)


def causes(
    x_TND: Float[Tensor, "T N D"],
    y_TN: Float[Tensor, "T N"],
    known_TN: Float[Tensor, "T N"] | None,
    units: Units,
    flag_T: Int[Tensor, " T"],
) -> dict[int, str]:
    """The tasks that are invalid, each with the first cause that holds."""
    index = torch.nonzero(flag_T == TaskStatus.INVALID)[:, 0]
    if not len(index):
        return {}
    x_TND, y_TN, units = x_TND[index].double(), y_TN[index].double(), units.select(index)
    there_TN = ~(torch.isnan(y_TN) | torch.isnan(x_TND).any(-1))
    noise_TN = torch.zeros_like(y_TN) if known_TN is None else known_TN[index].double()

    def any_point(where_TN: Tensor) -> Tensor:
        return (where_TN & there_TN).any(1)

    found_CT = torch.stack(
        [
            any_point(torch.isinf(y_TN)),
            any_point(torch.isinf(x_TND).any(-1)),
            any_point(noise_TN < 0),
            any_point(~torch.isfinite(noise_TN)),
            ~torch.isfinite(units.y_offset_T + units.y_scale_T) | (units.y_scale_T > 1e17),
            units.y_scale_T < 1e-14,
            (units.x_scale_TD > 1e30).any(1),
            (units.x_scale_TD < 1e-30).any(1),
        ]
    )
    first_T = found_CT.int().argmax(0)
    return {task: _SENTENCES[cause] for task, cause in zip(index.tolist(), first_T.tolist(), strict=True)}
