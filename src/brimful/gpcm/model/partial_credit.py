"""The generalized partial credit model: how likely each category is, given ability, discrimination and thresholds.

Legend: K categories, H = K-1 thresholds.

Category c has logit sum over h < c of alpha (theta - beta_h), so category 0 has logit 0.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def logits(
    theta: Float[Tensor, "*A"], alpha: Float[Tensor, "*A"], beta_H: Float[Tensor, "*A H"]
) -> Float[Tensor, "*A K"]:
    """The categories' logits, for parameters with any axes before the thresholds'."""
    step = torch.arange(beta_H.shape[-1] + 1, dtype=theta.dtype, device=theta.device)
    sums = torch.nn.functional.pad(beta_H.cumsum(-1), (1, 0))
    return alpha[..., None] * (theta[..., None] * step - sums)


def probabilities(theta: np.ndarray, alpha: np.ndarray, beta_H: np.ndarray) -> np.ndarray:
    """The same as probabilities, in numpy; axes before the thresholds' are broadcast."""
    step = np.arange(beta_H.shape[-1] + 1)
    sums = np.concatenate([np.zeros_like(beta_H[..., :1]), np.cumsum(beta_H, -1)], -1)
    logit = alpha[..., None] * (theta[..., None] * step - sums)
    logit -= logit.max(-1, keepdims=True)
    np.exp(logit, out=logit)
    return logit / logit.sum(-1, keepdims=True)
