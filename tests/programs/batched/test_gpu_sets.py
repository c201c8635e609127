"""The kernels of sets, of keys and of grids against their twins in torch."""

import pytest
import torch

from .on_kernels import DEVICE, kernels  # noqa: F401  # before the kernels are defined

from brimful.programs.batched import cells, keys, layout, segments  # isort: skip
from brimful.programs.batched import rows as ragged
from brimful.programs.batched.columns import ORIGIN, Grids, Patches, PatchKind
from brimful.programs.batched.gpu import offsets as offset_kernels
from brimful.programs.batched.gpu import sets
from brimful.programs.batched.operations import grids, lines, painting, patches

pytestmark = pytest.mark.usefixtures("kernels")

EXTREMES = torch.tensor([0, -1, 1, 2**62 - 1, 2**62, -(2**62), 2**63 - 1, -(2**63), ORIGIN])


def _rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _ragged(rng: torch.Generator, rows: int, longest: int) -> torch.Tensor:
    """Offsets of rows, many of them empty, one as long as it gets."""
    sizes = torch.randint(0, 9, (rows,), generator=rng) * torch.randint(0, 2, (rows,), generator=rng)
    sizes[rows // 2 :][:1] = longest
    return ragged.offsets_of_plain(sizes.to(DEVICE))


def _drawn(rng: torch.Generator, count: int, of: torch.Tensor) -> torch.Tensor:
    return of[torch.randint(0, len(of), (count,), generator=rng)].to(DEVICE)


def _same(ours, plain) -> None:
    for one, other in zip(ours, plain, strict=True):
        assert one.dtype == other.dtype and torch.equal(one, other)


SETS = pytest.mark.parametrize(("rows", "longest"), [(0, 0), (1, 0), (1, 1), (1, 64), (2, 65), (7, 130)])
VALUES = pytest.mark.parametrize("of", [torch.arange(5), EXTREMES, torch.arange(10_000)], ids=["few", "far", "many"])


@SETS
@VALUES
def test_sets_by_kernels_and_by_torch(rows: int, longest: int, of: torch.Tensor):
    rng = _rng(rows + longest)
    offsets, others = _ragged(rng, rows, longest), _ragged(rng, rows, longest // 2)
    values, more = _drawn(rng, int(offsets[-1]), of), _drawn(rng, int(others[-1]), of)
    _same(segments.sort_unique(values, offsets), segments.sort_unique_plain(values, offsets))
    _same(segments.sort_unique_index(values, offsets), segments.sort_unique_index_plain(values, offsets))
    given = (*segments.sort_unique_plain(values, offsets), *segments.sort_unique_plain(more, others))
    _same([segments.member(*given)], [segments.member_plain(*given)])
    keep = values % 3 != 0
    for flat in (values, values.to(torch.int32), keep):
        _same(segments.filtered(flat, offsets, keep), segments.filtered_plain(flat, offsets, keep))
    everything = torch.arange(len(keep), device=DEVICE)
    _same(segments.filtered_index(offsets, keep), segments.filtered_plain(everything, offsets, keep))


def test_rows_that_are_too_long_are_sorted_by_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sets, "LONGEST", 16)
    monkeypatch.setattr(sets, "_MEMBERS", 16)
    monkeypatch.setattr(sets, "_SEQUENCES", 2)
    rng = _rng(0)
    offsets = _ragged(rng, 5, 17)
    values = _drawn(rng, int(offsets[-1]), torch.arange(9))
    assert sets.sort_unique(values, offsets) is None and sets.member(values, offsets, values, offsets) is None
    _same(segments.sort_unique(values, offsets), segments.sort_unique_plain(values, offsets))
    distinct = segments.sort_unique_plain(values, offsets)
    assert bool(segments.member(*distinct, *distinct).all())
    lists = torch.tensor([0, 4, 5], device=DEVICE)
    assert sets.ranks(values, offsets, lists, True) is None
    _same([segments.ranks(values, offsets, lists, True)], [segments.ranks_plain(values, offsets, lists, True)])


@pytest.mark.parametrize("larger_first", [False, True])
@VALUES
def test_ranks_by_kernels_and_by_torch(larger_first: bool, of: torch.Tensor):
    """Sequences that begin alike, equal ones, empty ones, and lists without any."""
    for seed, longest in enumerate((0, 3, 65, 130)):
        rng = _rng(seed)
        lists = _ragged(rng, 3, 5)
        offsets = _ragged(rng, int(lists[-1]), longest)
        values = _drawn(rng, int(offsets[-1]), of[:3])
        values[longest // 2 :: 7] = int(of[0])
        given = (values, offsets, lists, larger_first)
        _same([segments.ranks(*given)], [segments.ranks_plain(*given)])
        same = torch.zeros_like(values)
        _same([segments.ranks(same, *given[1:])], [segments.ranks_plain(same, *given[1:])])


@pytest.mark.parametrize("most", [1 << 14, 4])
@pytest.mark.parametrize("rows", [0, 1, 5, 1023, 1024, 2500])
def test_offsets_by_kernels_and_by_torch(rows: int, most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offset_kernels, "_MOST", most)
    rng = _rng(rows)
    for high in (3, 2**40):
        sizes = torch.randint(0, high, (rows,), generator=rng).to(DEVICE)
        _same([ragged.offsets_of(sizes)], [ragged.offsets_of_plain(sizes)])
    sides = torch.randint(0, 5, (2, rows), generator=rng).to(DEVICE)
    _same(layout.areas(*sides), layout.areas_plain(*sides))
    height, width = sides[0], layout.areas_plain(*sides)[1]
    offsets = ragged.offsets_of_plain(height * width)
    of = Grids(torch.arange(int(offsets[-1]), device=DEVICE).to(torch.int32), offsets, height, width)
    for count in (0, min(rows, 30)):
        index = torch.randint(0, max(1, rows), (count,), generator=rng).to(DEVICE)
        ours, (flat, starts) = of.take(index), ragged.taken_plain(of.cells, offsets, index)
        _same((ours.cells, ours.offsets, ours.height, ours.width), (flat, starts, height[index], width[index]))


def _grids(rng: torch.Generator, height: torch.Tensor, width: torch.Tensor) -> Grids:
    offsets, width = layout.areas_plain(height, width)
    colors = torch.randint(-(2**17), 2**17, (int(offsets[-1]),), generator=rng).to(DEVICE, torch.int32)
    return Grids(colors, offsets, height, width)


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_grids_by_kernels_and_by_torch(rows: int):
    rng = _rng(rows)
    sides = torch.randint(0, 8, (8, rows), generator=rng).to(DEVICE)
    sides[0, :1] = sides[1, :1] = 30
    a, b = _grids(rng, sides[0], sides[1]), _grids(rng, sides[2], sides[3])
    height, width = torch.minimum(a.height, b.height), a.width + b.width
    offsets, wide = layout.areas_plain(height, width)
    _same(layout.layout(height, width)[3:], layout.places_plain(offsets, height, wide))
    _same(cells.places(a), layout.places_plain(a.offsets, a.height, a.width)[1:])
    _same([ragged.repeated(wide, offsets, int(offsets[-1]))], [ragged.repeated_plain(wide, offsets)])
    _same([layout.beside(a, b, height, width).cells], [layout.beside_plain(a, b, height, width)])
    even = Grids(b.cells[:0], b.offsets * 0, b.height * 0, b.width * 0) if rows == 1 else _grids(rng, sides[2], a.width)
    taller = torch.where((a.width == even.width) | (even.height == 0), a.height + even.height, 0)
    given = (a, even, taller, torch.maximum(a.width, even.width))
    _same([layout.above(*given).cells], [layout.above_plain(*given)])
    down, across, keep = sides[4] % 4, sides[5] % 4, sides[6] > 1
    ours = layout.scaled(a, down, across, keep)
    _same([ours.cells], [layout.scaled_plain(a, ours.height, ours.width, down, across)])
    if len(a.cells):
        for far in (1, 2**40):
            steps = [(of - 3) * far for of in (sides[4], sides[5], sides[7])]
            ours = layout.walked(a, sides[2], sides[3], *steps)
            _same([ours.cells], [layout.walked_plain(a, ours.height, ours.width, *steps)])


@pytest.mark.parametrize("rows", [0, 1, 300])
def test_numbers_by_kernels_and_by_torch(rows: int):
    rng = _rng(rows)
    numbers = [_drawn(rng, rows, EXTREMES) for _ in range(4)]
    for limit in (1, 2**17 - 1, 2**31, 2**60):
        for count in (1, 2, 3, 4):
            _same([segments.beyond(limit, *numbers[:count])], [segments.beyond_plain(limit, *numbers[:count])])
    sides = torch.randint(-9, 9, (3, rows), generator=rng).to(DEVICE)
    given = (sides[0], sides[1], sides[2].abs())
    _same(grids._sliced(*given), grids.sliced_plain(*given))


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_frequent_colors_by_kernels_and_by_torch(kind: torch.dtype):
    """Ties, negative colors, rows without any, and many colors of one row."""
    many = [(5, 300, 2**17)] if kind == torch.int32 else []  # the interpreter takes its time
    for seed, (rows, longest, colors) in enumerate([(0, 0, 1), (1, 0, 1), (12, 40, 3), (9, 5, 4), *many]):
        rng = _rng(seed)
        offsets = _ragged(rng, rows, longest)
        values = torch.randint(-1, colors, (int(offsets[-1]),), generator=rng).to(DEVICE, kind)
        values[::9] = min(colors, 2**17 - 1)
        for greatest in (False, True):
            _same(
                [cells.extreme_color(values, offsets, greatest)], [cells.extreme_color_plain(values, offsets, greatest)]
            )


@pytest.mark.parametrize("count", [0, 1, 1500])
def test_keys_by_kernels_and_by_torch(count: int):
    rng = _rng(count)
    i, j, color = torch.randint(-(2**17), 2**17, (3, count), generator=rng).to(DEVICE)
    for given in ((i, j, color), (i, j, color.to(torch.int32)), (i, j, 0), (i, j, 7), (i, j[::1], -3)):
        _same([keys.key_of(*given)], [keys.key_of_plain(*given)])
    whole = keys.key_of_plain(i, j, color)
    _same(keys.location_of(whole), (keys.row_of(whole), keys.column_of(whole)))
    pairs = torch.stack([whole, whole + 1], 1)[:, 1]
    _same(keys.location_of(pairs), (keys.row_of(pairs), keys.column_of(pairs)))


@pytest.mark.parametrize("count", [0, 1, 60])
def test_lines_by_kernels_and_by_torch(count: int):
    """In all eight directions, single locations, and lines of no locations."""
    rng = _rng(count)
    ai, aj = torch.randint(-(2**17), 2**17, (2, count), generator=rng).to(DEVICE)
    di, dj = torch.randint(-1, 2, (2, count), generator=rng).to(DEVICE)
    steps = torch.randint(0, 400, (count,), generator=rng).to(DEVICE)
    counts = torch.where((di == 0) & (dj == 0), 1, steps + 1) * (steps % 5 != 0)
    given = (ai, aj, ai + di * steps, aj + dj * steps, counts, ragged.offsets_of_plain(counts))
    _same([lines._line_keys(*given)], [lines.lines_plain(*given)])


@pytest.mark.parametrize("rows", [0, 1, 25])
def test_patches_moved_and_painted_by_kernels_and_by_torch(rows: int):
    """Cells outside of their grids, and several at one place, of which the last is on top."""
    rng = _rng(rows)
    sides = torch.randint(0, 7, (2, rows), generator=rng).to(DEVICE)
    grid, offsets = _grids(rng, *sides), _ragged(rng, rows, 300)
    i, j, color = torch.randint(-2, 9, (3, int(offsets[-1])), generator=rng).to(DEVICE)
    objects = Patches(keys.key_of_plain(i, j, color), offsets, PatchKind.OBJECT)
    obj = painting.paintable(objects)
    assert obj is not None
    _same([painting.painted(grid, obj).cells], [painting.painted_plain(grid, obj).cells])
    by = (torch.randint(-1, 2, (2, rows), generator=rng) * (2**17 - 5)).to(DEVICE)
    step = (by[0] << 20) + by[1]
    _same(patches.moved(objects.keys, offsets, step), patches.moved_plain(objects.keys, offsets, step))
    moved = Patches(patches.moved_plain(objects.keys, offsets, step)[0], offsets, PatchKind.OBJECT)
    for patch in (objects, moved):
        _same([patches.far(patch)], [patches.far_plain(patch)])
