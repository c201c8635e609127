"""Our own solvers: each solves its task on all pairs, and together they use the whole vocabulary."""

import re
from collections import Counter
from pathlib import Path

from brimful import programs
from brimful.programs.generate import SOLVERS
from brimful.programs.vocabulary.arc import ARC

from .helpers.small import arc_tasks, own_solvers


def test_every_solver_solves_its_task_on_all_pairs():
    solvers = own_solvers()
    names = {program.name.removeprefix("solve_") for program in solvers}
    assert len(names) == len(solvers) >= 80
    tasks = [task for task in arc_tasks("training") if task.id in names]
    assert len(tasks) == len(names)
    result = programs.run(solvers, tasks, pair_by_name=True, on_error="propagate", device="cpu", progress=False)
    unsolved = [row["program"] for row in result.scores.to_pylist() if not row["solved"]]
    assert unsolved == [] and result.summary()["solved"] == len(names)
    assert not result.messages and (result.status != programs.ProgramStatus.FAILED).all()


def test_together_they_use_every_primitive():
    used = Counter(node.name for program in own_solvers() for node in program.nodes if node.operation is not None)
    assert set(ARC) - set(used) == set()
    assert len(ARC) == 160


def test_they_have_no_dead_step_and_say_what_they_do():
    graph = own_solvers().merge()
    assert graph.dead == 0
    assert graph.merged < 0.9 * graph.operations
    for file in SOLVERS.glob("*.py"):
        text = Path(file).read_text()
        assert len(re.findall(r"^# .+\n(?:# .+\n)*def solve_", text, re.MULTILINE)) == text.count("def solve_"), file
