"""The kernels for a GPU against their twins in torch: compiled where there is one, interpreted where there is none."""

import os
import random
from typing import Any

import numpy as np
import pytest
import torch

from .on_kernels import DEVICE, kernels  # noqa: F401  # before the kernels are defined

from brimful.programs.batched import segments  # isort: skip
from brimful.programs.batched import rows as ragged
from brimful.programs.batched.columns import Grids, Patches
from brimful.programs.batched.convert import encode
from brimful.programs.batched.extents import extent, extent_plain
from brimful.programs.batched.flags import Step
from brimful.programs.batched.operations.painting import filled, filled_plain
from brimful.programs.batched.results import on_device
from brimful.programs.batched.results.copied_rows import copy_rows, copy_rows_plain
from brimful.programs.batched.results.template import Part
from brimful.programs.execution import encoding

from ...helpers.forking import completed, run_module
from .helpers import random_grid

MANY, LONG = (3_000, 5_000) if DEVICE == "cuda" else (60, 300)  # the interpreter takes its time

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int8, torch.bool])
@pytest.mark.parametrize("rows", [0, 1, 7, MANY])
def test_rows_by_kernels_and_by_torch(kind, rows):
    """Empty rows, long ones, rows that are named often, and none."""
    random = torch.Generator().manual_seed(rows)
    sizes = torch.randint(0, 40, (rows,), generator=random) * torch.randint(0, 2, (rows,), generator=random)
    sizes[: rows // 20] = LONG
    offsets = ragged.offsets_of(sizes.to(DEVICE))
    flat = torch.randint(-100, 100, (int(offsets[-1]),), generator=random).to(DEVICE, kind)
    index = torch.randint(0, max(1, rows), (2 * rows,), generator=random).to(DEVICE)
    values = torch.randint(-100, 100, (rows,), generator=random).to(DEVICE, kind)
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


def test_parts_of_longer_tensors():
    """Rows that begin at addresses that are no multiple of 16 bytes."""
    offsets = ragged.offsets_of(torch.tensor([3, 0, 5, 1], device=DEVICE))
    index = torch.tensor([0, 9, 2, 0, 3, 1], device=DEVICE)[2:]
    for kind in (torch.int64, torch.int32, torch.int8):
        flat = torch.arange(20, device=DEVICE).to(kind)[1:10]
        assert torch.equal(ragged.taken(flat, offsets, index)[0], ragged.taken_plain(flat, offsets, index)[0])
        assert torch.equal(segments.totals(flat, offsets), segments.totals_plain(flat, offsets))


@pytest.mark.parametrize("rows", [0, 1, 5, MANY])
def test_sums_extremes_and_equality_of_rows(rows):
    random = torch.Generator().manual_seed(rows)
    sizes = torch.randint(0, 3, (rows,), generator=random) * torch.randint(0, 400, (rows,), generator=random)
    offsets = ragged.offsets_of(sizes.to(DEVICE))
    values = torch.randint(-(2**40), 2**40, (int(offsets[-1]),), generator=random).to(DEVICE)
    assert torch.equal(segments.totals(values, offsets), segments.totals_plain(values, offsets))
    for empty in (0, -7, segments.FAR):
        assert torch.equal(segments.minima(values, offsets, empty), segments.minima_plain(values, offsets, empty))
        assert torch.equal(segments.maxima(values, offsets, -empty), segments.maxima_plain(values, offsets, -empty))
    other, longer = values.clone(), sizes.to(DEVICE)
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
    grids = [random_grid(rng, rng.randint(1, 30), rng.randint(1, 30)) for _ in range(MANY // 10)]
    sets = [frozenset((rng.randint(-5, 35), rng.randint(-5, 35)) for _ in range(rng.choice([0, 1, 40]))) for _ in grids]
    grid, patch = (
        encode(values, torch.device(DEVICE), form)[0] for values, form in ((grids, "grid"), (sets, "indices"))
    )
    assert isinstance(grid, Grids) and isinstance(patch, Patches)
    value = torch.arange(len(grids), device=DEVICE) % 10
    assert torch.equal(filled(grid, patch, value), filled_plain(grid, patch, value))
    ours, plain = extent(patch), extent_plain(patch)
    for name in ("top", "left", "bottom", "right", "height", "width", "empty"):
        assert torch.equal(getattr(ours, name), getattr(plain, name)), name


def test_tensors_with_gaps():
    """Offsets of joined rows are every second of others; numbers may be a column of a matrix."""
    rng = torch.Generator().manual_seed(4)
    offsets = ragged.offsets_of(torch.randint(0, 30, (MANY // 5,), generator=rng).to(DEVICE))[::2]
    flat = torch.randint(-100, 100, (int(offsets[-1]), 2), generator=rng).to(DEVICE)[:, 1]
    index = torch.randint(0, len(offsets) - 1, (MANY // 4,), generator=rng).to(DEVICE)[::3]
    values = torch.randint(-100, 100, (len(offsets) - 1, 2), generator=rng).to(DEVICE)[:, 1]
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
        out = torch.full((2 * len(flat) + 1,), 7, dtype=torch.uint8, device=DEVICE)
        at = (2 * torch.stack([offsets[:-1], offsets[:-1]], 1) + 1)[:, 0]
        copy(out, at, flat.abs(), offsets)
        written.append(out[1:])
    assert torch.equal(*written)


NUMBERS = [0, 1, -1, 63, 64, -64, -65, 127, 128, 2**13, 2**42 - 1, 2**60 - 1, 2**60, 1 - 2**60, -(2**60), 2**62]


@pytest.mark.parametrize("kind", ["numbers", "flags", "pairs", "grids", "several"])
def test_values_as_bytes(kind: str):
    """Numbers of all lengths, those that only the host writes, grids of all sizes, and failures between them."""
    rng = random.Random(kind)
    grids = [random_grid(rng, rng.randint(1, 30), rng.randint(1, 30)) for _ in range(9)]
    values: dict[str, list[Any]] = {
        "numbers": NUMBERS,
        "flags": [rng.random() < 0.5 for _ in range(40)],
        "pairs": [(one, other) for one in NUMBERS for other in NUMBERS[::5]],
        "grids": [*grids, (), ((),), ((300, 1),), tuple(tuple(range(200)) for _ in range(9)), ((7,),) * 20_000],
        "several": [*NUMBERS, *grids, True, (1, 2), "text", frozenset(), (), (2**60, 3)],
    }
    rows, device = values[kind] * 2, torch.device(DEVICE)
    failed = torch.tensor([rng.random() < 0.2 for _ in rows], dtype=torch.int8, device=device)
    some = np.array([rng.random() < 0.7 for _ in rows])
    column, boxed = encode(rows, device)
    written = on_device.value_bytes(Step(column, failed, boxed), len(rows), device)
    parts: list[Part] = [(b"first", None), (0, None), (b"between", some), (0, some)]
    records = on_device.record_bytes(parts, {(0,): written}, len(rows), device)
    for row, (value, fails) in enumerate(zip(rows, failed.tolist(), strict=True)):
        text = b"" if fails else encoding.encode(value)
        wanted = b"first" + text + (b"between" + text) * bool(some[row])
        assert records[row] == wanted


def test_the_kernels_compile_for_a_card():
    around = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ended = completed(run_module, "tests.programs.batched.compiled_kernels", env=around)
    assert ended.stdout.strip() == "compiled", ended.stderr[-2000:]
