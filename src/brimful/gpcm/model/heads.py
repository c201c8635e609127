"""Heads: ability, discrimination and thresholds from the hidden state and the question's key.

Legend: B students, S steps, Q questions, H = K-1 thresholds, F hidden size, d_k key size.

    theta = scale * linear(f)                          ability, from what was read of the memory
    alpha = exp(0.3 linear[f; k])  or  softplus(.)     discrimination; of=question leaves f out
    beta  = linear(k), made ascending: beta_0, then beta_j = beta_{j-1} + softplus(.)

Linear maps of [f; k] are split into a part of f and a part of k; the latter is one number per question, from a table.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

ALPHAS, ALPHA_OF, BETAS = ("exp", "softplus"), ("both", "question"), ("monotone", "free")

_RATE = 0.3
_ONE = math.log(math.e - 1)  # softplus of this is 1


class Heads(nn.Module):
    """The three heads."""

    def __init__(
        self, hidden: int, key: int, categories: int, *, scale: float, alpha: str, alpha_of: str, beta: str
    ) -> None:
        super().__init__()
        self.scale, self.kind, self.of, self.order = scale, alpha, alpha_of, beta
        self.hidden = hidden
        self.ability = nn.Linear(hidden, 1)
        self.discrimination = nn.Linear(key + (hidden if alpha_of == "both" else 0), 1)
        self.thresholds = nn.Linear(key, categories - 1)
        with torch.no_grad():
            # Questions begin alike: discrimination 1, thresholds about 0 and apart.
            for layer in (self.ability, self.discrimination, self.thresholds):
                layer.bias.zero_()
            self.discrimination.bias.fill_(_ONE if alpha == "softplus" else 0.0)
            if beta == "monotone":
                self.thresholds.bias[0] = -math.log(2) * (categories - 2) / 2
            else:
                self.thresholds.bias.copy_(math.log(2) * (torch.arange(categories - 1) - (categories - 2) / 2))

    def theta(self, f_F: Float[Tensor, "*A F"]) -> Float[Tensor, "*A"]:
        """Ability."""
        return self.scale * self.ability(f_F)[..., 0]

    def alpha_part(self, key_dk: Float[Tensor, "*A d_k"]) -> Float[Tensor, "*A"]:
        """The question's part of the discrimination, before it is made positive."""
        weight = self.discrimination.weight[:, self.hidden :] if self.of == "both" else self.discrimination.weight
        return functional.linear(key_dk, weight, self.discrimination.bias)[..., 0]

    def alpha(self, f_F: Float[Tensor, "*A F"], part: Float[Tensor, "*A"]) -> Float[Tensor, "*A"]:
        """Discrimination, from the hidden state and the question's part."""
        if self.of == "both":
            part = part + functional.linear(f_F, self.discrimination.weight[:, : self.hidden])[..., 0]
        return torch.exp(_RATE * part) if self.kind == "exp" else functional.softplus(part)

    def beta(self, key_dk: Float[Tensor, "*A d_k"]) -> Float[Tensor, "*A H"]:
        """Thresholds."""
        raw = self.thresholds(key_dk)
        if self.order == "free":
            return raw
        return torch.cat([raw[..., :1], functional.softplus(raw[..., 1:])], dim=-1).cumsum(-1)
