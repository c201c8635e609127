"""What a batch takes before anything is measured, and that columns are freed after their last use."""

import gc
import weakref
from typing import Any

import pytest

from brimful import programs
from brimful.programs.batched.evaluation.executor import Batched
from brimful.programs.batched.evaluation.live_bytes import column_bytes
from brimful.programs.batched.machine import Machine
from brimful.programs.data.tasks import Pair, Task, samples_of
from brimful.programs.execution.arguments import Arguments
from brimful.programs.executors.memory import batched_cost


def chain(length: int) -> str:
    """A solver whose steps each need the one before, and no other."""
    steps = [f"    x{number} = {'vmirror' if number % 2 else 'rot90'}(x{number - 1})" for number in range(1, length)]
    return "\n".join(["def solve_x(I):", "    x0 = hmirror(I)", *steps, f"    return x{length - 1}"])


def fan(length: int) -> str:
    """A solver whose steps are all needed at the end."""
    steps = [f"    x{number} = upscale(I, {number + 1})" for number in range(length)]
    sums = ["x0", *(f"y{number}" for number in range(1, length))]
    joins = [f"    y{number} = hconcat({sums[number - 1]}, x{number})" for number in range(1, length)]
    return "\n".join(["def solve_x(I):", *steps, *joins, f"    return {sums[-1]}"])


def cost(text: str, side: int = 10) -> Any:
    grid = ((1,) * side,) * side
    pairs = (Pair(grid, grid),) * 2
    return batched_cost(programs.loads(text).merge(), samples_of([Task("a", pairs, pairs, "training")]))


def test_a_chain_takes_no_more_however_long_it_is():
    flags = 2.0
    short, long = cost(chain(5)), cost(chain(50))
    assert long.per_unit - short.per_unit == 45 * flags
    assert long.fixed == short.fixed > 0


def test_what_is_needed_later_is_counted_until_then():
    grid = 8 * 100 + 32
    assert cost(fan(20)).per_unit - cost(fan(10)).per_unit == pytest.approx(10 * grid, rel=0.1)


def test_larger_grids_take_more():
    assert 3.5 < cost(chain(5), 20).per_unit / cost(chain(5), 10).per_unit < 4.0


def test_no_samples_and_nodes_that_take_nothing():
    graph = programs.loads(chain(3)).merge()
    assert batched_cost(graph, []).per_unit > 0
    assert {column_bytes(node, 100.0) for node in graph.nodes if node.kind.name in ("FUNCTION", "CONSTANT")} <= {0.0}


def test_columns_are_freed_after_their_last_use(monkeypatch: pytest.MonkeyPatch):
    made, most, plain = list[Any](), [0], Machine.operation

    def counted(self: Machine, *arguments: Any) -> Any:
        result: Any = plain(self, *arguments)
        made.append(weakref.ref(result.column.cells))
        most[0] = max(most[0], sum(each() is not None for each in made))
        return result

    monkeypatch.setattr(Machine, "operation", counted)
    sample = Arguments("a", (), ((1, 2), (3, 4)), ())
    gc.collect()
    Batched(programs.loads(chain(30)).merge()).evaluate([sample])
    assert len(made) >= 30 and most[0] <= 3
