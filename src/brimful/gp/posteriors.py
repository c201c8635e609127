"""Predictions and leave-one-out of a batch of tasks, by the code that is fastest for them.

Legend: T tasks, N points, M new points, D input dimensions, P parameters (the noise variance last), Q regressors.
"""

import functools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from .model import posterior, sgpr
from .model.kernels import CustomKernel, Kernel
from .model.tasks import TaskBatch, Units, regressors


@dataclass(frozen=True, slots=True)
class Posterior:
    """What fitted processes say of tasks.

    Attributes:
        kernel, mean: what was fitted.
        inducing: inducing points of each task; 0 is exact.
        backend: "fused" (kernels of one lane per task), "matrices" (whole matrices on a GPU), or "torch".
    """

    kernel: Kernel | CustomKernel
    mean: str
    inducing: int
    backend: str

    def predict(
        self, tasks: TaskBatch, units: Units, theta_TP: Tensor, beta_TQ: Tensor, new_TMD: Tensor
    ) -> tuple[Float[Tensor, "T M"], Float[Tensor, "T M"]]:
        """Mean and variance of the function at new points. All but the new points are in the tasks' units."""
        kernel = self.kernel
        if self.inducing or isinstance(kernel, CustomKernel) or self.backend == "torch":
            plain = functools.partial(sgpr.predict, most=self.inducing) if self.inducing else posterior.predict
            return plain(kernel, tasks, theta_TP, beta_TQ, units.inputs(new_TMD), self.mean)
        if self.backend == "matrices":
            from .gpu import matrix_posterior

            return matrix_posterior.predict(kernel, tasks, theta_TP, beta_TQ, units.inputs(new_TMD), self.mean)
        from .gpu import predict

        mean_TM, variance_TM, own_TQ, good_T = predict.predict(kernel, tasks, units, theta_TP, new_TMD)
        own_TQ = torch.where(good_T[:, None], own_TQ, beta_TQ)
        mean_TM.masked_fill_(~good_T[:, None], 0.0)  # in place, here and below: this is most of a batch's memory
        if self.mean == "constant":
            mean_TM += own_TQ
        elif self.mean == "linear":
            columns_TMQ = regressors(units.inputs(new_TMD), self.mean)
            for column_TM, own_T in zip(columns_TMQ.unbind(2), own_TQ.unbind(1), strict=True):
                mean_TM.addcmul_(column_TM, own_T[:, None])
        return mean_TM, variance_TM.clamp_(min=0).masked_fill_(~good_T[:, None], torch.nan)

    def leave_one_out(
        self, tasks: TaskBatch, theta_TP: Tensor
    ) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"], Float[Tensor, "T N"]]:
        """Mean, variance and log density of each point without itself, in the tasks' units."""
        kernel = self.kernel
        if self.inducing or isinstance(kernel, CustomKernel) or self.backend == "torch":
            plain = functools.partial(sgpr.leave_one_out, most=self.inducing) if self.inducing else None
            return (plain or posterior.leave_one_out)(kernel, tasks, theta_TP)
        from .gpu import leave_one_out

        return leave_one_out.leave_one_out(kernel, tasks, theta_TP)
