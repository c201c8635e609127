"""Admission, simulated: random machines, jobs and events, and what must hold whatever happens."""

import heapq
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from brimful.service.jobs.admission import AGEING, PATIENCE, Decision, Waiting, admit, order
from brimful.service.jobs.lease import Amount, Capacity, Demand, Lease, total

GB = 10**9
SOAK = bool(os.environ.get("BRIMFUL_SOAK"))


def machine(gpus: int = 1, size: int = 100 * GB, cores: int = 16, host: int = 500 * GB) -> Capacity:
    return Capacity(bytes={"cpu": host, **{f"cuda:{index}": size for index in range(gpus)}}, cores=cores)


def waiting(name: str, gigabytes: float = 10, priority: int = 0, since: float = 0.0, **demand: object) -> Waiting:
    needs = Demand(device_bytes=int(gigabytes * GB), host_bytes=GB, **demand)  # pyright: ignore[reportArgumentType]
    return Waiting(job=name, demand=needs, priority=priority, since=since)


def lease(name: str, gigabytes: float, since: float = 0.0, device: str = "cuda:0") -> Lease:
    return Lease(job=name, devices=(device,), demand=Demand(device_bytes=int(gigabytes * GB)), since=since)


def names(decision: Decision) -> list[str]:
    return [one.job for one in decision.started]


def test_two_that_fit_start_together_and_one_that_does_not_waits_with_a_reason():
    decision = admit(machine(), [], [waiting("a", 40), waiting("b", 50, since=1), waiting("c", 20, since=2)], 3)
    assert names(decision) == ["a", "b"]
    assert decision.waiting == {"c": "it needs 20.00 GB on a device, and 10.00 GB are free; it waits for others"}


def test_the_sum_may_fill_the_device_to_the_byte():
    decision = admit(machine(), [lease("x", 60)], [waiting("a", 40), waiting("b", 1e-9, since=1)], 2)
    assert names(decision) == ["a"]


def test_cores_and_host_memory_are_leased_alike():
    few = machine(cores=2, host=10 * GB)
    decision = admit(few, [], [waiting("a", 1, cores=2), waiting("b", 1, since=1)], 2)
    assert names(decision) == ["a"] and "1 core, and 0 are free" in decision.waiting["b"]
    on_host = [waiting("a", 6, device="cpu"), waiting("b", 2, device="cpu", since=1), waiting("c", 1, since=2)]
    assert names(admit(machine(cores=9, host=10 * GB), [], on_host, 3)) == ["a", "b"]  # 6 + 1 and 2 + 1 GB


def test_a_higher_priority_goes_first_until_the_other_has_waited():
    old, new = waiting("old", 60), waiting("new", 60, priority=5, since=4 * AGEING)
    assert names(admit(machine(), [], [old, new], 4 * AGEING)) == ["new"]
    late = replace(new, since=6 * AGEING)
    assert names(admit(machine(), [], [old, late], 6 * AGEING)) == ["old"]


def test_a_job_goes_to_the_device_with_most_room():
    decision = admit(machine(2), [lease("x", 30)], [waiting("a", 20)], 1)
    assert decision.started[0].devices == ("cuda:1",)


@pytest.mark.parametrize(
    ("device", "devices"),
    [
        ("cpu", ("cpu",)),
        ("cuda:1", ("cuda:1",)),
        ("1", ("cuda:1",)),
        ("cuda:0,cuda:1", ("cuda:0", "cuda:1")),
        ("cuda:all", ("cuda:0", "cuda:1")),
    ],
)
def test_devices_that_a_config_names(device: str, devices: tuple[str, ...]):
    assert admit(machine(2), [], [waiting("a", 20, device=device)], 1).started[0].devices == devices


def test_auto_is_the_cpu_where_there_is_no_gpu_and_a_named_one_waits_for_its_return():
    decision = admit(machine(0), [], [waiting("a"), waiting("b", device="cuda:0")], 1)
    assert decision.started[0].devices == ("cpu",)
    assert decision.waiting["b"] == "there is no device 'cuda:0' for it now; there are cpu"


def test_what_can_never_fit_holds_nobody_up():
    decision = admit(machine(), [], [waiting("a", 101), waiting("b", 1, since=9, cores=17), waiting("c", 99)], 1e6)
    assert names(decision) == ["c"]
    assert "the largest budget is 100 GB" in decision.waiting["a"] and "17 cores" in decision.waiting["b"]


def test_leases_on_a_lost_device_or_over_a_lowered_budget_hold_up_only_those_who_need_it():
    lost = admit(machine(1), [lease("x", 90, device="cuda:1")], [waiting("a")], 1)
    assert names(lost) == ["a"]
    lowered = machine(2, size=50 * GB)
    decision = admit(lowered, [lease("x", 90)], [waiting("a", device="cuda:0"), waiting("b", since=1)], 2)
    assert [(one.job, one.devices) for one in decision.started] == [("b", ("cuda:1",))]


def test_small_jobs_pass_a_large_one_until_its_patience_ends():
    large, running = waiting("large", 80), [lease("x", 40)]
    assert names(admit(machine(), running, [large, waiting("small", 40, since=1)], PATIENCE - 1)) == ["small"]
    decision = admit(machine(), running, [large, waiting("small", 40, since=1)], PATIENCE)
    assert names(decision) == [] and "reserved for job large" in decision.waiting["small"]
    beside = admit(machine(), running, [large, waiting("small", 20, since=1)], PATIENCE)
    assert names(beside) == ["small"]  # it fits beside the large one, when x has ended
    again = [lease("x", 40), lease("small", 20, since=PATIENCE)]
    assert names(admit(machine(), again, [large, waiting("other", 1, since=2)], PATIENCE + 1)) == []


@dataclass
class Simulation:
    """A machine and its jobs over time; every decision is checked as it is made."""

    rng: random.Random
    capacity: Capacity = field(default_factory=machine)
    clock: float = 0.0
    queue: dict[str, Waiting] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    ends: list[tuple[float, str]] = field(default_factory=list)
    waited: dict[str, float] = field(default_factory=dict)
    longest: float = 0.0

    def decide(self) -> None:
        queue = list(self.queue.values())
        leases = list(self.leases.values())
        before = total(one.amount for one in leases)
        decision = admit(self.capacity, leases, queue, self.clock)
        if self.rng.random() < 0.1:
            shuffled = self.rng.sample(queue, len(queue)), self.rng.sample(leases, len(leases))
            assert decision == admit(self.capacity, shuffled[1], shuffled[0], self.clock)
        self.check_never_over(decision, before)
        self.check_order(decision)
        assert {one.job for one in decision.started} | set(decision.waiting) == set(self.queue)
        for one in decision.started:
            self.leases[one.job] = one
            self.waited[one.job] = self.clock - self.queue.pop(one.job).since
            runs = self.rng.expovariate(1 / 200)
            self.longest = max(self.longest, runs)
            heapq.heappush(self.ends, (self.clock + runs, one.job))

    def check_never_over(self, decision: Decision, used: Amount) -> None:
        for one in decision.started:
            used = used + one.amount
            assert used.cores <= self.capacity.cores
            for name, size in one.amount.bytes.items():
                assert not size or used.bytes[name] <= self.capacity.bytes[name]

    def check_order(self, decision: Decision) -> None:
        """Nobody starts while one before it, who needs the same or less, waits."""
        started = {one.job for one in decision.started}
        left: list[Demand] = []
        for one in order(self.queue.values(), self.clock):
            needs = one.demand
            if one.job not in started:
                left.append(needs)
                continue
            for other in left:
                same = (other.device, other.host_bytes) == (needs.device, needs.host_bytes)
                assert not (same and other.device_bytes <= needs.device_bytes and other.cores <= needs.cores)

    def advance(self, until: float) -> None:
        """Jobs end, one by one, and after each the next are chosen."""
        while self.ends and self.ends[0][0] <= until:
            self.clock, job = heapq.heappop(self.ends)
            del self.leases[job]
            self.decide()
        self.clock = until

    def change(self) -> None:
        """A device is lost or comes back, or the budget changes."""
        size = self.rng.choice([20, 50, 100, 100]) * GB
        self.capacity = machine(self.rng.randint(0, 3), size, self.rng.choice([4, 16]))


def demands(rng: random.Random) -> Demand:
    return Demand(
        device=rng.choice(["auto", "auto", "auto", "cpu", "cuda", "cuda:0", "cuda:0,cuda:1"]),
        device_bytes=int(rng.choice([1, 5, 10, 40, 90]) * GB),
        host_bytes=rng.choice([1, 4]) * GB,
        cores=rng.choice([1, 1, 2, 4]),
    )


def workloads(count: int, seed: int) -> Iterator[random.Random]:
    for index in range(count):
        yield random.Random(seed + index)


def simulate(rng: random.Random, changes: bool) -> Simulation:
    simulation = Simulation(rng, machine(rng.randint(1, 3)))
    for number in range(rng.randint(4, 16)):
        simulation.advance(simulation.clock + rng.expovariate(1 / rng.choice([5, 60])))
        if changes and rng.random() < 0.2:
            simulation.change()
        name = f"job {number:03}"
        simulation.queue[name] = Waiting(
            job=name, demand=demands(rng), priority=rng.choice([0, 0, 0, -3, 5]), since=simulation.clock
        )
        simulation.decide()
    return simulation


def check_random_workloads(count: int, seed: int) -> None:
    for rng in workloads(count, seed):
        simulation = simulate(rng, changes=rng.random() < 0.5)
        simulation.capacity = machine(3)  # all is back: whoever waits gets a turn
        simulation.decide()
        simulation.advance(simulation.clock + 1e9)
        assert not simulation.queue and not simulation.leases


def test_random_workloads_are_never_over_in_order_and_all_run():
    check_random_workloads(1000, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_random_workloads_are_never_over_in_order_and_all_run(part: int):
    check_random_workloads(20_000, seed=10**6 * (part + 1))


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_large_job_does_not_starve_in_an_endless_stream_of_small_ones(gpus: int):
    for rng in workloads(4, seed=5):
        simulation = Simulation(rng, machine(gpus, cores=1000))
        for number in range(20 * gpus):  # the machine is full before the large one comes
            simulation.queue[f"first {number}"] = waiting(f"first {number}", 5, since=0.0)
        simulation.decide()
        simulation.queue["large"] = waiting("large", 100, since=simulation.clock)
        for number in range(4000):
            simulation.advance(simulation.clock + 11 / gpus)
            name = f"small {number:04}"
            simulation.queue[name] = waiting(name, 5, priority=rng.choice([0, 0, 3]), since=simulation.clock)
            simulation.decide()
            if "large" in simulation.waited:
                break
        assert simulation.waited["large"] <= PATIENCE + 3 * AGEING + simulation.longest + 11
