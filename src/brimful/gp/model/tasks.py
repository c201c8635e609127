"""The data of many tasks, measured in units of their own: inputs over an extent of 1, targets of variance 1.

Legend: T tasks, N points (the most of any task), D input dimensions, P parameters (the noise variance last), Q
regressors of the mean.
"""

import math
from dataclasses import dataclass, fields
from enum import IntEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...engine.map.batch import OWN_CODES
from .kernels import CustomKernel, Kernel

MEANS = ("zero", "constant", "linear")


class TaskStatus(IntEnum):
    """How a task fared, beyond the codes of `Status`."""

    LIMIT = OWN_CODES
    """The limit of iterations was reached before it converged; its parameters are the best so far."""
    EMPTY = OWN_CODES + 1
    """It has no points: there is nothing to say."""
    FEW = OWN_CODES + 2
    """It has no more points than its mean has coefficients: predictions have a mean, and no variance."""
    FLAT = OWN_CODES + 3
    """All its targets are alike: predictions have a mean, and no variance."""
    INVALID = OWN_CODES + 4
    """It holds an infinity, a known noise that is negative or not a number, targets that vary by more than 1e17 or less
    than 1e-14, whose variances a store could not hold, or inputs that reach over more than 1e30 or less than 1e-30."""


MESSAGES = {
    TaskStatus.LIMIT: "not converged within the limit of iterations",
    TaskStatus.EMPTY: "the task has no points",
    TaskStatus.FEW: "the task has no more points than its mean has coefficients",
    TaskStatus.FLAT: "all targets of the task are alike",
    TaskStatus.INVALID: (
        "the task holds an infinity, a known noise that is negative or not a number, targets that vary by more than "
        "1e17 or less than 1e-14, or inputs that reach over more than 1e30 or less than 1e-30"
    ),
}


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """T tasks in their own units.

    Attributes:
        x_TND: inputs, 0 at missing points.
        y_TN: targets, 0 at missing points.
        mask_TN: which points are there.
        known_TN: noise variance known for each point, on top of the fitted one.
        mean: "zero", "constant" or "linear".
    """

    x_TND: Float[Tensor, "T N D"]
    y_TN: Float[Tensor, "T N"]
    mask_TN: Bool[Tensor, "T N"]
    known_TN: Float[Tensor, "T N"]
    mean: str

    @property
    def H_TNQ(self) -> Float[Tensor, "T N Q"]:  # noqa: N802, a matrix
        """Regressors of the mean, 0 at missing points; Q = 0 for a mean of zero. Made anew each time."""
        return regressors(self.x_TND, self.mean) * self.mask_TN[:, :, None]

    @property
    def coefficients(self) -> int:
        """How many the mean has."""
        return coefficients(self.mean, self.x_TND.shape[2])

    @property
    def has_known_noise(self) -> bool:
        """Whether any noise is known: no memory is given to what is not there."""
        return self.known_TN.stride() != (0, 0)

    def select(self, index: Tensor) -> "TaskBatch":
        """Some of the tasks."""
        known_TN = self.known_TN[index] if self.has_known_noise else self.known_TN[:1].expand(len(index), -1)
        shared = len(self) > 1 and self.x_TND.stride(0) == 0
        x_TND = self.x_TND[:1].expand(len(index), -1, -1) if shared else self.x_TND[index]
        return TaskBatch(x_TND, self.y_TN[index], self.mask_TN[index], known_TN, self.mean)

    def narrowed(self, points: int) -> "TaskBatch":
        """The first points alone."""
        known_TN = self.known_TN[:, :points]
        return TaskBatch(self.x_TND[:, :points], self.y_TN[:, :points], self.mask_TN[:, :points], known_TN, self.mean)

    def __len__(self) -> int:
        return len(self.y_TN)


@dataclass(frozen=True, slots=True)
class Units:
    """What a task's numbers were divided by, and what was taken off before.

    Attributes:
        x_offset_TD, x_scale_TD: of the inputs.
        y_offset_T, y_scale_T: of the targets.
    """

    x_offset_TD: Float[Tensor, "T D"]
    x_scale_TD: Float[Tensor, "T D"]
    y_offset_T: Float[Tensor, " T"]
    y_scale_T: Float[Tensor, " T"]

    def select(self, index: Tensor | slice) -> "Units":
        return Units(*(getattr(self, value.name)[index] for value in fields(self)))

    def inputs(self, x_TMD: Float[Tensor, "T M D"]) -> Float[Tensor, "T M D"]:
        """Inputs as given, in the task's units."""
        return (x_TMD - self.x_offset_TD[:, None]) / self.x_scale_TD[:, None]

    def shift(self, kernel: Kernel | CustomKernel) -> Float[Tensor, "T P"]:
        """What the logarithms of the parameters change by, from the task's units to those of the data."""
        if isinstance(kernel, CustomKernel):
            return torch.zeros(len(self.y_offset_T), len(kernel.names) + 1).to(self.y_scale_T)
        log_y_T, log_x_TD = 2 * torch.log(self.y_scale_T), torch.log(self.x_scale_TD)
        columns = []
        for name, kind in zip(kernel.names, kernel.kinds, strict=True):
            position = int(name.rsplit("_", 1)[1]) if kind == "lengthscale" and name[-1].isdigit() else 0
            by_kind = {"variance": log_y_T, "alpha": torch.zeros_like(log_y_T)}
            columns.append(by_kind.get(kind, log_x_TD[:, position]))
        for factor in kernel.factors:
            if factor.shape == "linear":
                columns[factor.variance] = columns[factor.variance] - 2 * log_x_TD[:, 0]
            if factor.shape == "periodic":  # its lengthscale is measured against a sine
                columns[factor.start + 1 : factor.stop] = [torch.zeros_like(log_y_T)] * (factor.stop - factor.start - 1)
        return torch.stack([*columns, log_y_T], dim=1)

    def coefficients(self, beta_TQ: Float[Tensor, "T Q"]) -> Float[Tensor, "T Q"]:
        """The mean's coefficients, from the task's units to those of the data."""
        beta_TQ = beta_TQ * self.y_scale_T[:, None]
        if beta_TQ.shape[1] == 0:
            return beta_TQ
        slope_TD = beta_TQ[:, 1:] / self.x_scale_TD[:, : beta_TQ.shape[1] - 1]
        level_T = beta_TQ[:, 0] + self.y_offset_T - (slope_TD * self.x_offset_TD[:, : slope_TD.shape[1]]).sum(1)
        return torch.cat([level_T[:, None], slope_TD], dim=1)


def coefficients(mean: str, dimensions: int) -> int:
    """How many coefficients a mean has."""
    return {"zero": 0, "constant": 1, "linear": 1 + dimensions}[mean]


def regressors(x_TND: Float[Tensor, "T N D"], mean: str) -> Float[Tensor, "T N Q"]:
    """The columns that a mean is a combination of: none, ones, or ones and the inputs."""
    ones_TN1 = x_TND.new_ones(1, 1, 1).expand(*x_TND.shape[:2], 1)
    if mean == "linear":
        return torch.cat([ones_TN1, x_TND], dim=2)
    return ones_TN1[:, :, : coefficients(mean, x_TND.shape[2])]


def standardize(
    x_TND: Float[Tensor, "T N D"],
    y_TN: Float[Tensor, "T N"],
    kernel: Kernel | CustomKernel,
    mean: str,
    known_TN: Float[Tensor, "T N"] | None = None,
) -> tuple[TaskBatch, Units, Int[Tensor, " T"]]:
    """The tasks in their own units, those units, and the `TaskStatus` of tasks that cannot be fitted (0 for the
    others).

    A NaN is a missing point. Everything is float64: what is lost in the units is lost for good.
    """
    x_TND, y_TN = x_TND.double(), y_TN.double()
    mask_TN = ~(torch.isnan(y_TN) | torch.isnan(x_TND).any(-1))
    bad_TN = torch.isinf(y_TN) | torch.isinf(x_TND).any(-1)
    if known_TN is not None:
        known_TN = known_TN.double()
        bad_TN = bad_TN | ~(torch.isfinite(known_TN) & (known_TN >= 0))
    invalid_T = (bad_TN & mask_TN).any(1)
    mask_TN = mask_TN & ~invalid_T[:, None]
    x_TND = torch.where(mask_TN[:, :, None], x_TND, 0.0)
    y_TN = torch.where(mask_TN, y_TN, 0.0)
    count_T = mask_TN.sum(1)
    units = _units(x_TND, y_TN, mask_TN, count_T, kernel, mean)
    x_TND = torch.where(mask_TN[:, :, None], units.inputs(x_TND), 0.0)
    residual_TN = torch.where(mask_TN, y_TN - units.y_offset_T[:, None], 0.0)
    flat_T = count_T == 0  # which tasks have targets that do not differ from a constant mean, or from 0
    if y_TN.shape[1]:
        flat_T = residual_TN.abs().amax(1) <= 1e-12 * y_TN.abs().amax(1)
    # Scales whose squares, times the bounds of the parameters, are beyond float32.
    scale_TD, scale_T = units.x_scale_TD, units.y_scale_T
    beyond_T = ~torch.isfinite(units.y_offset_T + scale_T) | (scale_T > 1e17) | (scale_T < 1e-14)
    beyond_T = beyond_T | (scale_TD > 1e30).any(1) | (scale_TD < 1e-30).any(1)
    flag_T = torch.zeros_like(count_T)
    for where, flag in (
        (flat_T, TaskStatus.FLAT),
        (count_T <= coefficients(mean, x_TND.shape[2]), TaskStatus.FEW),
        (count_T == 0, TaskStatus.EMPTY),
        (invalid_T | (beyond_T & ~flat_T), TaskStatus.INVALID),
    ):
        flag_T = torch.where(where, int(flag), flag_T)
    if known_TN is None:
        known_TN = torch.zeros((), dtype=y_TN.dtype, device=y_TN.device).expand_as(y_TN)
    else:
        known_TN = torch.where(mask_TN, known_TN, 0.0) / units.y_scale_T[:, None].square()
    tasks = TaskBatch(x_TND, residual_TN / units.y_scale_T[:, None], mask_TN, known_TN, mean)
    return tasks, units, flag_T


def _units(
    x_TND: Tensor, y_TN: Tensor, mask_TN: Tensor, count_T: Tensor, kernel: Kernel | CustomKernel, mean: str
) -> Units:
    few_T = count_T.clamp(min=1)
    level_T = (y_TN / few_T[:, None]).sum(1)
    center_T = torch.zeros_like(level_T) if mean == "zero" else level_T
    off_TN = torch.where(mask_TN, y_TN - center_T[:, None], 0.0)
    most_T = off_TN.abs().amax(1) if off_TN.shape[1] else torch.zeros_like(level_T)
    most_T = torch.where(most_T > 0, most_T, 1.0)  # squares of numbers near 1 neither overflow nor vanish
    spread_T = most_T * ((off_TN / most_T[:, None]).square().sum(1) / few_T).sqrt()
    scale_T = torch.where((spread_T > 0) & torch.isfinite(spread_T), spread_T, 1.0)
    if isinstance(kernel, CustomKernel):  # what its parameters mean is not known: nothing may be scaled
        zero_TD, one_T = torch.zeros_like(x_TND[:, 0] if x_TND.shape[1] else x_TND.sum(1)), torch.ones_like(level_T)
        return Units(zero_TD, torch.ones_like(zero_TD), center_T, one_T)
    high_TD = torch.where(mask_TN[:, :, None], x_TND, -math.inf).amax(1) if x_TND.shape[1] else x_TND.sum(1)
    low_TD = torch.where(mask_TN[:, :, None], x_TND, math.inf).amin(1) if x_TND.shape[1] else x_TND.sum(1)
    low_TD = torch.where(torch.isfinite(low_TD), low_TD, 0.0)
    extent_TD = torch.where(torch.isfinite(high_TD), high_TD - low_TD, 0.0)
    if not kernel.scales_each:
        extent_TD = extent_TD.amax(1, keepdim=True).expand_as(extent_TD)
    zero_TD = low_TD if kernel.shifts else torch.zeros_like(low_TD)
    return Units(zero_TD, torch.where(extent_TD > 0, extent_TD, 1.0), center_T, scale_T)
