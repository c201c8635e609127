"""The online softmax: its running state, the exact merge of another chunk into it, and the gradient of a chunk.

B samples, k components of a chunk, V entries of a value. With a the logits and v the values of all components so far,
a sample's state is m = max a, Z = sum exp(a - m) and S = sum exp(a - m) v: the log-sum-exp is m + log Z, and the mean
S / Z. A new chunk may bring a larger m; what is there is then scaled down by exp(m - m'), which never overflows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxState:
    """The running maximum and sums of every sample, changed in place; in single precision at least.

    Attributes:
        dtype: that of the term, for what is given to the user.
    """

    m_B: Tensor
    Z_B: Tensor
    S_BV: Tensor
    dtype: torch.dtype

    @classmethod
    def empty(cls, samples: int, width: int, like: Tensor) -> "SoftmaxState":
        """The state before the first component: a log-sum-exp of -inf."""
        options = {"dtype": at_least_single(like.dtype), "device": like.device}
        return cls(
            torch.full((samples,), -torch.inf, **options),
            torch.zeros(samples, **options),
            torch.zeros(samples, width, **options),
            like.dtype,
        )

    def merge(self, rows: slice, logit_Bk: Tensor, value_BkV: Tensor) -> None:
        """Adds a chunk's components to some of the samples. Nothing is changed before all of it is computed."""
        if not logit_Bk.numel():
            return
        m_B, Z_B, S_BV = self.m_B[rows], self.Z_B[rows], self.S_BV[rows]
        with _without_autocast(m_B):
            logit_Bk = logit_Bk.to(m_B.dtype)
            top_B = torch.maximum(m_B, logit_Bk.amax(1))
            base_B = _shift(top_B)
            old_B = torch.exp(m_B - base_B)
            p_Bk = torch.exp(logit_Bk - base_B[:, None])
            sum_B = p_Bk.sum(1)
            sum_BV = torch.bmm(p_Bk[:, None, :], value_BkV.to(m_B.dtype))[:, 0]
            m_B.copy_(top_B)
            Z_B.mul_(old_B).add_(sum_B)
            S_BV.mul_(old_B[:, None]).add_(sum_BV)

    def rescale(self, top_B: Tensor) -> None:
        """The same state in terms of a larger maximum, as found over all ranks."""
        old_B = torch.exp(self.m_B - _shift(top_B))
        self.m_B.copy_(top_B)
        self.Z_B.mul_(old_B)
        self.S_BV.mul_(old_B[:, None])

    def result(self) -> tuple[Tensor, Tensor]:
        """The log-sum-exp and the mean: -inf and 0 for a sample to which no component adds anything."""
        return self.m_B + self.Z_B.log(), self.S_BV / _divisor(self.Z_B)[:, None]


def softmax_mean(logit_Bk: Tensor, value_BkV: Tensor) -> tuple[Tensor, Tensor]:
    """The log-sum-exp and the softmax-weighted mean of all components at once, in plain, differentiable operations."""
    wide = at_least_single(logit_Bk.dtype)
    logit, value = logit_Bk.to(wide), value_BkV.to(wide)
    with _without_autocast(logit):
        top_B = logit.detach().amax(1) if logit.shape[1] else logit.new_full((len(logit),), -torch.inf)
        p_Bk = torch.exp(logit - _shift(top_B)[:, None])
        Z_B = p_Bk.sum(1)
        lse_B = torch.where(Z_B == 0, -torch.inf, top_B + _divisor(Z_B).log())
        mean_BV = torch.bmm(p_Bk[:, None, :], value)[:, 0] / _divisor(Z_B)[:, None]
    return lse_B.to(logit_Bk.dtype), mean_BV.to(logit_Bk.dtype)


def softmax_vjp(
    logit_Bk: Tensor,
    value_BkV: Tensor,
    lse_B: Tensor,
    mean_BV: Tensor,
    grad_lse_B: Tensor | None,
    grad_mean_BV: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """The gradient with respect to a chunk's logits and values, from that with respect to the fold's results: with
    w = exp(a - lse): grad_v = w grad_mean and grad_a = w (grad_lse + (v - mean) . grad_mean)."""
    dtype, logit_Bk, value_BkV = logit_Bk.dtype, logit_Bk.to(lse_B.dtype), value_BkV.to(lse_B.dtype)
    with _without_autocast(lse_B):
        w_Bk = torch.exp(logit_Bk - _shift(lse_B)[:, None])
        if grad_mean_BV is None:
            return (w_Bk * (0 if grad_lse_B is None else grad_lse_B[:, None])).to(dtype), None
        grad_mean_BV = grad_mean_BV.to(lse_B.dtype)
        grad_logit_Bk = torch.bmm(value_BkV, grad_mean_BV[:, :, None])[:, :, 0]
        grad_logit_Bk -= (mean_BV * grad_mean_BV).sum(1, keepdim=True)
        if grad_lse_B is not None:
            grad_logit_Bk += grad_lse_B[:, None]
        return grad_logit_Bk.mul_(w_Bk).to(dtype), (w_Bk[:, :, None] * grad_mean_BV[:, None, :]).to(dtype)


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums are kept in."""
    return torch.promote_types(dtype, torch.float32)


def _without_autocast(tensor: Tensor) -> torch.autocast:
    """Outside automatic precision, which would multiply in less than what sums are kept in."""
    return torch.autocast(tensor.device.type, enabled=False)


def _shift(top_B: Tensor) -> Tensor:
    """The maximum, or 0 where it is -inf: -inf less -inf would be NaN."""
    return torch.where(top_B == -torch.inf, 0.0, top_B)


def _divisor(Z_B: Tensor) -> Tensor:
    """Z, or 1 where nothing was added."""
    return torch.where(Z_B == 0, 1.0, Z_B)
