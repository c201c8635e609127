"""The terms that `fold` is given: the logits of some centers and samples, and the values to average.

Legend: k centers of a chunk, B samples, d dimensions, P = d (d + 1) / 2, H hidden features.

With r = x - c, u = P r and tau = tr P, the logit is 0.5 logdet P - 0.5 r.u and the value (-u, |u|^2 - tau). In the mean
weighted by the softmax of the logits the first d numbers are the score s, and twice the last minus |s|^2 is the loss
(docs/wpo.md).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...core.memory.cost import Cost
from .network import Factor, Network
from .packed_triangle import diagonal_indices
from .positive import positive, positive_derivative
from .triangular import TriangleProducts, Triangular, score_values


class MixtureTerm(nn.Module):
    """The term for any factor, differentiated by autograd."""

    def __init__(self, network: Network, factor: Factor) -> None:
        super().__init__()
        self.network, self.factor = network, factor

    def forward(self, c_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        factor_kO = self.factor.constrain(self.network(c_kd))
        logit_kB, u_kBd, tau_k = self.factor.evaluate(factor_kO, _differences(c_kd, x_Bd))
        return logit_kB.mT, score_values(u_kBd, tau_k).transpose(0, 1)


class NoisyMixtureTerm(MixtureTerm):
    """The term of the mixture with noise added: covariances P^-1 + C with C diagonal. Its value is -u alone."""

    def __init__(self, network: Network, factor: Factor, c_d: Tensor) -> None:
        super().__init__(network, factor)
        self.c_d = c_d

    def cost(self, samples: int, dtype: torch.dtype) -> Cost:
        """Bytes by the number of centers, for `fold`: a generous formula, since such a term is used once."""
        entries = self.factor.d**2 if isinstance(self.factor, Triangular) else self.factor.out_features
        return Cost(0, (8 * entries + 16 * samples * self.factor.d) * dtype.itemsize)

    def forward(self, c_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        factor_kO = self.factor.constrain(self.network(c_kd))
        logit_kB, u_kBd = self.factor.evaluate_noisy(factor_kO, _differences(c_kd, x_Bd), self.c_d)
        return logit_kB.mT, -u_kBd.transpose(0, 1)


class TriangularMixtureTerm(MixtureTerm):
    """The term for full triangles, with a backward pass of its own: beside the last layer and its gradient it holds one
    packed triangle per center, which the gradient of the triangle overwrites."""

    factor: Triangular  # pyright: ignore[reportIncompatibleVariableOverride]

    def forward(self, c_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled():
            return self.plain(c_kd, x_Bd)
        packed_kP, _ = self._triangles(self.network.features(c_kd))  # in place: `constrain` would copy every triangle
        return TriangleProducts.compute(packed_kP, _differences(c_kd, x_Bd)).outputs()

    def plain(self, c_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        """The same in operations that autograd can differentiate; `fold` calls it for second derivatives."""
        return super().forward(c_kd, x_Bd)

    def vjp(self, c_kd: Tensor, x_Bd: Tensor, grads: dict[Tensor, Tensor]) -> tuple[Tensor, Tensor, Callable[..., Any]]:
        """Logits, values, and the function from their gradients to those of centers and samples; `fold` calls it in its
        backward pass.

        Args:
            grads: from each trained parameter to the buffer that its gradient is added to.
        """
        needs_c, needs_x = c_kd.requires_grad, x_Bd.requires_grad
        with torch.enable_grad():
            input_kd = c_kd.detach().requires_grad_(needs_c)
            h_kH = self.network.features(input_kd)
        packed_kP, derivative_kd = self._triangles(h_kH.detach())
        products = TriangleProducts.compute(packed_kP, _differences(c_kd.detach(), x_Bd.detach()))
        diagonal = diagonal_indices(self.factor.d, packed_kP.device)

        def vjp_fn(grad_logit_Bk: Tensor, grad_value_BkV: Tensor) -> tuple[Tensor | None, Tensor | None]:
            # The triangles are not needed again: their gradient takes their memory.
            grad_kP, grad_r_kBd = products.vjp(grad_logit_Bk, grad_value_BkV, needs_c or needs_x, overwrite=True)
            grad_kP.index_copy_(1, diagonal, grad_kP.index_select(1, diagonal) * derivative_kd)
            grad_c_kd = self._backward(grad_kP, input_kd, h_kH, grads)
            if grad_r_kBd is None:
                return None, None
            if grad_c_kd is not None:
                grad_c_kd = grad_c_kd - grad_r_kBd.sum(1)
            return grad_c_kd, grad_r_kBd.sum(0) if needs_x else None

        return *products.outputs(), vjp_fn

    def _triangles(self, h_kH: Tensor) -> tuple[Tensor, Tensor]:
        """The triangles, and the derivative of the map that makes their diagonal positive."""
        packed_kP = self.network.last(h_kH)
        diagonal = diagonal_indices(self.factor.d, packed_kP.device)
        raw_kd = packed_kP.index_select(1, diagonal)
        packed_kP.index_copy_(1, diagonal, positive(raw_kd, self.factor.floor))
        return packed_kP, positive_derivative(raw_kd, self.factor.floor)

    def _backward(self, grad_kP: Tensor, c_kd: Tensor, h_kH: Tensor, grads: dict[Tensor, Tensor]) -> Tensor | None:
        """Through the network. All memory is allocated before the first buffer is added to."""
        weight, bias = self.network.last.weight, self.network.last.bias
        parameters = [parameter for parameter in self.network.body.parameters() if parameter in grads]
        inputs = [*parameters, c_kd] if c_kd.requires_grad else parameters
        grad_h_kH = grad_kP @ weight
        grad_inputs = list(torch.autograd.grad(h_kH, inputs, grad_h_kH)) if inputs else []
        grad_bias_P = grad_kP.sum(0) if bias in grads else None
        if weight in grads:
            grads[weight].addmm_(grad_kP.mT, h_kH)
        if grad_bias_P is not None:
            grads[bias].add_(grad_bias_P)
        for parameter, gradient in zip(parameters, grad_inputs, strict=False):
            grads[parameter].add_(gradient)
        return grad_inputs[-1] if c_kd.requires_grad else None


def _differences(c_kd: Tensor, x_Bd: Tensor) -> Tensor:
    return x_Bd[None] - c_kd[:, None]
