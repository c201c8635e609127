"""What results take in memory: known at once where they have one shape, and counted as they come where not."""

from dataclasses import replace

from brimful.core.memory.cost import Cost
from brimful.engine.map.memory_model import Ceiling, MemoryModel
from brimful.engine.map.size_search import ResultsMeasured, SizerState, Steady, observe
from brimful.engine.map.store.result_bytes import ResultBytes

GATHERED = ResultBytes(beside=(2, 3), gathers=True, limit=10_000, items=100, weight=100.0)
WRITTEN = replace(GATHERED, gathers=False)


def feed(known: ResultBytes, memory: MemoryModel, sizes: list[tuple[int, int]], varies: bool) -> MemoryModel:
    """After batches of so many items and bytes of results; the first is a probe with inputs of 7 bytes per item."""
    for number, (count, outward) in enumerate(sizes):
        known = known.after(count, float(count), outward, probe=number == 0)
        memory = known.update(memory, float(count), outward, 7 * count if number == 0 else None, varies)
    return memory


def test_one_probe_tells_what_all_results_of_one_shape_take():
    memory = feed(GATHERED, MemoryModel(), [(10, 200), (10, 200)], varies=False)
    assert memory.results == 2000
    assert memory.transfers == 2 * 7 + 3 * 20
    assert memory.growth == 0


def test_results_of_one_shape_that_cannot_fit_are_known_at_once():
    assert feed(GATHERED, MemoryModel(), [(10, 2000)], varies=False).results == 20_000


def test_results_of_unequal_length_are_predicted_from_the_mean_so_far():
    assert feed(GATHERED, MemoryModel(), [(10, 200), (10, 400)], varies=True).results == 3000


def test_long_results_at_the_start_are_no_reason_to_give_up():
    memory = feed(GATHERED, MemoryModel(), [(10, 2000)], varies=True)
    assert memory.results == 2000  # and not the 20,000 that all would take, were they as long
    assert feed(GATHERED, MemoryModel(), [(10, 2000)] * 6, varies=True).results > GATHERED.limit


def test_a_stream_counts_what_has_come():
    endless = replace(GATHERED, items=None, weight=None)
    assert feed(endless, MemoryModel(), [(10, 200), (10, 300)], varies=True).results == 500
    assert feed(endless, MemoryModel(), [(10, 200), (10, 300)], varies=False).results == 500


def test_what_is_written_to_disk_does_not_accumulate():
    assert feed(WRITTEN, MemoryModel(results=77), [(10, 200), (10, 400)], varies=True).results == 77


def test_results_that_grow_make_batches_lighter():
    """20 bytes more for each item than the probe had: in the batch itself, and in the three that wait to be written."""
    memory = feed(WRITTEN, MemoryModel(Cost(0, 100.0, margin=0.0)), [(10, 200), (10, 400), (10, 300)], varies=True)
    assert memory.growth == 4 * 20
    state = SizerState(size=100.0, memory=memory, phase=Steady(), proven=(90.0, 5000))
    steady = replace(state, memory=replace(memory, growth=0.0))
    assert state.capacity(5000) < steady.capacity(5000) == 90
    assert state.most(5000) == state.room(5000)
    assert steady.most(5000) == Ceiling().weight


def test_a_light_batch_says_nothing_of_the_heavy_ones():
    assert feed(WRITTEN, MemoryModel(), [(10, 200), (1, 900)], varies=True).growth == 0
    heavier = feed(WRITTEN, MemoryModel(), [(1, 20), (1, 90), (10, 200)], varies=True)
    assert heavier.growth == 0  # what single items took before is forgotten


def test_results_of_one_shape_never_grow():
    assert feed(WRITTEN, MemoryModel(), [(10, 200), (10, 400)], varies=False).growth == 0


def test_what_was_measured_before_results_grew_is_what_it_would_take_now():
    """40 bytes more for each item of the second probe, in four batches: peaks of the first were lower than they are
    now, and beside those of the second would say that memory does not depend on the size of a batch."""
    first = WRITTEN.after(20, 20.0, 200, probe=True)
    second = first.after(10, 10.0, 500, probe=True)
    assert first.denser == 0
    assert second.denser == 40
    assert second.after(10, 10.0, 900, probe=False).denser == 0
    state = SizerState(size=20.0, memory=MemoryModel().with_probe(20.0, 3000).with_trials(20.0, 4000))
    memory = observe(state, ResultsMeasured(0.0, 0, 0.0, second.held * second.denser)).memory
    assert (memory.alone, memory.overlapped) == ({20.0: 3000 + 160 * 20}, {20.0: 4000 + 160 * 20})
    cost = memory.with_probe(10.0, 3500).with_trials(10.0, 4000).cost
    assert cost is not None
    assert cost.per_unit > 0


def test_a_fixed_part_that_would_fill_the_budget_is_doubted_where_batches_ran_inside_it():
    """Of both sizes the peaks are the same, so that it all seems fixed, though 100 items ran within 600 bytes. That of
    an earlier run is doubted too, once a single item has run."""
    flat = MemoryModel(results=300).with_probe(50.0, 600).with_probe(100.0, 600)
    flat = flat.with_trials(50.0, 600).with_trials(100.0, 600)
    cost = flat.cost
    assert cost is not None
    assert cost.capacity(950) == 0  # with the margin
    assert 40 < flat.capacity(950) < 50
    earlier = MemoryModel(Cost(600, 1.0, source="remembered"), results=300)
    assert earlier.capacity(950) == 0
    assert 9 < earlier.with_probe(1.0, 60).capacity(950) < 10
    assert flat.capacity(850) == 0  # less than was taken: it is no larger than it has to be
