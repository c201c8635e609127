"""Second and higher derivatives of a fold: those of the whole computation, in every strategy, or an error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from brimful import BrimfulWarning, InputError, fold

from ...helpers.rank_pool import RankPool
from .fold_ranks import second_derivative
from .folding import Bumps, Full, Fused, loss, points

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # torch's own, when it first differentiates in forward mode
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]
WAYS: tuple[dict[str, Any], ...] = (
    {"strategy": "single"},
    {"strategy": "chunked", "chunk_size": 4},
    {"strategy": "gradient_accumulation", "chunk_size": 3},
    {"strategy": "auto"},
)


class FusedWithPlain(Fused):
    """With the same logits and values for autograd, under another name: what is called shows which was used."""

    def plain(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return Fused.__call__(self, chunk, x)


def terms() -> dict[str, tuple[Any, list[Tensor]]]:
    """Terms of every kind, and what each holds."""
    module, scale = Bumps(), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    made = scale.exp()

    def function(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = (x[:, None] - chunk) * made
        return -r.square().sum(-1), torch.tanh(r)

    return {
        "module": (module, list(module.parameters())),
        "function": (function, [scale]),
        "fused": (FusedWithPlain(scale), [scale]),
    }


def whole(term: Any, c: Any, x: Any, **_: Any) -> tuple[Tensor, Tensor]:
    logit, value = term(c, x)
    return torch.logsumexp(logit, 1), (torch.softmax(logit, 1)[..., None] * value).sum(1)


def penalty(
    folded: Callable[..., tuple[Tensor, Tensor]], term: Any, held: list[Tensor], order: int, **options: Any
) -> tuple[Tensor, ...]:
    """The gradient of a squared gradient, of all that can have one; and so on for higher orders."""
    c, x = points(7, 4)
    wanted = [c, x, *held]
    total = loss(*folded(term, c, x, **options))
    for _ in range(order - 1):
        gradients = torch.autograd.grad(total, wanted, create_graph=True)
        total = sum((gradient.square().sum() for gradient in gradients), start=x.new_zeros(()))
    return torch.autograd.grad(total, wanted)


@pytest.mark.parametrize("options", WAYS, ids=lambda options: options["strategy"])
@pytest.mark.parametrize("kind", ["module", "function", "fused"])
@pytest.mark.parametrize("order", [2, 3])
def test_a_gradient_penalty_is_that_of_the_whole(kind: str, options: dict[str, Any], order: int):
    term, held = terms()[kind]
    expected = penalty(whole, term, held, order)
    term, other = terms()[kind]
    for one, two in zip(penalty(fold, term, other, order, **options), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9 * float(two.abs().max()))


@pytest.mark.parametrize("options", WAYS, ids=lambda options: options["strategy"])
@pytest.mark.parametrize("kind", ["module", "fused"])
def test_the_hessian_is_that_of_the_whole(kind: str, options: dict[str, Any]):
    (term, _), (c, x) = terms()[kind], (each.detach() for each in points(7, 3))

    def of(folded: Any) -> Callable[[Tensor], Tensor]:
        return lambda x: loss(*folded(term, c, x, **options))

    expected: Any = torch.autograd.functional.hessian(of(whole), x)
    assert expected.abs().max() > 0.1
    for hessian in (
        torch.autograd.functional.hessian(of(fold), x),
        torch.func.hessian(of(fold))(x),
        torch.func.jacrev(torch.func.grad(of(fold)))(x),
    ):
        torch.testing.assert_close(hessian, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_second_derivatives_are_finite_differences(used: tuple[int, ...]):
    (term, _), (c, x) = terms()["module"], points(3, 2)

    def results(c: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        both = fold(term, c, x, strategy="chunked", chunk_size=2)
        return tuple(both[index] for index in used)

    assert torch.autograd.gradgradcheck(results, (c, x), fast_mode=True)


def test_a_term_without_a_plain_twin_is_refused():
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    (c, x), term = points(), Fused(scale)
    lse, _ = fold(term, c, x, chunk_size=4)
    (gradient,) = torch.autograd.grad(lse.sum(), x, create_graph=True)
    with pytest.raises(InputError, match=r"Fused brings its own backward pass.*plain\(chunk, x\)"):
        gradient.square().sum().backward()
    with pytest.raises(InputError, match=r"plain\(chunk, x\)"):
        torch.autograd.functional.hessian(lambda x: fold(term, c, x, chunk_size=4)[0].sum(), x)
    with pytest.raises(InputError, match=r"plain\(chunk, x\)"):
        torch.func.grad(lambda x: fold(term, c, x, chunk_size=4)[0].sum())(x)


def test_the_first_gradient_has_the_same_bits_with_a_graph():
    for term, held in terms().values():
        c, x = points()
        results = fold(term, c, x, strategy="chunked", chunk_size=4)
        once, again = (
            torch.autograd.grad(loss(*results), [c, x, *held], retain_graph=True, create_graph=graph)
            for graph in (False, True)
        )
        assert all(torch.equal(one, two) for one, two in zip(once, again, strict=True))


def test_vmap_over_samples_and_over_gradients():
    (term, _), (c, x) = terms()["module"], points()
    expected = fold(term, c, x, chunk_size=4)
    each = torch.vmap(lambda row: fold(term, c, row[None], chunk_size=4))(x)
    for one, two in zip(each, expected, strict=True):
        torch.testing.assert_close(one[:, 0], two, rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(loss(*expected), x, create_graph=True)
    basis = torch.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape)

    def row(v: Tensor) -> Tensor:
        return torch.autograd.grad(gradient, x, v, retain_graph=True)[0]

    torch.testing.assert_close(torch.vmap(row)(basis), torch.stack([row(v) for v in basis]), rtol=1e-12, atol=1e-14)


def test_the_older_batched_gradients_are_refused():
    (term, _), (c, x) = terms()["module"], points()
    for function in (torch.autograd.functional.hessian, torch.autograd.functional.jacobian):
        with pytest.raises(InputError, match=r"vectorize=True.*torch.func.jacrev"):
            function(lambda x: fold(term, c, x, chunk_size=4)[0].sum(), x, vectorize=True)


def test_forward_mode():
    (term, _), (c, x) = terms()["module"], points()
    tangent = torch.ones_like(x)
    (expected,) = torch.autograd.grad(fold(term, c, x, chunk_size=4)[0].sum(), x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        along = torch.autograd.forward_ad.unpack_dual(fold(term, c, dual, chunk_size=4)[0]).tangent
    torch.testing.assert_close(along, expected.sum(1), rtol=1e-9, atol=1e-12)


def test_parameters_given_by_functional_call():
    term, (c, x) = Bumps(), points()
    parameters = {name: parameter.detach() for name, parameter in term.named_parameters()}

    def total(parameters: dict[str, Tensor], **options: Any) -> Tensor:
        def evaluated(chunk: Tensor, x: Tensor) -> Any:
            return torch.func.functional_call(term, parameters, (chunk, x))

        return loss(*fold(evaluated, c.detach(), x.detach(), **options))

    found = torch.func.grad(total)(parameters, chunk_size=4)
    expected = torch.autograd.grad(loss(*whole(term, c, x)), list(term.parameters()))
    for one, two in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", [torch.autograd.functional.jacobian, torch.autograd.functional.hessian])
@pytest.mark.parametrize("both", [False, True])
def test_a_result_of_earlier_operations_that_a_term_holds(function: Any, both: bool):
    """The caller asks for the derivative by a tensor that is not a leaf, which the term holds, with one made of it."""
    c, x = (each.detach() for each in points())
    weight = torch.full((3,), 0.3, dtype=torch.float64)

    def total(folded: Any) -> Callable[[Tensor], Tensor]:
        def of(weight: Tensor) -> Tensor:
            made = weight.exp()

            def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
                r = (x[:, None] - chunk) * made
                return -r.square().sum(-1), r + (weight if both else 0)

            return loss(*folded(term, c, x, strategy="chunked", chunk_size=4))

        return of

    expected = function(total(whole), weight, create_graph=True)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(function(total(fold), weight, create_graph=True), expected, rtol=1e-9, atol=1e-11)


def test_hooks_run_once_on_the_whole_second_derivative():
    (term, held), (c, x) = terms()["module"], points()
    seen: list[Tensor] = []
    held[0].register_hook(seen.append)
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=4)
    (gradient,) = torch.autograd.grad(lse.sum(), x, create_graph=True)
    gradient.square().sum().backward()
    assert len(seen) == 1
    assert held[0].grad is not None and torch.equal(seen[0], held[0].grad)


def test_out_of_memory_in_a_second_derivative_is_done_again_in_smaller_tiles():
    (term, held), (c, x) = terms()["module"], points(7, 4)
    expected = penalty(whole, term, held, 2)
    full = Full(term, 100)
    full.parameters = term.parameters  # pyright: ignore[reportAttributeAccessIssue]
    total = loss(*fold(full, c, x, strategy="chunked", chunk_size=4))
    gradients = torch.autograd.grad(total, [c, x, *held], create_graph=True)
    full.limit = 6
    with pytest.warns(BrimfulWarning, match="out of memory"):
        squares = torch.stack([each.square().sum() for each in gradients])
        found = torch.autograd.grad(squares.sum(), [c, x, *held])
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9 * float(two.abs().max()))


def test_half_precision_and_nothing_to_fold():
    term, (c, x) = Bumps(dtype=torch.bfloat16), points(dtype=torch.bfloat16)
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=4)
    assert lse.dtype == torch.bfloat16
    (gradient,) = torch.autograd.grad(lse.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.float().square().sum(), x)
    assert second.dtype == torch.bfloat16 and second.isfinite().all() and second.abs().max() > 0
    term, (c, x) = Bumps(), points(0, 3)
    lse, mean = fold(term, c, x, strategy="chunked", chunk_size=4)
    (gradient,) = torch.autograd.grad(mean.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    assert torch.equal(second, torch.zeros_like(x))


def test_a_bad_sample_spoils_its_own_row_alone():
    (term, _), (c, x) = terms()["module"], points()
    with torch.no_grad():
        x[1, 0] = torch.nan
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=4)
    (gradient,) = torch.autograd.grad(lse.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), x)
    assert second.isfinite().all(1).tolist() == [index != 1 for index in range(len(x))]


def test_over_ranks_second_derivatives_and_transforms_are_refused(rank_pool: RankPool):
    for said in rank_pool.call(second_derivative, 2, {}):
        assert "a fold over ranks can be differentiated once" in said["again"]
        assert "a fold over ranks can be differentiated once" in said["hessian"]
        assert "a fold over ranks cannot be transformed" in said["transformed"]


def test_a_change_in_between_is_seen():
    (term, _), (c, x) = terms()["module"], points()
    lse, _ = fold(term, c, x, strategy="chunked", chunk_size=4)
    (gradient,) = torch.autograd.grad(lse.sum(), x, create_graph=True)
    with torch.no_grad():
        c.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradient.sum().backward()


def test_a_layer_that_is_shared_with_what_is_folded():
    """A parameter that the term holds and that x was made with gets the gradient of both."""
    (c, start), layer = points(), nn.Linear(3, 3, dtype=torch.float64)

    def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = x[:, None] - layer(chunk)
        return -r.square().sum(-1), torch.tanh(r)

    found = []
    for folded in (whole, fold):
        x = layer(start)
        total = loss(*folded(term, c, x, strategy="chunked", chunk_size=4))
        (gradient,) = torch.autograd.grad(total, layer.weight, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), [layer.weight, c, start]))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9 * float(one.abs().max()))
