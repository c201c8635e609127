"""Losses of logits over ordered categories, as a sum and a weight.

Legend: B students, S steps, K categories.

A loss is a pair: the sum over real steps, and how many there were. Sums and counts add up over micro-batches and ranks,
so the mean of a whole batch, and its gradient, are the same however it is split. Everything is computed in float32 at
least, from log-probabilities, and padding (a response of -1, or a step beyond the length) is masked before anything is
computed, so that even a NaN there has no effect.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...core.base.errors import ConfigError
from ...engine.train.step.loss import Weighted
from .deep_gpcm import at_least_float32


def class_weights(counts_K: Int[Tensor, " K"]) -> Float[Tensor, " K"]:
    """sqrt(N / (K c)) for a category given c times out of N in training, padding not counted.

    A category that never occurs has the weight of the rarest that does: in training it has no answers to weigh, and in
    validation a single answer should not outweigh all others.
    """
    counts_K = counts_K.double()
    seen_K = counts_K > 0
    rarest = torch.where(seen_K, counts_K, counts_K.sum().clamp(min=1)).min()
    counts_K = torch.where(seen_K, counts_K, rarest)
    total = torch.where(seen_K, counts_K, 0).sum().clamp(min=1)
    return torch.sqrt(total / (len(counts_K) * counts_K)).float()


def cross_entropy(logits_TK: Tensor, response_T: Tensor) -> Tensor:
    """-log p(answer), of each step."""
    log_p_TK = torch.log_softmax(at_least_float32(logits_TK), dim=1)
    return -log_p_TK.gather(1, response_T[:, None])[:, 0]


def focal(logits_TK: Tensor, response_T: Tensor, gamma: float = 2.0) -> Tensor:
    """-(1 - p)^gamma log p: well-predicted answers have little weight."""
    log_p_T = -cross_entropy(logits_TK, response_T)
    return -((-torch.expm1(log_p_T)).clamp(min=0) ** gamma) * log_p_T


def ordinal(
    logits_TK: Tensor, response_T: Tensor, weight_K: Float[Tensor, " K"] | None = None, distance: float = 0.5
) -> Tensor:
    """w_y (1 + distance |y - yhat|) (-log p): the loss grows with the distance of the prediction yhat."""
    off_T = (logits_TK.argmax(1) - response_T).abs()
    loss_T = (1 + distance * off_T) * cross_entropy(logits_TK, response_T)
    return loss_T if weight_K is None else loss_T * weight_K.to(loss_T)[response_T]


def cumulative(logits_TK: Tensor, response_T: Tensor) -> Tensor:
    """The log-losses of "more than c", summed over the K-1 thresholds c."""
    log_p_TK = torch.log_softmax(at_least_float32(logits_TK), dim=1)
    upto_TH = torch.logcumsumexp(log_p_TK, dim=1)[:, :-1]
    above_TH = torch.logcumsumexp(log_p_TK.flip(1), dim=1).flip(1)[:, 1:]
    threshold_H = torch.arange(logits_TK.shape[1] - 1, device=logits_TK.device)
    # A sum of all but the last can round to just over 1.
    return -torch.where(response_T[:, None] > threshold_H, above_TH, upto_TH).clamp(max=0).sum(1)


def soft_kappa(table_KK: Float[Tensor, "K K"]) -> Float[Tensor, ""]:
    """The quadratic weighted kappa of a table of answers (rows) and predictions (columns) in which probabilities stand
    for predictions; differentiable, and 0 where it is undefined."""
    category_K = torch.arange(len(table_KK), dtype=table_KK.dtype, device=table_KK.device)
    distance_KK = (category_K[:, None] - category_K).square()
    chance = (distance_KK * table_KK.sum(1)[:, None] * table_KK.sum(0)).sum()
    observed = (distance_KK * table_KK).sum() * table_KK.sum()
    return torch.where(chance > 0, 1 - observed / torch.where(chance > 0, chance, 1.0), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """A loss of logits.

    Attributes:
        name: one of `LOSSES`: "combined" is half focal and half ordinal; "kappa" is 1 - soft kappa of the batch, times
            its steps, so with it the size of the micro-batches matters.
        weight_K: class weights, for the ordinal loss.
        gamma: of the focal loss.
    """

    name: str = "cross_entropy"
    weight_K: Tensor | None = None
    gamma: float = 2.0

    def __post_init__(self) -> None:
        if self.name not in LOSSES:
            raise ConfigError(f"loss is {self.name!r}; choose one of {', '.join(LOSSES)}")
        if self.gamma < 0:
            raise ConfigError(f"gamma is {self.gamma}; give 0 or more")

    def __call__(
        self,
        logits_BSK: Float[Tensor, "B S K"],
        response_BS: Int[Tensor, "B S"],
        length_B: Int[Tensor, " B"] | None = None,
    ) -> Weighted:
        """The sum over the real steps of a batch, and their number."""
        real_BS = response_BS >= 0
        if length_B is not None:
            real_BS &= torch.arange(response_BS.shape[1], device=response_BS.device) < length_B[:, None]
        count = real_BS.sum()
        # Padding is masked rather than removed, which would wait for the device.
        logits_TK = torch.where(real_BS[..., None], at_least_float32(logits_BSK), 0.0).flatten(0, 1)
        response_T, real_T = torch.where(real_BS, response_BS, 0).flatten(), real_BS.flatten()
        if self.name == "kappa":
            p_TK = torch.softmax(logits_TK, dim=1) * real_T[:, None]
            hot_TK = torch.nn.functional.one_hot(response_T, logits_TK.shape[1]).to(p_TK)
            return Weighted((1 - soft_kappa(hot_TK.mT @ p_TK)) * count, count.to(p_TK))
        loss_T = torch.where(real_T, LOSSES[self.name](self, logits_TK, response_T), 0.0)
        return Weighted(loss_T.sum(), count.to(loss_T))


LOSSES: dict[str, Callable[[Loss, Tensor, Tensor], Tensor]] = {
    "combined": lambda loss, logits, response: (
        0.5 * focal(logits, response, loss.gamma) + 0.5 * ordinal(logits, response, loss.weight_K)
    ),
    "cross_entropy": lambda loss, logits, response: cross_entropy(logits, response),
    "focal": lambda loss, logits, response: focal(logits, response, loss.gamma),
    "ordinal": lambda loss, logits, response: ordinal(logits, response, loss.weight_K),
    "cumulative": lambda loss, logits, response: cumulative(logits, response),
    "kappa": lambda loss, logits, response: cross_entropy(logits, response),
}
"""The loss of each step; kappa is not a sum over steps, and `Loss` computes it itself."""
