"""Cells by their places, and lines: compiled loops beside their plain twins."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched import layout, rows
from brimful.programs.batched.columns import Grids
from brimful.programs.batched.compiled import call
from brimful.programs.batched.loops import grids as loops
from brimful.programs.batched.loops import lines as line_loops
from brimful.programs.batched.operations.lines import lines_plain

SIDES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6)


@given(SIDES)
def test_places(sides):
    height, width = torch.tensor(sides).T.contiguous()
    width = torch.where(height == 0, 0, width)
    offsets = rows.offsets_of(height * width)
    for ours, plain in zip(
        call(loops.places, offsets, height, width), layout.places_plain(offsets, height, width), strict=True
    ):
        assert torch.equal(ours, plain)
    assert torch.equal(rows.repeated(height, offsets), rows.repeated_plain(height, offsets))


@given(SIDES, st.data())
def test_scaled_grids(sides, data):
    height, width = torch.tensor(sides).T.contiguous()
    width = torch.where(height == 0, 0, width)
    offsets = rows.offsets_of(height * width)
    grids = Grids(torch.arange(int(offsets[-1])), offsets, height, width)
    number = st.lists(st.integers(0, 3), min_size=len(sides), max_size=len(sides)).map(torch.tensor)
    down, across, keep = data.draw(number), data.draw(number), data.draw(number) > 0
    ours = layout.scaled(grids, down, across, keep)
    cells = layout.layout(torch.where(keep, height * down, 0), torch.where(keep, width * across, 0))
    i, j = cells.i // down[cells.grid], cells.j // across[cells.grid]
    plain = layout.read(grids, cells, i, j)
    for name in ("cells", "offsets", "height", "width"):
        assert torch.equal(getattr(ours, name), getattr(plain, name)), name


PLACES = st.integers(-9, 9)


@given(st.lists(st.tuples(PLACES, PLACES, st.integers(-1, 1), st.integers(-1, 1), st.integers(0, 7)), min_size=1))
def test_lines(given_lines):
    ai, aj, di, dj, steps = torch.tensor(given_lines).T
    bi, bj = ai + di * steps, aj + dj * steps
    counts = torch.maximum((bi - ai).abs(), (bj - aj).abs()) + 1
    counts[:1] = 0
    offsets = rows.offsets_of(counts)
    parts = [*(part.contiguous() for part in (ai, aj, bi, bj)), counts, offsets]
    assert torch.equal(call(line_loops.lines, *parts), lines_plain(*parts))
