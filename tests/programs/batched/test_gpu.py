"""The batched executor on a CUDA device, beside the sequential one."""

import random

import pytest
import torch

from brimful import programs
from brimful.programs.batched import gpu, segments
from brimful.programs.batched import rows as ragged
from brimful.programs.batched.columns import Grids, Patches
from brimful.programs.batched.convert import encode
from brimful.programs.batched.executor import Batched
from brimful.programs.batched.extents import extent, extent_plain
from brimful.programs.batched.operations.painting import filled, filled_plain
from brimful.programs.batched.results.copied_rows import copy_rows, copy_rows_plain
from brimful.programs.batched.results.sample_batch import run_batch
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.sequential import Sequential
from brimful.programs.generate import generate

from .helpers import random_grid

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("clean_device")]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_generated_batt_agrees(seed):
    graph = programs.loads(generate(400, seed)).merge()
    rng = random.Random(seed)
    samples = []
    for number in range(12):
        one, other = (random_grid(rng, rng.randint(1, 20), rng.randint(1, 20)) for _ in range(2))
        samples.append(Arguments(str(number), ((one, other),), one, other))
    batch, one_by_one = Batched(graph, device="cuda").evaluate(samples), Sequential(graph)
    for at, sample in enumerate(samples):
        expected = one_by_one.evaluate(sample)
        failed = {node: int(category) for node, category in enumerate(batch.failed[:, at]) if category}
        assert failed == {node: int(failure.category) for node, failure in expected.failures.items()}
        for node, step in batch.steps.items():
            if not callable(expected.values[node]):
                assert step.decode([at]) == [expected.values[node]], graph.nodes[node].label


@pytest.mark.parametrize("kernel", [True, False])
def test_results_of_a_batch_have_the_same_bytes(kernel, monkeypatch: pytest.MonkeyPatch):
    if not kernel:
        monkeypatch.setattr(gpu, "kernels_run", lambda device: False)
    graph, rng = programs.loads(generate(300, 3)).merge(), random.Random(3)
    grids = [random_grid(rng, rng.randint(1, 30), rng.randint(1, 30)) for _ in range(40)]
    samples = [Arguments("task", ((one, one),), one, one) for one in [*grids, ((300, -1),), ((5,) * 200,) * 3]]
    there, here = (run_batch(Batched(graph, device=name), samples, [None] * len(samples)) for name in ("cuda", "cpu"))
    for one, other in zip(there[:4], here[:4], strict=True):
        assert (one == other).all()
    assert (there[4].offsets == here[4].offsets).all() and (there[4].flat == here[4].flat).all()


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int8, torch.bool])
@pytest.mark.parametrize("rows", [0, 1, 7, 3_000])
def test_rows_by_kernels_and_by_torch(kind, rows):
    """Empty rows, long ones, rows that are named often, and none."""
    random = torch.Generator().manual_seed(rows)
    sizes = torch.randint(0, 40, (rows,), generator=random) * torch.randint(0, 2, (rows,), generator=random)
    sizes[: rows // 1_000] = 5_000
    offsets = ragged.offsets_of(sizes.cuda())
    flat = torch.randint(-100, 100, (int(offsets[-1]),), generator=random).to("cuda", kind)
    index = torch.randint(0, max(1, rows), (2 * rows,), generator=random).cuda()
    values = torch.randint(-100, 100, (rows,), generator=random).to("cuda", kind)
    assert gpu.has_kernels(flat)
    pairs = [
        (ragged.taken(flat, offsets, index), ragged.taken_plain(flat, offsets, index)),
        (ragged.gathered(offsets, index), ragged.gathered_plain(offsets, index)),
        ((ragged.owners(offsets),), (ragged.owners_plain(offsets),)),
        ((ragged.repeated(values, offsets),), (ragged.repeated_plain(values, offsets),)),
        (ragged.taken(flat, offsets, index[::2]), ragged.taken_plain(flat, offsets, index[::2])),
    ]
    for ours, plain in pairs:
        for one, other in zip(ours, plain, strict=True):
            assert one.dtype == other.dtype and torch.equal(one, other)


@pytest.mark.parametrize("rows", [0, 1, 5, 2_000])
def test_sums_extremes_and_equality_of_rows(rows):
    random = torch.Generator().manual_seed(rows)
    sizes = torch.randint(0, 3, (rows,), generator=random) * torch.randint(0, 400, (rows,), generator=random)
    offsets = ragged.offsets_of(sizes.cuda())
    values = torch.randint(-(2**40), 2**40, (int(offsets[-1]),), generator=random).cuda()
    assert torch.equal(segments.totals(values, offsets), segments.totals_plain(values, offsets))
    for empty in (0, -7, segments.FAR):
        assert torch.equal(segments.minima(values, offsets, empty), segments.minima_plain(values, offsets, empty))
        assert torch.equal(segments.maxima(values, offsets, -empty), segments.maxima_plain(values, offsets, -empty))
    other, longer = values.clone(), sizes.cuda()
    other[::301] += 1
    longer[::7] += 1
    padded = torch.cat([other, other[: int(longer.sum()) - len(other)]]) if rows else other
    more = ragged.offsets_of(longer)
    for b, b_offsets in ((other, offsets), (padded[: int(more[-1])], more), (values.clone(), offsets)):
        if len(b) == int(b_offsets[-1]):
            same = ragged.same_rows(values, offsets, b, b_offsets)
            assert torch.equal(same, ragged.same_rows_plain(values, offsets, b, b_offsets))


def test_patches_by_kernels_and_by_torch():
    rng = random.Random(0)
    grids = [random_grid(rng, rng.randint(1, 30), rng.randint(1, 30)) for _ in range(300)]
    sets = [frozenset((rng.randint(-5, 35), rng.randint(-5, 35)) for _ in range(rng.choice([0, 1, 40]))) for _ in grids]
    grid, patch = (
        encode(values, torch.device("cuda"), form)[0] for values, form in ((grids, "grid"), (sets, "indices"))
    )
    assert isinstance(grid, Grids) and isinstance(patch, Patches)
    value = torch.arange(len(grids), device="cuda") % 10
    assert torch.equal(filled(grid, patch, value), filled_plain(grid, patch, value))
    for one, other in zip(extent(patch), extent_plain(patch), strict=True):
        assert torch.equal(one, other)


def test_tensors_with_gaps():
    """Offsets of joined rows are every second of others; numbers may be a column of a matrix."""
    rng = torch.Generator().manual_seed(4)
    offsets = ragged.offsets_of(torch.randint(0, 30, (400,), generator=rng).cuda())[::2]
    flat = torch.randint(-100, 100, (int(offsets[-1]), 2), generator=rng).cuda()[:, 1]
    index = torch.randint(0, len(offsets) - 1, (600,), generator=rng).cuda()[::3]
    values = torch.randint(-100, 100, (len(offsets) - 1, 2), generator=rng).cuda()[:, 1]
    changed = torch.stack([flat, flat], 1)[:, 0]
    changed[::50] += 1
    pairs = [
        (ragged.taken(flat, offsets, index), ragged.taken_plain(flat, offsets, index)),
        (ragged.gathered(offsets, index), ragged.gathered_plain(offsets, index)),
        ((ragged.owners(offsets),), (ragged.owners_plain(offsets),)),
        ((ragged.repeated(values, offsets),), (ragged.repeated_plain(values, offsets),)),
        (
            (ragged.same_rows(flat, offsets, changed, offsets),),
            (ragged.same_rows_plain(flat, offsets, changed, offsets),),
        ),
        ((segments.totals(flat, offsets),), (segments.totals_plain(flat, offsets),)),
        ((segments.minima(flat, offsets, 7),), (segments.minima_plain(flat, offsets, 7),)),
        ((segments.maxima(flat, offsets, 7),), (segments.maxima_plain(flat, offsets, 7),)),
    ]
    for ours, plain in pairs:
        for one, other in zip(ours, plain, strict=True):
            assert torch.equal(one, other)
    written = []
    for copy in (copy_rows, copy_rows_plain):
        out = torch.full((2 * len(flat) + 1,), 7, dtype=torch.uint8, device="cuda")
        at = (2 * torch.stack([offsets[:-1], offsets[:-1]], 1) + 1)[:, 0]
        copy(out, at, flat.abs(), offsets)
        written.append(out[1:])
    assert torch.equal(*written)
