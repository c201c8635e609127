"""What `fold` is given: of some centers and samples, the logits and the values whose weighted mean is wanted.

Legend: k centers of a chunk, B samples, d dimensions, P = d (d + 1) / 2, H hidden features.

With r = x - c, u = P r and tau = tr P, the logit is 0.5 logdet P - 0.5 r.u and the value (-u, |u|^2 - tau). Weighted by
the softmax of the logits, the first d numbers are the score s, and twice the last less |s|^2 is the loss (docs/wpo.md).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...core.memory.cost import Cost
from . import packed_triangle
from .factors import Factor, slope
from .network import Network
from .triangular import Triangular
from .vjp import Products, value

Pull = Callable[[Tensor, Tensor], tuple[Any, Any]]


class Term(nn.Module):
    """The term of any factor, differentiated by autograd."""

    def __init__(self, network: Network, factor: Factor) -> None:
        super().__init__()
        self.network, self.factor = network, factor

    def forward(self, c_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        shaped_kO = self.factor.shape(self.network(c_kd))
        a_kB, u_kBd, tau_k = self.factor.parts(shaped_kO, _differences(c_kd, x_Bd))
        return a_kB.mT, value(u_kBd, tau_k).transpose(0, 1)


class Noisy(nn.Module):
    """The term of the mixture blurred by noise: covariances P^-1 + C with a diagonal C. Its value is -u alone."""

    def __init__(self, network: Network, factor: Factor, c_d: Tensor) -> None:
        super().__init__()
        self.network, self.factor, self.c_d = network, factor, c_d

    def cost(self, samples: int, dtype: torch.dtype) -> Cost:
        """Bytes by the number of centers, for `fold`: a generous formula, since a term like this is used once."""
        square = self.factor.d**2 if isinstance(self.factor, Triangular) else self.factor.outputs
        return Cost(0, (8 * square + 16 * samples * self.factor.d) * dtype.itemsize)

    def forward(self, c_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        shaped_kO = self.factor.shape(self.network(c_kd))
        a_kB, u_kBd = self.factor.noisy(shaped_kO, _differences(c_kd, x_Bd), self.c_d)
        return a_kB.mT, -u_kBd.transpose(0, 1)


class TriangleTerm(Term):
    """The term of full triangles, with a backward pass of its own: beside the last layer and its gradient it holds one
    packed triangle a center, which the gradient of the triangle takes over."""

    factor: Triangular  # pyright: ignore[reportIncompatibleVariableOverride]

    def forward(self, c_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            return super().forward(c_kd, x_Bd)
        packed_kP, _ = self._packed(self.network.features(c_kd))  # in place: the other form has every triangle twice
        found = Products.of(packed_kP, _differences(c_kd, x_Bd))
        return found.logits.mT, found.values.transpose(0, 1)

    def vjp(self, c_kd: Tensor, x_Bd: Tensor, grads: dict[Tensor, Tensor]) -> tuple[Tensor, Tensor, Pull]:
        """Logits, values, and what pulls their gradients back; `fold` calls it in its backward pass.

        Args:
            grads: from each parameter that is trained to the buffer that `pull` adds to.
        """
        wants_c, wants_x = c_kd.requires_grad, x_Bd.requires_grad
        with torch.enable_grad():
            own_kd = c_kd.detach().requires_grad_(wants_c)
            h_kH = self.network.features(own_kd)
        packed_kP, slope_kd = self._packed(h_kH.detach())
        found = Products.of(packed_kP, _differences(c_kd.detach(), x_Bd.detach()))
        where = packed_triangle.diagonal(self.factor.d, packed_kP.device)

        def pull(abar_Bk: Tensor, vbar_BkV: Tensor) -> tuple[Tensor | None, Tensor | None]:
            # The triangles are not needed again: their gradient takes their place.
            gradient_kP, rbar_kBd = found.pull(
                abar_Bk.mT, vbar_BkV.transpose(0, 1), wants_c or wants_x, into_kP=packed_kP
            )
            gradient_kP.index_copy_(1, where, gradient_kP.index_select(1, where) * slope_kd)
            cbar_kd = self._backward(gradient_kP, own_kd, h_kH, grads)
            if rbar_kBd is None:
                return None, None
            if cbar_kd is not None:
                cbar_kd = cbar_kd - rbar_kBd.sum(1)
            return cbar_kd, rbar_kBd.sum(0) if wants_x else None

        return found.logits.mT, found.values.transpose(0, 1), pull

    def _packed(self, h_kH: Tensor) -> tuple[Tensor, Tensor]:
        """The triangles, and the slope of what makes their diagonal positive."""
        packed_kP = self.network.last(h_kH)
        where = packed_triangle.diagonal(self.factor.d, packed_kP.device)
        raw_kd = packed_kP.index_select(1, where)
        packed_kP.index_copy_(1, where, self.factor.positive(raw_kd))
        return packed_kP, slope(raw_kd, self.factor.floor)

    def _backward(self, gradient_kP: Tensor, c_kd: Tensor, h_kH: Tensor, grads: dict[Tensor, Tensor]) -> Tensor | None:
        """Through the network. All that is allocated is there before the first buffer is added to."""
        weight, bias = self.network.last.weight, self.network.last.bias
        small = [each for each in self.network.body.parameters() if each in grads]
        of = [*small, c_kd] if c_kd.requires_grad else small
        hbar_kH = gradient_kP @ weight
        found = list(torch.autograd.grad(h_kH, of, hbar_kH)) if of else []
        column_P = gradient_kP.sum(0) if bias in grads else None
        if weight in grads:
            grads[weight].addmm_(gradient_kP.mT, h_kH)
        if column_P is not None:
            grads[bias].add_(column_P)
        for each, more in zip(small, found, strict=False):
            grads[each].add_(more)
        return found[-1] if c_kd.requires_grad else None


def _differences(c_kd: Tensor, x_Bd: Tensor) -> Tensor:
    return x_Bd[None] - c_kd[:, None]
