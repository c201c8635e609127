"""What is written to the memory after an answer: a vector for each (question, response), by one of four embeddings.

Legend: Q questions (the unknown one included), K categories, C components, D value size, R rows of a table.

The usual definition makes, of a question and a response, a vector of C x Q numbers that is zero but for the question's
C components, and multiplies it with a weight matrix. So the product is a mix of C rows of that matrix, with weights
that depend on the response alone: the table `mix_KC` below. The long vector is never built; `stepwise.py`, the
reference, does so.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from ...core.base.errors import ConfigError

EMBEDDINGS = ("linear_decay", "unordered", "ordered", "adjacent")


def mixing_weights(embedding: str, categories: int) -> Float[Tensor, "K C"]:
    """The weights of the components, by response.

    linear_decay: max(0, 1 - |c - r| / (K-1)) for each category c; unordered: 1 where c = r; ordered: two components,
    1 where r > 0, and r / (K-1); adjacent: 1 where c = r, 0.5 for its neighbors.

    Example:
        >>> mixing_weights("adjacent", 4)[1].tolist()
        [0.5, 1.0, 0.5, 0.0]
    """
    category_K = torch.arange(categories, dtype=torch.float64)
    distance_KK = (category_K[:, None] - category_K).abs()
    match embedding:
        case "linear_decay":
            return 1 - distance_KK / (categories - 1)
        case "unordered":
            return (distance_KK == 0).double()
        case "ordered":
            return torch.stack([(category_K > 0).double(), category_K / (categories - 1)], dim=1)
        case "adjacent":
            return (distance_KK == 0).double() + 0.5 * (distance_KK == 1).double()
    raise ConfigError(f"embedding is {embedding!r}; choose one of {', '.join(EMBEDDINGS)}")


def all_rows(weight_QCD: Float[Tensor, "Q C D"], mix_KC: Float[Tensor, "K C"]) -> Float[Tensor, "R D"]:
    """The vectors of all questions and responses; row question * K + response."""
    return (mix_KC @ weight_QCD).flatten(0, 1)


def some_rows(
    weight_QCD: Float[Tensor, "Q C D"], mix_KC: Float[Tensor, "K C"], row_R: Int[Tensor, " R"]
) -> Float[Tensor, "R D"]:
    """The vectors of some of those rows only."""
    Q, C, D = weight_QCD.shape
    question_R, response_R = row_R.div(len(mix_KC), rounding_mode="floor"), row_R % len(mix_KC)
    weight_RCD = functional.embedding(question_R, weight_QCD.reshape(Q, C * D)).view(-1, C, D)
    return (mix_KC[response_R][:, None, :] @ weight_RCD)[:, 0]
