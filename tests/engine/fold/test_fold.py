"""`fold` gives the same numbers and gradients however it is cut, and says what is wrong where something is."""

import gc
import threading
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import brimful
from brimful import BrimfulWarning, BudgetError, ConfigError, InputError, fold

from .folding import Bumps, Full, Fused, direct, gradients, loss, points, same

pytestmark = pytest.mark.usefixtures("one_thread")
WAYS = ("single", "chunked", "gradient_accumulation", "auto")
HALF = settings().max_examples // 2


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """Out of memory collects garbage, which takes long among all the objects of a test run."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@given(
    components=st.integers(1, 20),
    samples=st.integers(1, 7),
    chunk=st.one_of(st.just("auto"), st.integers(1, 25)),
    strategy=st.sampled_from([*WAYS, "single_gpu"]),
)
def test_values_and_gradients_are_those_of_the_whole(components: int, samples: int, chunk: Any, strategy: str):
    term = Bumps()
    c, x = points(components, samples)
    wanted = [c, x, *term.parameters()]
    same(gradients(term, c, x, wanted, chunk_size=chunk, strategy=strategy), direct(term, c, x, wanted))


@settings(max_examples=40)
@given(
    components=st.integers(1, 20),
    samples=st.integers(1, 7),
    chunk=st.integers(1, 25),
    strategy=st.sampled_from(WAYS),
)
def test_a_term_with_its_own_backward_pass(components: int, samples: int, chunk: int, strategy: str):
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    c, x = points(components, samples)
    term = Fused(scale)
    found = gradients(term, c, x, [c, x, scale], chunk_size=chunk, strategy=strategy)
    same(found, direct(term, c, x, [c, x, scale]))
    assert sum(k * b for k, b in term.calls) >= components * samples  # it was used
    assert all(k <= max(chunk, 1) or strategy == "single" for k, b in term.calls if b == samples)


@settings(max_examples=HALF)
@given(chunk=st.integers(1, 9), large=st.floats(1, 1e6))
def test_float32_within_a_bound(chunk: int, large: float):
    term = Bumps(dtype=torch.float32)
    c, x = points(23, 6, dtype=torch.float32)

    def lifted(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        logit, value = term(chunk, x)
        return logit + large, value

    wanted = [c, x, *term.parameters()]
    one, other = (gradients(lifted, c, x, wanted, strategy=way, chunk_size=chunk) for way in ("chunked", "single"))
    # A logit's own rounding, relative to it, is the weights' rounding.
    same(one, other, rtol=1e-5 + 4 * large * torch.finfo(torch.float32).eps)


def test_huge_logits_neither_overflow_nor_vanish():
    c, x = points(9, 4)

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        logit = 1e6 * (x @ chunk.T)
        return logit, chunk.expand(len(x), -1, -1)

    lse, mean = fold(term, c, x, chunk_size=2, strategy="chunked")
    logit = 1e6 * (x @ c.T)
    torch.testing.assert_close(lse, torch.logsumexp(logit, 1), rtol=1e-12, atol=0)
    torch.testing.assert_close(mean, torch.softmax(logit, 1) @ c, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("strategy", ["chunked", "single"])
def test_gradients_are_those_of_finite_differences(strategy: str):
    term = Bumps()
    c, x = points(5, 3)
    names, values = zip(*term.named_parameters(), strict=True)

    def function(c: Tensor, x: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        def called(chunk: Tensor, x: Tensor) -> Any:
            return torch.func.functional_call(term, dict(zip(names, weights, strict=True)), (chunk, x))

        return fold(called, c, x, chunk_size=2, strategy=strategy)

    fresh = [value.detach().clone().requires_grad_() for value in values]
    assert torch.autograd.gradcheck(function, (c, x, *fresh))


def test_trees_of_tensors():
    (c, x), labels = points(11, 4), torch.arange(11)
    bias = torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)

    def term(chunk: Any, x: Any) -> tuple[Tensor, Tensor]:
        point, label = chunk["at"]["point"], chunk["label"]
        r = x[0][:, None] - point
        return -r.square().sum(-1) + x[1][:, None] * (label % 2), r * (1 + x[1][:, None, None])

    wanted = [c, x, bias]
    form = {"at": {"point": c}, "label": labels}
    whole = direct(term, form, (x, bias), wanted)
    for strategy in WAYS:
        same(gradients(term, form, (x, bias), wanted, strategy=strategy), whole)
    same(gradients(term, form, [x, bias], wanted, strategy="chunked", chunk_size=3), whole)


def test_what_a_function_closes_over_gets_its_gradient():
    c, x = points()
    leaf = torch.full((3,), 0.3, dtype=torch.float64, requires_grad=True)
    frozen = torch.ones(3, dtype=torch.float64)
    layer = nn.Linear(3, 2, dtype=torch.float64)
    through = leaf.exp() * 2  # made before the fold: gradients go through it to the leaf

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = (x[:, None] - chunk) * through * frozen + leaf
        return -r.square().sum(-1), layer(r)

    wanted = [leaf, c, x, *layer.parameters()]
    whole = direct(term, c, x, wanted)
    through = leaf.exp() * 2
    for _ in range(2):
        same(gradients(term, c, x, wanted, strategy="chunked", chunk_size=4), whole)


class Scaled:
    """Not a module; what it gives as a parameter may be made of another tensor."""

    def __init__(self, scale: Tensor) -> None:
        self.scale = scale

    def parameters(self) -> list[Tensor]:
        return [self.scale]

    def __call__(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = (x[:, None] - chunk) * self.scale
        return -r.square().sum(-1), r


def test_a_parameter_that_is_not_a_leaf_gets_its_gradient_once():
    (c, x), leaf = points(), torch.full((3,), 0.3, dtype=torch.float64, requires_grad=True)
    whole = direct(Scaled(leaf.exp()), c, x, [leaf, c, x])
    for strategy in WAYS:
        same(gradients(Scaled(leaf.exp()), c, x, [leaf, c, x], strategy=strategy), whole)
    same(gradients(Scaled(leaf.exp()), c, x, [leaf, c, x], strategy="chunked", chunk_size=4), whole)


def test_a_graph_made_in_another_thread():
    (c, x), leaf = points(), torch.full((3,), 0.3, dtype=torch.float64, requires_grad=True)
    through = leaf
    for _ in range(50):  # numbered higher than what a new thread makes first
        through = through.sin()
    whole = direct(Scaled(through), c, x, [leaf, c, x])
    through = leaf
    for _ in range(50):
        through = through.sin()

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return Scaled(through)(chunk, x)

    found = []
    work = threading.Thread(
        target=lambda: found.append(gradients(term, c, x, [leaf, c, x], strategy="chunked", chunk_size=4))
    )
    work.start()
    work.join()
    same(found[0], whole)


class ByAutograd(Fused):
    """A term whose own backward pass makes use of autograd."""

    def vjp(self, chunk: Tensor, x: Tensor, grads: dict[Tensor, Tensor]) -> Any:
        with torch.enable_grad():
            outputs = self(chunk, x)

        def pull(*bars: Tensor) -> tuple[Tensor, Tensor]:
            *both, more = torch.autograd.grad(outputs, [chunk, x, self.scale], bars)
            grads[self.scale].add_(more)
            return both[0], both[1]

        return *(each.detach() for each in outputs), pull


@pytest.mark.parametrize("strategy", WAYS)
@pytest.mark.parametrize("kind", [Scaled, ByAutograd])
def test_a_hook_sees_the_whole_gradient_once(strategy: str, kind: Any):
    (c, x), leaf = points(), torch.full((), 0.3, dtype=torch.float64, requires_grad=True)
    seen: list[Tensor] = []
    (whole,) = torch.autograd.grad(fold(kind(leaf), c, x, strategy="single")[0].sum(), leaf)
    leaf.register_hook(lambda gradient: seen.append(gradient) or 2 * gradient)
    for time in (1, 2):  # a probe is no pass, and the hook is there afterwards
        leaf.grad = None
        fold(kind(leaf), c, x, strategy=strategy, chunk_size=4)[0].sum().backward()
        assert len(seen) == time
        torch.testing.assert_close(seen[-1], whole, rtol=1e-9, atol=0)
        torch.testing.assert_close(leaf.grad, 2 * whole, rtol=1e-9, atol=0)


@pytest.mark.parametrize("strategy", WAYS)
def test_an_unused_parameter_has_no_gradient(strategy: str):
    term, (c, x) = Bumps(), points()
    term.spare = nn.Parameter(torch.ones(2))
    fold(term, c, x, strategy=strategy)[0].sum().backward()
    assert term.spare.grad is None
    assert all(each.grad is not None for name, each in term.named_parameters() if name != "spare")


def test_a_tensor_that_is_both_a_component_and_held():
    c, x = points()

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = x[:, None] - chunk - c.mean(0)
        return -r.square().sum(-1), r

    same(gradients(term, c, x, [c, x], strategy="chunked", chunk_size=4), direct(term, c, x, [c, x]))


def test_a_gradient_that_would_be_lost_is_refused():
    (c, x), extra = points(), torch.ones((), dtype=torch.float64, requires_grad=True)

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = x[:, None] - chunk
        return -r.square().sum(-1) * (extra if len(chunk) > 1 else 1), r

    with pytest.raises(InputError, match=r"parameters\(\)"):
        gradients(term, c, x, [c, x], strategy="chunked", chunk_size=4)


def test_random_numbers_in_a_term_are_refused_and_not_drawn_twice():
    c, x = points()

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = nn.functional.dropout(x[:, None] - chunk, 0.5)
        return -r.square().sum(-1), r

    with pytest.raises(InputError, match="random numbers"):
        fold(term, c, x, strategy="chunked", chunk_size=4)
    fold(term, c, x, strategy="single")


def test_frozen_parameters_and_no_grad():
    term, (c, x) = Bumps(), points()
    term.inner.requires_grad_(False)
    wanted = [x, *term.outer.parameters()]
    c = c.detach()
    same(gradients(term, c, x, wanted, strategy="chunked", chunk_size=3), direct(term, c, x, wanted))
    with torch.no_grad():
        lse, mean = fold(term, c, x, chunk_size=3)
    assert not lse.requires_grad and not mean.requires_grad
    torch.testing.assert_close(lse, torch.logsumexp(term(c, x)[0], 1))


def test_only_one_of_the_results_is_used():
    term, (c, x) = Bumps(), points()
    wanted = [c, x, *term.parameters()]
    logit, value = term(c, x)
    wholes = (torch.logsumexp(logit, 1), (torch.softmax(logit, 1)[..., None] * value).sum(1))
    for place in (0, 1):
        for strategy in ("single", "chunked"):
            found = fold(term, c, x, strategy=strategy)[place]
            ones = torch.autograd.grad(found.sum(), wanted, retain_graph=True)
            others = torch.autograd.grad(wholes[place].sum(), wanted, retain_graph=True)
            for one, other in zip(ones, others, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_a_gradient_is_taken_over_without_a_copy():
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    (c, x), term = points(), Fused(scale)
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=4)
    lse.sum().backward()
    assert scale.grad is not None
    assert term.buffers == {scale.grad.data_ptr()}
    assert set(term.calls) == {(4, 5), (1, 5)}


def test_a_change_between_the_passes_is_seen():
    term, (c, x) = Bumps(), points()
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=3)
    with torch.no_grad():
        term.outer.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        lse.sum().backward()


@pytest.mark.parametrize("strategy", WAYS)
@pytest.mark.parametrize(("components", "samples"), [(0, 4), (3, 0), (0, 0), (1, 1)])
def test_none_and_one(strategy: str, components: int, samples: int):
    term = Bumps()
    c, x = points(components, samples)
    lse, mean = fold(term, c, x, strategy=strategy)
    assert lse.shape == (samples,) and mean.shape == (samples, 2)
    if not components:
        assert (lse == -torch.inf).all() and (mean == 0).all()
    (lse.clamp(min=0).sum() + mean.sum()).backward()
    assert x.grad.shape == x.shape and c.grad.shape == c.shape
    found = [each.grad for each in (c, x, *term.parameters()) if each.grad is not None]
    assert len(found) == 6 and all(torch.isfinite(each).all() for each in found)
    if not (components and samples):
        assert all((each == 0).all() for each in found)


def test_equal_components_share_the_weight():
    term, (c, x) = Bumps(), points(4)
    once, mean = fold(term, c, x)
    twice, same_mean = fold(term, torch.cat((c, c, c)), x, chunk_size=5)
    torch.testing.assert_close(twice, once + torch.log(torch.tensor(3.0, dtype=torch.float64)))
    torch.testing.assert_close(same_mean, mean)


def masked(mask: Tensor) -> Any:
    """A term whose components do not count for some samples: their logit is -inf."""
    inner = Bumps()

    def term(chunk: Any, x: Any) -> tuple[Tensor, Tensor]:
        (point, place), (at, row) = chunk, x
        logit, value = inner(point, at)
        return logit.masked_fill(mask[row][:, place], -torch.inf), value

    return term


@settings(max_examples=HALF)
@given(bits=st.lists(st.booleans(), min_size=24, max_size=24), chunk=st.integers(1, 7), strategy=st.sampled_from(WAYS))
def test_logits_of_minus_infinity(bits: list[bool], chunk: int, strategy: str):
    mask = torch.tensor(bits).reshape(4, 6)
    term, (c, x) = masked(mask), points(6, 4)
    components, samples = (c, torch.arange(6)), (x, torch.arange(4))
    lse, mean = fold(term, components, samples, strategy=strategy, chunk_size=chunk)
    empty = mask.all(1)
    assert (lse[empty] == -torch.inf).all() and (mean[empty] == 0).all()
    logit, value = term(components, samples)
    torch.testing.assert_close(lse, torch.logsumexp(logit, 1), rtol=1e-12, atol=1e-12)
    weight = torch.softmax(logit, 1).nan_to_num(0)
    torch.testing.assert_close(mean, (weight[..., None] * value).sum(1), rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad(lse[~empty].sum() + mean.sum(), [c, x])
    good = torch.softmax(logit[~empty], 1)[..., None] * value[~empty]
    whole = torch.autograd.grad(
        torch.logsumexp(logit[~empty], 1).sum() + good.sum(), [c, x], allow_unused=True, materialize_grads=True
    )
    for one, other in zip(found, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("strategy", WAYS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_one_bad_sample_is_one_bad_row(strategy: str, bad: float):
    term, (c, x) = Bumps(), points()
    broken = x.detach().clone()
    broken[2, 1] = bad
    broken.requires_grad_()
    lse, mean = fold(term, c, broken, strategy=strategy)
    good = torch.tensor([0, 1, 3, 4])
    whole = fold(term, c, x, strategy=strategy)
    assert not torch.isfinite(lse[2]) and (bad == float("inf") or mean[2].isnan().all())
    torch.testing.assert_close(lse[good], whole[0][good], rtol=1e-12, atol=0)
    torch.testing.assert_close(mean[good], whole[1][good], rtol=1e-12, atol=1e-14)
    (gradient,) = torch.autograd.grad(lse.sum() + mean.sum(), broken)
    (clean,) = torch.autograd.grad(whole[0].sum() + whole[1].sum(), x)
    torch.testing.assert_close(gradient[good], clean[good], rtol=1e-9, atol=1e-12)


@settings(max_examples=HALF)
@given(most=st.integers(1, 90), chunk=st.integers(1, 20), ahead=st.booleans(), back=st.booleans())
def test_out_of_memory_is_done_again_in_smaller_tiles(most: int, chunk: int, ahead: bool, back: bool):
    inner, (c, x) = Bumps(), points()
    wanted = [c, x, *inner.parameters()]
    term = Full(inner, most, backward=back, forward=ahead)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = gradients(term, c, x, wanted, strategy="chunked", chunk_size=chunk)
    same(found, direct(inner, c, x, wanted))
    short = min(chunk, 17) * 5 > most and (ahead or back)
    assert [each.category for each in caught] == [BrimfulWarning] * short
    assert not short or "out of memory" in str(caught[0].message)
    failed = [shape for shape in term.tried if shape[0] * shape[1] > most]
    assert not (ahead and back) or len(failed) <= 9  # each size at most once, not each chunk


def test_out_of_memory_at_once_falls_back_to_chunks():
    inner, (c, x) = Bumps(), points()
    wanted = [c, x, *inner.parameters()]

    class Holding:  # not a module: what it holds is found by the trial
        def __init__(self) -> None:
            self.term = Full(inner, 40)

        def __call__(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.term(chunk, x)

    for strategy in ("single", "auto"):
        with pytest.warns(BrimfulWarning, match="out of memory"):
            found = gradients(Holding(), c, x, wanted, strategy=strategy)
        same(found, direct(inner, c, x, wanted))


def test_after_out_of_memory_later_folds_begin_smaller():
    inner, (c, x) = Bumps(), points(60, 8)

    term = Full(inner, 100)
    with pytest.warns(BrimfulWarning):
        fold(term, c, x, budget="1GB", strategy="chunked")
    term.tried.clear()
    fold(term, c, x, budget="1GB", strategy="chunked")
    assert all(k * b <= 100 for b, k in term.tried)


def test_out_of_memory_on_the_smallest_tile():
    c, x = points()
    term = Full(Bumps(), 0)
    with pytest.raises(BudgetError, match=r"one component for one sample does not fit.*larger budget"):
        fold(term, c, x, strategy="chunked", chunk_size=4)
    with torch.no_grad(), warnings.catch_warnings(), pytest.raises(BudgetError, match="one component for one sample"):
        warnings.simplefilter("ignore")
        fold(term, c, x, strategy="chunked", chunk_size=4)


@pytest.mark.parametrize("kind", [MemoryError, torch.OutOfMemoryError])
@pytest.mark.parametrize("strategy", ["chunked", "auto"])
def test_out_of_memory_without_a_word(kind: type[Exception], strategy: str):
    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        raise kind

    c, x = points()
    for data in ((c, x), (c.detach(), x.detach())):
        with (
            warnings.catch_warnings(),
            pytest.raises(BudgetError, match=f"one component for one sample does not fit: {kind.__name__}"),
        ):
            warnings.simplefilter("ignore")
            fold(term, *data, strategy=strategy)


def test_gradients_that_do_not_fit(monkeypatch: pytest.MonkeyPatch):
    term, (c, x) = Bumps(), points()
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=4)

    def full(*given: Any, **options: Any) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more")

    monkeypatch.setattr(torch, "zeros_like", full)
    with pytest.raises(
        BudgetError, match=r"gradient of a fold, whatever the chunk, does not fit.*out of memory.*larger budget"
    ):
        lse.sum().backward()


def test_an_own_backward_pass_that_runs_out_of_memory():
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    c, x = points()

    class Tight(Fused):
        def vjp(self, chunk: Tensor, x: Tensor, grads: dict[Tensor, Tensor]) -> Any:
            if len(chunk) * len(x) > 7:
                raise torch.OutOfMemoryError("out of memory")
            return super().vjp(chunk, x, grads)

    term = Tight(scale)
    with pytest.warns(BrimfulWarning):
        found = gradients(term, c, x, [c, x, scale], strategy="chunked", chunk_size=17)
    same(found, direct(term, c, x, [c, x, scale]))


def test_automatic_precision_holds_in_the_backward_pass():
    term = Bumps(dtype=torch.float32)
    c, x = points(dtype=torch.float32)
    wanted = [c, x, *term.parameters()]
    seen = []

    def watched(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(term.inner(x).dtype)
        logit, value = term(chunk, x)
        return logit.float(), value.float()

    with torch.autocast("cpu", torch.bfloat16):
        lse, mean = fold(watched, c, x, strategy="chunked", chunk_size=5)
    torch.autograd.grad(lse.sum() + mean.sum(), wanted)
    assert set(seen) == {torch.bfloat16}


def test_no_automatic_precision_stays_so_in_the_backward_pass():
    term, (c, x) = Bumps(dtype=torch.float32), points(dtype=torch.float32)
    wanted = [c, x, *term.parameters()]
    lse, mean = fold(term, c, x, strategy="chunked", chunk_size=5)
    loss = lse.sum() + mean.sum()
    found = torch.autograd.grad(loss, wanted, retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        inside = torch.autograd.grad(loss, wanted)
    torch.testing.assert_close(inside, found, rtol=0, atol=0)


@pytest.mark.parametrize("strategy", ["single", "chunked"])
def test_automatic_precision_is_the_terms_and_not_the_merges(strategy: str):
    c, x = points(200, 4, dtype=torch.float32)

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Without a product, which automatic precision would round."""
        r = x[:, None] - chunk
        return -r.square().sum(-1), 50 + r

    whole = gradients(term, c, x, [c, x], strategy=strategy, chunk_size=30)
    with torch.autocast("cpu", torch.bfloat16):
        lse, mean = fold(term, c, x, strategy=strategy, chunk_size=30)
    with torch.autocast("cpu", torch.bfloat16, enabled=strategy == "chunked"):
        found = torch.autograd.grad(loss(lse, mean), [c, x])
    same((lse, mean, found), whole, rtol=1e-6)


@pytest.mark.parametrize("chunk", [1, 64])
def test_gradients_of_half_precision_are_summed_in_single(chunk: int):
    weight = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(x), len(chunk)), weight.float() * torch.ones(len(x), len(chunk), 1)

    _, mean = fold(term, torch.zeros(1024, 1), torch.zeros(1, 1), strategy="chunked", chunk_size=chunk)
    (1024 * mean).sum().backward()
    assert weight.grad is not None and weight.grad.dtype == torch.bfloat16
    assert weight.grad.item() == 1024  # ones added to 256 in half precision leave it there


def test_half_precision_terms_are_summed_in_single():
    c, x = points(2000, 3, dtype=torch.float32)

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(x), len(chunk), dtype=torch.bfloat16), chunk.bfloat16().expand(len(x), -1, -1)

    lse, mean = fold(term, c, x, strategy="chunked", chunk_size=7)
    assert lse.dtype == mean.dtype == torch.bfloat16
    torch.testing.assert_close(lse.float(), torch.full((3,), 2000.0).log(), rtol=1e-2, atol=0)
    torch.testing.assert_close(mean.float(), c.bfloat16().float().mean(0).expand(3, -1), rtol=1e-2, atol=1e-4)
    (gradient,) = torch.autograd.grad(mean.float().sum(), c)
    torch.testing.assert_close(gradient, torch.full_like(c, 3 / 2000), rtol=1e-2, atol=0)


def good(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    r = x[:, None] - chunk
    return -r.square().sum(-1), r


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (lambda chunk, x: good(chunk, x)[0], "return two tensors"),
        (lambda chunk, x: (*good(chunk, x), 1), "3 things"),
        (lambda chunk, x: (good(chunk, x)[0].T, good(chunk, x)[1]), "logits have shape"),
        (lambda chunk, x: (good(chunk, x)[0], good(chunk, x)[0]), "V = 1 for a number"),
        (lambda chunk, x: (good(chunk, x)[0], good(chunk, x)[1].float()), "one floating dtype"),
        (lambda chunk, x: tuple(part.long() for part in good(chunk, x)), "one floating dtype"),
        (lambda chunk, x: tuple(part.to("meta") for part in good(chunk, x)), "x is on cpu"),
    ],
)
@pytest.mark.parametrize("strategy", ["single", "chunked"])
def test_what_a_term_returns_is_checked(term: Any, said: str, strategy: str):
    c, x = points()
    with pytest.raises(InputError, match=said):
        fold(term, c, x, strategy=strategy)


def test_arguments_are_checked():
    c, x = points()
    with pytest.raises(InputError, match="give a function"):
        fold(3, c, x)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="components must share one leading axis; found 0: 17, 1: 5"):
        fold(good, (c, x), x)
    with pytest.raises(InputError, match="x must share one leading axis"):
        fold(good, c, {"a": x, "b": torch.tensor(1.0)})
    with pytest.raises(InputError, match="tensor"):
        fold(good, c, 3)
    for chunk in (0, -1, 2.5, True, "4", None):
        with pytest.raises(ConfigError, match="chunk_size is"):
            fold(good, c, x, chunk_size=chunk)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="choose one of auto, single"):
        fold(good, c, x, strategy="fast")
    with pytest.raises(ConfigError, match="needs ranks"):
        fold(good, c, x, strategy="model_parallel")
    with pytest.raises(ConfigError, match="not one of several ranks"):
        fold(good, c, x, group=True)
    with pytest.raises(BudgetError, match="not an amount"):
        fold(good, c, x, budget="much")


def test_a_backward_pass_of_ones_own_is_checked():
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    c, x = points()

    class Wrong(Fused):
        bars: Any = (None, None)

        def vjp(self, chunk: Tensor, x: Tensor, grads: dict[Tensor, Tensor]) -> Any:
            *outputs, _ = super().vjp(chunk, x, grads)
            return *outputs, lambda *_: self.bars

    term = Wrong(scale)
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=4)
    with pytest.raises(InputError, match="no gradient for a tensor of the chunk"):
        lse.sum().backward(retain_graph=True)
    term.bars = (torch.zeros(1, 1), None)
    with pytest.raises(InputError, match=r"gradient of shape \(1, 1\)"):
        lse.sum().backward()


@pytest.mark.parametrize("strategy", WAYS)
def test_what_the_term_does_not_use_has_no_gradient(strategy: str):
    c, x = points()

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(x), len(chunk)), torch.ones(len(x), len(chunk), 1)

    lse, mean = fold(term, c, x, strategy=strategy)
    torch.testing.assert_close(lse, torch.full((5,), 17.0).log())
    if lse.requires_grad:  # in chunks, nobody knows before
        assert not any(each.any() for each in torch.autograd.grad(lse.sum() + mean.sum(), [c, x]))


def test_values_may_be_left_out():
    c, x = points()

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return -torch.cdist(x, chunk), x.new_empty(len(x), len(chunk), 0)

    for strategy in WAYS:
        lse, mean = fold(term, c, x, strategy=strategy)
        assert mean.shape == (5, 0)
        torch.testing.assert_close(
            torch.autograd.grad(lse.sum(), [c, x]),
            torch.autograd.grad(torch.logsumexp(-torch.cdist(x, c), 1).sum(), [c, x]),
        )


def test_it_is_a_part_of_training():
    term = Bumps(dtype=torch.float32)
    c = points(40, dtype=torch.float32)[0].detach()

    def negative(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return -fold(model, c, batch["x"], chunk_size=16)[0].mean()

    x = points(1, 64, dtype=torch.float32)[1].detach()
    result = brimful.train(term, negative, {"x": x}, epochs=5, batch_size=16, lr=0.05, device="cpu", progress=False)
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"] - 0.1
