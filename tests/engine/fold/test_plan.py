"""The plan of a fold: the fastest way that fits, measured on a few components, remembered, never over the budget."""

import gc
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from brimful import BrimfulWarning, BudgetError, ConfigError, Cost, InputError, fold
from brimful.core.memory.plan import Plan
from brimful.core.memory.probe import LiveBytes
from brimful.engine.fold import plan_fold, planner, probe
from brimful.engine.fold.plan import FoldCost, FoldPlan, FoldSizes, Slowness, plan_strategies

from .folding import Bumps, Full, Fused, direct, gradients, points, same

pytestmark = pytest.mark.usefixtures("one_thread")
MB = 10**6


def sizes(**given: Any) -> FoldSizes:
    options: dict[str, Any] = {"components": 1000, "samples": 64, "max_chunk": lambda cost: 4096, "device": "cuda:0"}
    return FoldSizes(**{**options, **given})


def linear(per_pair: float) -> Any:
    """A cost in proportion to components times samples, with the sums of 64 samples."""
    return lambda samples: FoldCost({"running sums": 5120}, {"chunk": per_pair * samples})


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


def planned(given: FoldSizes, cost: Any, budget: float, strategy: str = "auto") -> FoldPlan | None:
    try:
        return plan_strategies("fold", given, cost, int(budget), strategy)
    except BudgetError:
        return None


ranges = {
    "components": st.integers(1, 20_000),
    "samples": st.integers(1, 2000),
    "per_pair": st.floats(1, 1e4),
    "budget": st.integers(10 * MB, 10**11),
}


@given(**ranges)
def test_never_slower_than_the_rules_of_thumb(components: int, samples: int, per_pair: float, budget: int):
    given, cost = sizes(components=components, samples=samples), linear(per_pair)
    total = cost(samples).total
    rule = seed_rule(total.at(components), budget)
    chosen, ruled = planned(given, cost, budget), planned(given, cost, budget, rule)
    if chosen is None or ruled is None:  # where the rule's choice fits, so does this one's
        assert ruled is None
        assert chosen is not None or total.fixed + per_pair > 0.8 * budget
        return
    times = [
        time_of(each.plan.strategy, each.plan.batch, math.ceil(samples / each.samples), components, samples)
        for each in (chosen, ruled)
    ]
    assert times[0] <= times[1]


@given(
    **ranges,
    chunk=st.one_of(st.none(), st.integers(1, 5000)),
    strategy=st.sampled_from(["auto", "chunked"]),
    ranks=st.integers(1, 4),
)
def test_what_is_predicted_is_within_the_budget(
    components: int, samples: int, per_pair: float, budget: int, chunk: int | None, strategy: str, ranks: int
):
    given = sizes(components=components, samples=samples, chunk=chunk, ranks=ranks)
    chosen = planned(given, linear(per_pair), budget, strategy)
    if chosen is None:
        return
    plan = chosen.plan
    assert plan.cost.guarded(plan.batch) <= budget and plan.predicted <= budget
    assert plan.predicted == pytest.approx(sum(size for _, size in plan.parts), rel=1e-6, abs=4)
    assert plan.batch >= 1 and (plan.strategy == "single" or plan.batch <= min(components, chunk or components))
    assert 1 <= chosen.samples <= samples
    assert all(other.parts for other in plan.rejected) and Plan.from_dict(plan.to_dict()) == plan


@given(budget=st.integers(10 * MB, 10**10), more=st.floats(1, 100))
def test_more_memory_is_never_slower(budget: int, more: float):
    order = ["single", "chunked", "gradient_accumulation"]
    low, high = (strategies(amount) for amount in (budget, budget * more))
    assert order.index(high.plan.strategy) <= order.index(low.plan.strategy)
    if high.plan.strategy == low.plan.strategy:
        assert high.plan.batch * high.samples >= low.plan.batch * low.samples * 0.5


def strategies(budget: float, strategy: str = "auto", **given: Any) -> FoldPlan:
    return plan_strategies("fold", sizes(**given), linear(1e4), int(budget), strategy)


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
    with pytest.raises(BudgetError, match="which cannot be"):
        strategies(3e8, "single")


def test_without_a_single_pass_chunks_are_taken():
    assert strategies(1e12, single=math.inf).plan.strategy == "chunked"
    assert strategies(1e12, single=None).plan.strategy == "chunked"


def test_a_chunk_that_was_asked_for_is_kept_where_it_fits():
    assert strategies(1e9, "chunked", chunk=300).plan.batch == 300  # and not four times 250
    assert strategies(1e9, "chunked", chunk=3000).plan.batch == 1000
    assert strategies(1e8, "chunked", chunk=300).plan.batch < 300


def test_chunks_stop_growing_where_it_gains_nothing():
    assert strategies(1e12, "chunked", components=10**6).plan.batch <= 4096
    assert strategies(1e12, "chunked", components=10**6, max_chunk=lambda cost: 64).plan.batch <= 64


def test_ranks_share_the_components_and_gather_the_samples():
    sharded = strategies(5e8, ranks=4)
    assert sharded.plan.strategy == "model_parallel" and sharded.plan.items == 250
    assert sharded.plan.cost.per_unit == 4 * 64 * 1e4
    assert strategies(1e12, ranks=2, slowness=Slowness(communication=2)).plan.strategy == "single"
    assert strategies(3e8, "gradient_accumulation", blocks=5).blocks == 5


def test_small_chunks_may_be_worse_than_blocks_of_samples():
    careful = Slowness(recompute=1, block=0.1, small_chunk=0.5, efficient_chunk=16)
    tight = strategies(5e6, slowness=careful)  # 7 components for 64 samples
    assert (tight.plan.strategy, tight.samples) == ("gradient_accumulation", 16)
    assert strategies(5e6).plan.strategy == "chunked"


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
    assert plan_fold(term, c, x, strategy="chunked", chunk_size=7).batch == 7
    assert plan_fold(term, c, x, strategy="single", chunk_size=7).strategy == "single"
    assert plan_fold(term, c, x, strategy="gradient_accumulation").strategy == "gradient_accumulation"
    with pytest.raises(InputError, match="nothing to plan"):
        plan_fold(term, c[:0], x)


def test_a_budget_decides():
    c, x = points(40_000, 100, dtype=torch.float32)
    free = plan_fold(term, c, x, budget="10GB")
    tight = plan_fold(term, c, x, budget="20MB")
    assert free.strategy == "single" and tight.strategy == "chunked"
    assert plan_fold(term, c, x, strategy="chunked", budget="10GB").batch < 4096  # what caches hold, on a CPU
    assert dict(tight.parts).keys() == {"in use", "gradients", "running sums", "workspace", "chunk"}
    assert tight.batch < free.batch and tight.predicted * 1.1 <= 20 * MB


def test_a_probe_is_measured_once(monkeypatch: pytest.MonkeyPatch):
    calls = []
    real = probe.measure
    monkeypatch.setattr(planner, "measure", lambda *given: calls.append(1) or real(*given))
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
    fold(module, c, x, strategy="chunked", chunk_size=4)
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
    real = probe.measure
    monkeypatch.setattr(planner, "measure", lambda *given: calls.append(1) or real(*given))
    c, x = points()
    features = Features(3)
    for step in range(3):
        fold(features.closed(scale=1 / (1 + step)), c, x)  # also where a number follows a schedule
    assert len(calls) == 1
    for _ in range(2):
        fold(features.term, c, x)
    assert len(calls) == 2
    monkeypatch.setattr(planner, "_PLANS", 4)
    for count in range(6):
        remembered = planner.remembered_of(Features.counted(count))
        fold(Features.counted(count), c, x)
    assert len(remembered) <= 4


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
    before = len(planner._remembered)
    module = Bumps()
    fold(module, c, x)
    assert len(planner._remembered) == before + 1
    del module
    gc.collect()
    assert len(planner._remembered) == before


def test_a_term_that_cannot_be_remembered_is_measured_each_time():
    class Slotted:
        __slots__ = ()

        def __call__(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return term(chunk, x)

    c, x = points()
    torch.testing.assert_close(fold(Slotted(), c, x)[0], fold(term, c, x)[0])


def test_a_term_says_what_it_costs():
    class Priced(Fused):
        max_chunk = 8

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
    before = len(planner._remembered)
    del priced
    gc.collect()
    assert len(planner._remembered) < before  # its formula does not keep it alive


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


@pytest.mark.parametrize("held", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_gradients_of_half_precision_are_counted_as_they_are_kept(held: bool):
    c, x = (each.detach().bfloat16() for each in points(20_000, 4, width=64, dtype=torch.float32))
    table = torch.zeros(20_000, 64, dtype=torch.bfloat16, requires_grad=held)
    c.requires_grad_(not held)

    def looked_up(chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r = x[:, None] - chunk - table[:1]
        return -r.square().sum(-1), r[..., :1]

    # 1.3 million gradients, of 4 bytes as they are added up and of 2 at the end.
    with pytest.raises(BudgetError, match=r"7\.\d* MB fixed"):
        plan_fold(looked_up, c, x, strategy="chunked", chunk_size=100, budget="6MB")
    plan = plan_fold(looked_up, c, x, strategy="chunked", chunk_size=100, budget="20MB")
    with LiveBytes() as live:
        fold(looked_up, c, x, strategy="chunked", chunk_size=100, budget="20MB")[0].sum().backward()
    assert live.peak <= plan.predicted <= 1.1 * live.peak
    assert plan_fold(looked_up, c, x, strategy="single", budget="1GB").cost.fixed < 7 * MB  # which needs no sums
