"""`fold` on a CUDA device: the CPU's numbers, inside the budget, and memory that really runs out."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from brimful import BrimfulWarning, BudgetError, fold
from brimful.engine.fold import plan_fold

from .folding import Bumps, direct, gradients, points, same

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("clean_device")]
MB = 10**6


def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    r_Bkd = x[:, None] - chunk
    return -0.5 * r_Bkd.square().sum(-1), r_Bkd


def wide(components: int = 4000, samples: int = 128, width: int = 64) -> list[Tensor]:
    """With differences of 131 MB in all, and some ten times that to keep or to pull back."""
    torch.manual_seed(0)
    return [torch.randn(count, width, device="cuda").requires_grad_() for count in (components, samples)]


@pytest.mark.parametrize("strategy", ["single", "chunked", "gradient_accumulation", "auto"])
def test_the_numbers_are_the_cpus(strategy: str):
    bumps, (c, x) = Bumps(), points()
    whole = direct(bumps, c, x, [c, x, *bumps.parameters()])
    there = Bumps().cuda()
    c, x = (each.detach().cuda().requires_grad_() for each in (c, x))
    lse, mean, found = gradients(there, c, x, [c, x, *there.parameters()], strategy=strategy)
    same((lse.cpu(), mean.cpu(), [each.cpu() for each in found]), whole)


@pytest.mark.parametrize("budget", [100 * MB, 300 * MB, 3000 * MB])
@pytest.mark.parametrize("strategy", ["auto", "chunked"])
def test_the_peak_is_never_above_the_budget(budget: int, strategy: str):
    c, x = wide()
    torch.cuda.reset_peak_memory_stats()
    plan = plan_fold(term, c, x, strategy=strategy, budget=budget)
    assert plan.predicted <= budget == plan.budget
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrimfulWarning)  # a chunk may be done again in smaller ones
        lse, mean = fold(term, c, x, strategy=strategy, budget=budget)
        (lse.sum() + mean.sum()).backward()
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_reserved() <= budget


def test_the_prediction_is_near_the_peak():
    c, x = wide(20_000)
    plan = plan_fold(term, c, x, strategy="chunked", budget=1000 * MB)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    lse, mean = fold(term, c, x, strategy="chunked", budget=1000 * MB)
    (lse.sum() + mean.sum()).backward()
    torch.cuda.synchronize()
    assert plan.predicted == pytest.approx(torch.cuda.max_memory_allocated(), rel=0.15)


def test_a_chunk_too_large_is_done_again_in_smaller_ones():
    c, x = wide()
    free = fold(term, c, x, strategy="chunked", chunk_size=100)
    whole = torch.autograd.grad(free[0].sum() + free[1].sum(), [c, x])
    with pytest.warns(BrimfulWarning, match="out of memory"):
        lse, mean = tight = _within(150 * MB, lambda: fold(term, c, x, strategy="chunked", chunk_size=4000))
        found = _within(150 * MB, lambda: torch.autograd.grad(lse.sum() + mean.sum(), [c, x]))
    for one, other in zip((*tight, *found), (*free, *whole), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_gradients_that_do_not_fit_are_a_matter_of_the_budget():
    c, x = wide(400_000)  # 102 MB, and as much for its gradient
    limit = torch.cuda.memory_allocated() + 80 * MB
    lse, _ = _within(limit, lambda: fold(term, c, x, strategy="chunked", chunk_size=100))
    with pytest.raises(BudgetError, match="gradient of a fold, whatever the chunk, does not fit"):
        _within(limit, lambda: torch.autograd.grad(lse.sum(), [c]))


def test_a_trial_of_which_only_the_smallest_fits():
    c, x = wide(8, 1, width=4_000_000)  # 16 MB a component, and some six times that to pull it back
    limit = torch.cuda.memory_allocated() + 300 * MB
    assert _within(limit, lambda: plan_fold(term, c.detach(), x, strategy="chunked")).batch >= 1


def _within(limit: int, work: Callable[[], Any]) -> Any:
    """Does something while the allocator refuses more than so many bytes."""
    torch.cuda.empty_cache()
    before = torch.cuda.get_per_process_memory_fraction(0)
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.mem_get_info(0)[1], 0)
    try:
        return work()
    finally:
        torch.cuda.set_per_process_memory_fraction(before, 0)


def test_components_may_stay_in_host_memory():
    c, x = points(2000, 8, dtype=torch.float32)
    x = x.detach().cuda().requires_grad_()

    def moving(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return term(chunk.to(x.device), x)

    lse, mean = fold(moving, c, x, strategy="chunked", chunk_size=300)
    found = torch.autograd.grad(lse.sum() + mean.sum(), [c, x])
    assert not found[0].is_cuda and found[1].is_cuda
    near = c.detach().cuda().requires_grad_()
    lse, mean = fold(term, near, x, strategy="single")
    for one, other in zip(found, torch.autograd.grad(lse.sum() + mean.sum(), [near, x]), strict=True):
        torch.testing.assert_close(one.cpu(), other.cpu(), rtol=1e-4, atol=1e-5)
