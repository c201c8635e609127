"""The capacity of a batch by a line through peaks, where the line contradicts what was measured."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from brimful.core.memory.cost import Cost
from brimful.engine.map.memory_model import MemoryModel

MB = 10**6


def test_a_size_that_ran_is_not_refused_for_a_fixed_part_that_two_noisy_peaks_make_up():
    """Peaks of 512 and 1024 differ by less than their weights, so that nearly all of them looks fixed, and with the
    results that stay nothing fits; 256 items ran in a fifth of the budget all the same."""
    alone: dict[float, int] = {64: int(2.4 * MB), 256: 13 * MB, 512: 12 * MB, 1024: 34 * MB}
    overlapped: dict[float, int] = {64: int(4.7 * MB), 256: 14 * MB, 512: 53 * MB, 1024: 63 * MB}
    memory = MemoryModel(alone=alone, overlapped=overlapped, transfers=28_000, results=32 * MB, growth=11_000)
    cost = memory.cost
    assert cost is not None
    assert cost.capacity(75 * MB) == 0
    assert memory.capacity(75 * MB) == 256


@given(st.data())
def test_no_capacity_is_above_the_line_but_what_was_measured_with_all_that_is_smaller(data: st.DataObject):
    sizes, bytes_ = [64.0, 128.0, 256.0, 512.0], st.lists(st.integers(1000, 50 * MB), min_size=4, max_size=4)
    overlapped = dict(zip(sizes, data.draw(bytes_), strict=True))
    alone = {size: min(peak, other) for (size, peak), other in zip(overlapped.items(), data.draw(bytes_), strict=True)}
    growth, transfers = data.draw(st.floats(0, 20_000)), data.draw(st.floats(0, 50_000))
    memory = MemoryModel(
        alone=alone, overlapped=overlapped, transfers=transfers, results=data.draw(st.integers(0, MB)), growth=growth
    )
    available, cost = data.draw(st.integers(MB, 100 * MB)), memory.cost
    assert cost is not None
    capacity = memory.capacity(available)
    if capacity > cost.capacity(available) and memory.largest_peak > available:
        for size in sizes[: sizes.index(capacity) + 1]:
            taken = max(overlapped[size], alone[size] + transfers * size) + memory.results + growth * capacity
            assert taken <= available


def test_a_size_that_ran_is_refused_where_more_is_known():
    overlapped: dict[float, int] = {256: 14 * MB, 512: 53 * MB, 1024: 63 * MB}
    alone: dict[float, int] = {256: 13 * MB, 512: 12 * MB, 1024: 34 * MB}
    memory = MemoryModel(alone=alone, overlapped=overlapped, results=32 * MB)
    assert memory.capacity(75 * MB) == 256
    assert replace(memory, excess=1.0).capacity(75 * MB) == 0
    known = Cost(60 * MB, 1000, source="remembered")
    assert replace(memory, prior=known).capacity(75 * MB) == 0
