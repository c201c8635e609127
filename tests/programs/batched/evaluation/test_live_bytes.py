"""How many bytes per sample live together, by the order in which nodes are computed."""

import pytest

from brimful import programs
from brimful.programs.batched.evaluation.live_bytes import column_bytes, peak_bytes
from brimful.programs.batched.evaluation.schedule import in_source_order, side_by_side
from brimful.programs.language.graph import Graph

CELLS = 10_000.0
GRID = 8 * CELLS + 32


def graph(*steps: str, last: str) -> Graph:
    return programs.loads(
        "\n".join(["def solve_x(I):", *(f"    {step}" for step in steps), f"    return {last}"])
    ).merge()


def test_siblings_share_their_memory_until_the_last_of_them_is_freed():
    """`a` and `b` are made in one call; `a` is of no use when `c` is there, and its memory stays with that of `b`."""
    merged = graph("a = vmirror(I)", "b = vmirror(a)", "c = rot90(b)", "d = rot90(I)", "e = hconcat(c, d)", last="e")
    alone, joined = (peak_bytes(merged, order(merged), CELLS) for order in (in_source_order, side_by_side))
    assert joined >= alone
    pair = graph("a = rot90(I)", "b = rot180(I)", "c = vmirror(a)", "d = vmirror(b)", "e = trim(c)", "f = compress(e)",
                 "g = hconcat(f, d)", last="g")  # fmt: skip
    assert peak_bytes(pair, side_by_side(pair), CELLS) >= peak_bytes(pair, in_source_order(pair), CELLS) + GRID


def test_what_a_call_makes_on_its_way_counts_for_all_that_run_in_it():
    texts = [f"    x{color} = colorcount(I, {color})" for color in range(9)]
    sums = ["    y0 = x0", *(f"    y{at} = add(y{at - 1}, x{at})" for at in range(1, 9))]
    merged = programs.loads("\n".join(["def solve_x(I):", *texts, *sums, "    return y8"])).merge()
    small = 10.0
    assert peak_bytes(merged, side_by_side(merged), small) > peak_bytes(merged, in_source_order(merged), small)


@pytest.mark.parametrize("of", [in_source_order, side_by_side])
def test_what_is_returned_stays(of):
    one = graph("a = rot90(I)", last="a")
    two = programs.loads(
        "def solve_x(I):\n    a = rot90(I)\n    return a\n\ndef solve_y(I):\n    a = rot180(I)\n    return a\n"
    ).merge()
    assert peak_bytes(two, of(two), CELLS) >= peak_bytes(one, of(one), CELLS) + GRID
    assert column_bytes(one.nodes[one.programs[0].outputs[0][-1]], CELLS) == pytest.approx(GRID)
