"""What an optimizer of the user's keeps, before it is made."""

import pytest
import torch
from torch import nn

from brimful.engine.train.optim.optimizers import state_bytes

NUMBERS = 6 * 5 + 5


def _parameters() -> list[nn.Parameter]:
    return list(nn.Linear(6, 5).parameters())


@pytest.mark.parametrize(
    ("make", "per_number"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), 0),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 4),
        (lambda p: torch.optim.RMSprop(p, lr=0.1), 4),
        (lambda p: torch.optim.AdamW(p, lr=0.1), 8),
        (lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True), 12),
    ],
)
def test_state_is_known_without_making_it(make, per_number):
    assert 0 <= state_bytes(_parameters(), make) - per_number * NUMBERS <= 8  # a step count for each parameter


def test_an_optimizer_of_other_parameters_is_taken_for_adam_and_left_alone():
    parameters = _parameters()
    before = [parameter.detach().clone() for parameter in parameters]
    assert state_bytes(parameters, lambda p: torch.optim.SGD(parameters, lr=0.1)) == state_bytes(parameters)
    assert all(torch.equal(a, b) for a, b in zip(before, parameters, strict=True))


def test_an_optimizer_that_cannot_be_made_without_memory_is_taken_for_adam():
    def makes_numbers(parameters):
        return torch.optim.SGD(parameters, lr=float(next(iter(parameters)).sum()))

    assert state_bytes(_parameters(), makes_numbers) == state_bytes(_parameters())
