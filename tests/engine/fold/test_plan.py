"""The plan of a fold: the fastest way that fits, measured on a few components, remembered, never over the budget."""

import gc
import importlib
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from brimful import BrimfulWarning, BudgetError, ConfigError, Cost, InputError, fold
from brimful.core.memory.probe import LiveBytes
from brimful.engine.fold import plan_fold, probe
from brimful.engine.fold.plan import Folding, Shape, decide

from .folding import Bumps, Full, Fused, direct, gradients, points, same

prepare = importlib.import_module("brimful.engine.fold.prepare")

pytestmark = pytest.mark.usefixtures("one_thread")
MB = 10**6


def shape(**given: Any) -> Shape:
    return Shape(**{"components": 1000, "samples": 64, "width": 8, "device": "cuda:0", **given})


def linear(pair: float, component: float = 0.0, fixed: float = 0.0) -> Any:
    """A cost in proportion to components times samples."""
    return lambda samples: Cost(fixed, component + pair * samples)


def time_of(strategy: str, chunk: int, blocks: int, components: int, samples: int) -> float:
    """A simple model of time: each pair is computed once forward and twice backward, chunks once more forward; a chunk
    has an overhead, and a block of samples computes the components' own part again."""
    pairs, own = components * samples, 10.0 * components
    if strategy == "single":
        return 3 * pairs + 3 * own
    return 4 * pairs + 4 * own * blocks + 2 * math.ceil(components / chunk) * blocks


def seed_rule(total: float, device: float) -> str:
    """What the first systems of this kind do, on one device."""
    if total <= 0.8 * device:
        return "single"
    return "chunked" if total <= 1.5 * device else "gradient_accumulation"


def decided(given: Shape, cost: Any, budget: int) -> Folding | None:
    try:
        return decide(given, cost, budget)
    except BudgetError:
        return None


sizes = {
    "components": st.integers(1, 20_000),
    "samples": st.integers(1, 2000),
    "pair": st.floats(1, 1e4),
    "budget": st.integers(10 * MB, 10**11),
}


@given(**sizes)
def test_never_slower_than_the_rules_of_thumb(components: int, samples: int, pair: float, budget: int):
    given, cost = shape(components=components, samples=samples), linear(pair)
    total = given.kept + cost(samples).at(components)
    rule = seed_rule(total, budget)
    found = decided(given, cost, budget)
    ruled = decided(shape(components=components, samples=samples, strategy=rule), cost, budget)
    if found is None or ruled is None:  # where the rule's choice fits, so does this one's
        assert ruled is None
        assert found is not None or given.kept + pair > 0.8 * budget
        return
    times = []
    for each in (found, ruled):
        blocks = math.ceil(samples / each.samples)
        times.append(time_of(each.plan.strategy, each.plan.batch, blocks, components, samples))
    assert times[0] <= times[1]


@given(**sizes, chunk=st.one_of(st.none(), st.integers(1, 5000)), strategy=st.sampled_from(["auto", "chunked"]))
def test_what_is_predicted_is_within_the_budget(
    components: int, samples: int, pair: float, budget: int, chunk: int | None, strategy: str
):
    try:
        found = decide(
            shape(components=components, samples=samples, chunk=chunk, strategy=strategy), linear(pair), budget
        )
    except BudgetError:
        return
    assert found.plan.cost.guarded(found.plan.batch) <= budget
    assert found.plan.predicted <= budget
    assert 1 <= found.plan.batch <= min(components, chunk or components)
    assert 1 <= found.samples <= samples


@given(budget=st.integers(10 * MB, 10**10), more=st.floats(1, 100))
def test_more_memory_is_never_slower(budget: int, more: float):
    order = ["single", "chunked", "gradient_accumulation"]
    low, high = (decide(shape(), linear(1e4), int(each)) for each in (budget, budget * more))
    assert order.index(high.plan.strategy) <= order.index(low.plan.strategy)
    if high.plan.strategy == low.plan.strategy:
        assert high.plan.batch * high.samples >= low.plan.batch * low.samples * 0.5


def strategies(budget: float, **given: Any) -> Folding:
    return decide(shape(**given), linear(1e4), int(budget))


def test_each_strategy_has_its_place():
    assert strategies(1e9).plan.strategy == "single"  # 640 MB in all
    chunked = strategies(3e8)
    assert (chunked.plan.strategy, chunked.samples) == ("chunked", 64)
    assert chunked.plan.steps == 3
    tight = strategies(3e5)  # a component for 64 samples takes 640 kB
    assert tight.plan.strategy == "gradient_accumulation" and tight.samples == 16
    assert "16 at a time" in tight.plan.work
    with pytest.raises(BudgetError, match="one component needs"):
        strategies(1e4)
    with pytest.raises(BudgetError, match="which cannot be cut"):
        strategies(3e8, strategy="single")


def test_without_a_backward_pass_chunks_are_no_slower():
    assert strategies(1e12, differentiates=False).plan.strategy == "chunked"
    assert strategies(1e12, fused=True).plan.strategy == "chunked"  # it computes again either way


def test_a_chunk_that_was_asked_for_is_kept_where_it_fits():
    assert strategies(1e9, chunk=300).plan.batch == 300  # and not four times 250
    assert strategies(1e9, chunk=300).plan.strategy == "chunked"
    assert strategies(1e9, chunk=3000).plan.batch == 1000
    assert strategies(1e8, chunk=300).plan.batch < 300


def test_chunks_stop_growing_where_it_gains_nothing():
    assert strategies(1e12, components=10**6, strategy="chunked").plan.batch <= 4096
    assert strategies(1e12, components=10**6, strategy="chunked", most=64).plan.batch <= 64
    assert strategies(1e12, components=10**6, strategy="chunked", device="cpu").plan.batch <= 100


def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    r = x[:, None] - chunk
    return -r.square().sum(-1), r


def test_a_plan_is_explained():
    c, x = points(300, 40)
    plan = plan_fold(term, c, x, budget="1GB")
    assert (plan.strategy, plan.items, plan.devices, plan.precision) == ("single", 300, ("cpu",), "float64")
    text = plan.explain()
    for word in ("fold of 300 components for 40 samples", "from a probe", "gradient_accumulation", "single is faster"):
        assert word in text
    assert plan_fold(term, c, x, strategy="chunked", chunk=7).batch == 7
    assert plan_fold(term, c, x, strategy="single", chunk=7).strategy == "single"
    assert plan_fold(term, c, x, strategy="gradient_accumulation").strategy == "gradient_accumulation"
    with pytest.raises(InputError, match="nothing to plan"):
        plan_fold(term, c[:0], x)


def test_a_budget_decides():
    c, x = points(40_000, 100, dtype=torch.float32)
    free = plan_fold(term, c, x, budget="10GB")
    tight = plan_fold(term, c, x, budget="20MB")
    assert free.strategy == "single" and tight.strategy == "chunked"
    assert tight.batch < free.batch and tight.predicted * 1.1 <= 20 * MB


def test_a_probe_is_measured_once(monkeypatch: pytest.MonkeyPatch):
    calls = []
    real = probe.measured
    monkeypatch.setattr(prepare, "measured", lambda *given: calls.append(1) or real(*given))
    c, x = points()
    module = Bumps()
    for _ in range(3):
        fold(module, c, x)
    assert len(calls) == 1
    for _ in range(3):

        def made_anew(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return module(chunk, x)

        fold(made_anew, c, x)
    assert len(calls) == 2
    fold(module, c[:16], x)
    fold(module, c, x[:4])  # nearly as many
    assert len(calls) == 2
    fold(module, c, x[:1])
    with torch.no_grad():
        fold(module, c, x)
    assert len(calls) == 4
    fold(module, c, x, strategy="chunked", chunk=4)
    fold(module, c, x, strategy="single")
    assert len(calls) == 4  # nothing to decide


class Features:
    """Bumps in as many features as there are; a term by a method, or by a function that closes over a tensor."""

    def __init__(self, count: int) -> None:
        self.weight_dF = torch.ones(3, count, dtype=torch.float64)

    def term(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h_BkF = torch.tanh((x[:, None] - chunk) @ self.weight_dF)
        return -h_BkF.square().sum(-1), h_BkF[..., :1]

    def closed(self, scale: float = 1.0) -> Any:
        weight_dF = self.weight_dF

        def inner(r: Tensor) -> Tensor:
            return torch.tanh(r @ weight_dF) * scale

        def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            h_BkF = inner(x[:, None] - chunk)
            return -h_BkF.square().sum(-1), h_BkF[..., :1]

        return term

    @staticmethod
    def counted(count: int) -> Any:
        def term(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return Features(count).term(chunk, x)

        return term


@pytest.mark.parametrize(
    "made", [lambda count: Features(count).term, lambda count: Features(count).closed(), Features.counted]
)
def test_what_is_remembered_is_of_that_function(made: Any):
    c, x = points(300, 16)
    small, large = made(2), made(500)
    costs = [plan_fold(each, c, x, strategy="chunked").cost.per_unit for each in (small, large)]
    assert costs[1] > 20 * costs[0]


def test_a_function_made_anew_is_not_measured_anew(monkeypatch: pytest.MonkeyPatch):
    calls = []
    real = probe.measured
    monkeypatch.setattr(prepare, "measured", lambda *given: calls.append(1) or real(*given))
    c, x = points()
    features = Features(3)
    for step in range(3):
        fold(features.closed(scale=1 / (1 + step)), c, x)  # also where a number follows a schedule
    assert len(calls) == 1
    for _ in range(2):
        fold(features.term, c, x)
    assert len(calls) == 2
    for count in range(70):
        drawer = prepare._drawer(Features.counted(count))
        fold(Features.counted(count), c, x)
    assert len(drawer) <= 64


def test_a_function_that_closes_over_itself_and_odd_things():
    c, x = points()

    def term(chunk: Tensor, x: Tensor, odd: Any = (None, {"a": [1.0, "b"]}, torch.float64)) -> tuple[Tensor, Tensor]:
        assert again is not None and later is not None and odd is not None and unhashable is not None
        r = x[:, None] - chunk
        return -r.square().sum(-1), r

    again: list[Any] = [term]
    again.append(again)
    later, unhashable = term, bytearray(3)
    first = fold(term, c, x)[0]
    torch.testing.assert_close(fold(term, c, x)[0], first)


def test_a_term_that_is_gone_is_forgotten():
    c, x = points()
    gc.collect()
    before = len(prepare._memory)
    module = Bumps()
    fold(module, c, x)
    assert len(prepare._memory) == before + 1
    del module
    gc.collect()
    assert len(prepare._memory) == before


def test_a_term_that_cannot_be_remembered_is_measured_each_time():
    class Slotted:
        __slots__ = ()

        def __call__(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return term(chunk, x)

    c, x = points()
    torch.testing.assert_close(fold(Slotted(), c, x)[0], fold(term, c, x)[0])


def test_a_term_says_what_it_costs():
    class Priced(Fused):
        most = 8

        def cost(self, samples: int, dtype: torch.dtype) -> Any:
            return Cost(1e6, 1e5 * samples) if dtype == torch.float64 else "much"

    c, x = points(100, 10)
    priced = Priced(torch.tensor(0.7, dtype=torch.float64, requires_grad=True))
    plan = plan_fold(priced, c, x, budget="100MB")
    assert (plan.strategy, plan.batch, plan.cost.per_unit, plan.cost.source) == ("chunked", 8, 1e6, "formula")
    assert not priced.calls
    fold(priced, c, x, budget="100MB")[0].sum().backward()
    assert {k for k, _ in priced.calls} == {8, 4}
    with pytest.raises(ConfigError, match=r"brimful\.Cost"):
        plan_fold(Priced(torch.tensor(0.7, requires_grad=True)), c.float(), x.float())
    c.grad = x.grad = None

    gc.collect()
    before = len(prepare._memory)
    del priced
    gc.collect()
    assert len(prepare._memory) < before  # its formula does not keep it alive


@pytest.mark.parametrize("differentiates", [True, False])
def test_bytes_of_a_probe_follow_the_tensors(differentiates: bool):
    c, x = points(50, 200, dtype=torch.float32)
    if not differentiates:
        c, x = c.detach(), x.detach()
    cost = plan_fold(term, c, x, strategy="chunked").cost
    floats = cost.per_unit / (200 * 4)  # of a pair
    # Three of the difference, one of the logit, and with gradients: its square, the weights, what is pulled back.
    assert 4 <= floats <= (24 if differentiates else 12)


@pytest.mark.parametrize(
    ("strategy", "budget"), [("single", "1GB"), ("chunked", "15MB"), ("gradient_accumulation", "4MB")]
)
def test_what_is_predicted_is_what_is_used(strategy: str, budget: str):
    bumps, (c, x) = Bumps(dtype=torch.float32), points(3000, 100, dtype=torch.float32)
    plan = plan_fold(bumps, c, x, strategy=strategy, budget=budget)
    with LiveBytes() as live:
        lse, mean = fold(bumps, c, x, strategy=strategy, budget=budget)
        (lse.sum() + mean.sum()).backward()
    assert live.peak == pytest.approx(plan.predicted, rel=0.2)
    assert live.peak <= plan.budget


def test_what_only_large_chunks_need_is_predicted():
    def wide(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Where the values of all samples are the same, and their gradients are not: few components hide that."""
        return x @ chunk.T, chunk.expand(len(x), -1, -1)

    c, x = points(3000, 64, width=32, dtype=torch.float32)
    for strategy, budget in (("single", "1GB"), ("chunked", "10MB")):
        plan = plan_fold(wide, c, x, strategy=strategy, budget=budget)
        with LiveBytes() as live:
            lse, mean = fold(wide, c, x, strategy=strategy, budget=budget)
            (lse.sum() + mean.sum()).backward()
        assert live.peak == pytest.approx(plan.predicted, rel=0.2)


def test_a_compiled_term_is_measured_too():
    c, x = points()
    compiled: Any = torch.compile(Bumps(), backend="eager")
    lse, mean = fold(compiled, c, x)
    torch.testing.assert_close((lse, mean), fold(Bumps(), c, x))


def test_a_trial_that_does_not_fit_takes_fewer_samples():
    c, x = points(6, 64)
    full = Full(Bumps(), 100)
    plan = plan_fold(full, c, x)  # 4 components for 64 samples are too much
    assert plan.cost.per_unit > 0
    with pytest.raises(BudgetError, match="for one sample"):
        plan_fold(Full(Bumps(), 0), c, x)


@pytest.mark.parametrize("most", [1, 3])
def test_a_trial_of_which_only_the_smallest_fits(most: int):
    inner, (c, x) = Bumps(), points(6, 4)
    wanted = [c, x, *inner.parameters()]
    assert plan_fold(Full(inner, most), c, x).cost.per_unit > 0
    with pytest.warns(BrimfulWarning):
        found = gradients(Full(inner, most), c, x, wanted)
    same(found, direct(inner, c, x, wanted))


@pytest.mark.parametrize("held", [False, True])
def test_gradients_of_half_precision_are_counted_as_they_are_kept(held: bool):
    c, x = (each.detach().bfloat16() for each in points(20_000, 4, width=64, dtype=torch.float32))
    table = torch.zeros(20_000, 64, dtype=torch.bfloat16, requires_grad=held)
    c.requires_grad_(not held)

    def looked_up(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = x[:, None] - chunk - table[:1]
        return -r.square().sum(-1), r[..., :1]

    # 1.3 million gradients, of 4 bytes as they are added up and of 2 at the end.
    with pytest.raises(BudgetError, match=r"7\.\d* MB fixed"):
        plan_fold(looked_up, c, x, strategy="chunked", chunk=100, budget="6MB")
    plan = plan_fold(looked_up, c, x, strategy="chunked", chunk=100, budget="20MB")
    with LiveBytes() as live:
        fold(looked_up, c, x, strategy="chunked", chunk=100, budget="20MB")[0].sum().backward()
    assert live.peak <= plan.predicted <= 1.1 * live.peak
    assert plan_fold(looked_up, c, x, strategy="single", budget="1GB").cost.fixed < 7 * MB  # which needs no sums
