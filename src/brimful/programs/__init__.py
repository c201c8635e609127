"""Straight-line programs over thousands of grids: every operation may fail, and fails for its sample alone.

    >>> from brimful import programs
    >>> solvers = programs.load("solvers.py")                              # doctest: +SKIP
    >>> result = programs.run(solvers, "arcagi", pair_by_name=True)        # doctest: +SKIP
    >>> result.summary()["solved"]                                         # doctest: +SKIP
    399

A program is read from its source and never executed as Python. Any number of them become one graph, in which what they
share is computed once. `language` has the front end and the graph, `vocabulary` the operations, `execution` their
meaning, `data` the tasks, and `solvers` programs of our own.
"""

from .compiled import Compiled, compile
from .data.read import read_tasks
from .data.tasks import Pair, Sample, Task
from .execution.failures import Category, ProgramStatus
from .generate import generate
from .language.graph import Graph
from .language.problems import Problem, ProgramError
from .language.program import Program
from .loading import Programs, load, loads
from .report import report
from .result import ProgramResult
from .run import plan, run
from .store import load_result
from .vocabulary.registered import operation

__all__ = [
    "Category",
    "Compiled",
    "Graph",
    "Pair",
    "Problem",
    "Program",
    "ProgramError",
    "ProgramResult",
    "ProgramStatus",
    "Programs",
    "Sample",
    "Task",
    "compile",
    "generate",
    "load",
    "load_result",
    "loads",
    "operation",
    "plan",
    "read_tasks",
    "report",
    "run",
]
