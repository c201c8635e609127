"""The shapes that annotations name are checked while the tests run."""

import pytest
import torch
from jaxtyping import TypeCheckError

from brimful import Weighted
from brimful.gpcm.model.partial_credit import logits

pytest.importorskip("beartype")


def test_a_tensor_of_another_shape_is_refused():
    assert logits(torch.ones(5), torch.ones(5), torch.ones(5, 3)).shape == (5, 4)
    with pytest.raises(TypeCheckError):
        logits(torch.ones(5), torch.ones(4), torch.ones(5, 3))


def test_a_result_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError):
        Weighted(torch.ones(3), torch.tensor(1.0))
