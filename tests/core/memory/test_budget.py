"""Budgets: what may be said, what it means, and holding it on a device that others use too."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import BrimfulWarning, BudgetError
from brimful.core.memory.budget import Budget
from brimful.core.memory.devices import Memory
from brimful.core.memory.limit import MemoryLimit

from ...helpers.memory import pages
from .allocator import holds

GB = 10**9
CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
MACHINE = Memory(total=16 * GB, free=10 * GB, own=1 * GB)


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ("8GB", 8 * GB),
        ("8GiB", 8 * 2**30),
        ("512MB", 512 * 10**6),
        (" 2 gb ", 2 * GB),
        ("1e9", GB),
        (8 * GB, 8 * GB),
        (8e9, 8 * GB),
        (np.int64(8 * GB), 8 * GB),
        (np.float64(8e9), 8 * GB),
        ("50%", 8 * GB),
        (" 12.5 % ", 2 * GB),
        ("100%", 16 * GB),
        (None, int(0.9 * 11 * GB)),
        (Budget(bytes=5 * GB), 5 * GB),
        ("1MB", 10**6),
    ],
)
def test_every_form(spec, limit: int):
    assert Budget.parse(spec).limit(MACHINE) == limit


@pytest.mark.parametrize(
    "spec",
    [
        *("", " ", "lots", "8XB", "GB", "-8GB", "-1", "0", "0GB", "1e999", "nan", "8,5GB"),
        *("0%", "-5%", "101%", "%", "x%", "nan%", "inf%"),
        *(0, -1, -8 * GB, 999_999, float("nan"), float("inf"), -float("inf"), 10**400, True, False),
        *([], (), object(), b"8GB", 8j),
        *({"cpu": "0"}, {"cpu": "lots"}, {"gpu": "8GB"}, {"cuda:x": "8GB"}, {"cpu": {"cpu": "8GB"}}),
    ],
    ids=lambda spec: repr(spec).split(" at ")[0][:30],  # the same in every process
)
def test_every_bad_form_is_a_budget_error(spec):
    with pytest.raises(BudgetError) as caught:
        Budget.parse(spec)
    assert "budget" in str(caught.value)


def test_a_bad_form_names_the_value_and_the_forms_there_are():
    with pytest.raises(BudgetError, match=r"'8 apples'.*8GB.*80%.*None"):
        Budget.parse("8 apples")


def test_a_number_that_forgot_its_unit_gets_a_hint():
    with pytest.raises(BudgetError, match='Did you mean "8GB"'):
        Budget.parse(8)
    with pytest.raises(BudgetError) as caught:
        Budget.parse(0)
    assert "Did you mean" not in str(caught.value)


def test_each_device_its_own():
    budget = Budget.parse({"cuda:1": "8GB", "cuda": "4GB", "cpu": "50%"})
    assert budget.on("cuda:1") == Budget(bytes=8 * GB)
    assert budget.on(torch.device("cuda", 0)) == Budget(bytes=4 * GB)
    assert budget.on("cpu") == Budget(share=0.5)
    assert Budget.parse({"cpu": "1GB"}).on("cuda:0") == Budget()
    assert Budget.parse("1GB").on("cuda:3") == Budget(bytes=GB)


def test_more_than_the_device_has_warns_and_is_clamped():
    with pytest.warns(BrimfulWarning, match=r"20\.00 GB.*16\.00 GB"):
        assert Budget.parse("20GB").limit(MACHINE) == MACHINE.total


@given(st.one_of(st.none(), st.integers(10**6, 10**14), st.floats(0.01, 100).map(lambda x: f"{x}%")))
def test_a_limit_is_never_above_the_device_nor_above_what_was_said(spec):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrimfulWarning)
        limit = Budget.parse(spec).limit(MACHINE)
    assert 0 <= limit <= MACHINE.total
    if isinstance(spec, int):
        assert limit <= spec


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("8GB", "8.00 GB"),
        ("80%", "80%"),
        (None, "90% of what is free"),
        ({"cuda": "8GB", "cpu": "12.5%"}, "cuda: 8.00 GB, cpu: 12.5%"),
    ],
)
def test_a_budget_says_itself(spec, text: str):
    assert str(Budget.parse(spec)) == text


class Machine:
    """A device whose memory the test moves about."""

    def __init__(self, total: int, free: int, own: int) -> None:
        self.total, self.free, self.own = total, free, own

    def __call__(self, device: torch.device) -> Memory:
        return Memory(self.total, self.free, self.own)

    def use(self, count: int) -> None:
        self.free, self.own = self.free - count, self.own + count

    def neighbor(self, count: int) -> None:
        self.free -= count


def test_on_a_cpu_only_what_is_above_the_start_counts():
    machine = Machine(16 * GB, 10 * GB, 2 * GB)
    with MemoryLimit("4GB", CPU, machine) as memory_limit:
        assert (memory_limit.used(), memory_limit.available()) == (0, 4 * GB)
        machine.use(3 * GB)
        assert (memory_limit.used(), memory_limit.available()) == (3 * GB, 4 * GB)
        machine.use(-5 * GB)
        assert memory_limit.used() == 0


def test_on_cuda_everything_reserved_counts():
    memory_limit = MemoryLimit("4GB", CUDA, Machine(16 * GB, 10 * GB, 2 * GB))
    assert (memory_limit.used(), memory_limit.available()) == (2 * GB, 4 * GB)


def test_neighbors_who_take_memory_lower_what_is_left_and_give_it_back():
    machine = Machine(16 * GB, 10 * GB, GB)
    memory_limit = MemoryLimit("4GB", CPU, machine)
    machine.use(2 * GB)
    machine.neighbor(7 * GB)
    assert memory_limit.available() == 1 * GB + 2 * GB - memory_limit.headroom
    machine.neighbor(-7 * GB)
    assert memory_limit.available() == 4 * GB


@given(
    spec=st.one_of(st.none(), st.integers(10**6, 16 * GB), st.sampled_from(["10%", "100%"])),
    moves=st.lists(st.tuples(st.booleans(), st.integers(-8 * GB, 8 * GB)), max_size=8),
    device=st.sampled_from([CPU, CUDA]),
)
def test_effective_is_never_above_the_limit_nor_above_what_can_be_had(spec, moves, device):
    machine = Machine(16 * GB, 10 * GB, GB)
    memory_limit = MemoryLimit(spec, device, machine)
    for own, count in moves:
        if own:
            machine.use(max(-machine.own, min(count, machine.free)))
        else:
            machine.neighbor(min(count, machine.free))
        effective = memory_limit.available()
        assert 0 <= effective <= memory_limit.bytes
        assert effective <= machine.free + memory_limit.used()


def test_a_real_cpu_is_held():
    with MemoryLimit("256MB", CPU) as memory_limit:
        block = pages(80_000_000)
        assert memory_limit.used() > 60_000_000
        assert 0 < memory_limit.available() <= memory_limit.bytes == 256_000_000
        del block


class Allocator:
    """Stands in for torch.cuda's per-process limit."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, total: int = 16 * GB, reserved: int = 0, allocated: int | None = None
    ) -> None:
        self.fraction, self.reserved, self.emptied, self.total = 1.0, reserved, 0, total
        monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: self.fraction)
        monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", self.set)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (self.total - self.reserved, self.total))
        holds(monkeypatch, reserved, reserved if allocated is None else allocated)
        monkeypatch.setattr(torch.cuda, "empty_cache", self.empty)

    def set(self, fraction: float, device: torch.device) -> None:
        assert device == CUDA
        assert 0 <= fraction <= 1
        self.fraction = fraction

    def empty(self) -> None:
        self.emptied += 1

    @property
    def allowed(self) -> int:
        return int(self.fraction * self.total)


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    return Allocator(monkeypatch)


def test_cuda_is_limited_and_the_limit_put_back(allocator: Allocator):
    with MemoryLimit("4GB", CUDA):
        assert 4 * GB - 1000 < allocator.allowed <= 4 * GB
    assert allocator.fraction == 1.0


def test_the_limit_is_put_back_after_an_error(allocator: Allocator):
    allocator.fraction = 0.75
    with pytest.raises(RuntimeError, match="boom"), MemoryLimit("4GB", CUDA):
        raise RuntimeError("boom")
    assert allocator.fraction == 0.75


def test_a_nested_hold_lowers_the_limit_and_never_raises_it(allocator: Allocator):
    with MemoryLimit("4GB", CUDA):
        outer = allocator.fraction
        with MemoryLimit("8GB", CUDA):
            assert allocator.fraction == outer
        with MemoryLimit("2GB", CUDA):
            assert allocator.allowed <= 2 * GB
        assert allocator.fraction == outer
    assert allocator.fraction == 1.0


@given(limit=st.integers(10**6, 200 * GB), total=st.integers(10**6, 200 * GB))
def test_the_fraction_set_never_allows_more_than_the_limit(limit: int, total: int):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", BrimfulWarning)
        allocator = Allocator(patch, total=total)
        with MemoryLimit(limit, CUDA):
            assert allocator.allowed <= limit


def test_memory_cached_past_the_limit_is_handed_back_first(monkeypatch: pytest.MonkeyPatch):
    allocator = Allocator(monkeypatch, reserved=4 * GB + 5_000_000, allocated=4 * GB - 5_000_000)
    with MemoryLimit("4GB", CUDA):
        assert allocator.emptied == 1


def test_a_budget_below_what_the_process_holds_is_refused_at_once(monkeypatch: pytest.MonkeyPatch):
    allocator = Allocator(monkeypatch, reserved=6 * GB)
    with pytest.raises(BudgetError, match=r"holds 6.00 GB of cuda:0 already, and the budget of 4.00 GB"):
        MemoryLimit("4GB", CUDA).__enter__()
    assert allocator.fraction == 1.0


@pytest.mark.gpu
def test_a_real_allocator_refuses_past_the_budget():
    device = torch.device("cuda", 0)
    before = torch.cuda.get_per_process_memory_fraction(device)
    with MemoryLimit("1GB", device), pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(2 * GB, dtype=torch.uint8, device=device)
    assert torch.cuda.get_per_process_memory_fraction(device) == before
    assert torch.empty(2 * GB, dtype=torch.uint8, device=device).numel() == 2 * GB


def test_only_a_number_without_a_unit_is_taken_for_gigabytes():
    with pytest.raises(BudgetError, match='Did you mean "8GB"'):
        Budget.parse("8")
    with pytest.raises(BudgetError) as caught:
        Budget.parse("1KB")
    assert "Did you mean" not in str(caught.value)
