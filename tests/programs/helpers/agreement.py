"""Results of one piece of work as one text; as a script, in a process with a hash seed of its own.

An order is a line of JSON: how many samples of which split and size, which part of them, which files of our own
solvers, and of how many operations a generated batt; the answer is a digest of every output, status, failing step and
category.
"""

import functools
import hashlib
import json
import sys

import torch

from brimful import programs
from brimful.programs.executors.sample_function import SampleFunction
from brimful.programs.generate import SOLVERS
from brimful.programs.outcomes import outcomes_of
from brimful.programs.scoring import submission
from brimful.programs.table import result_table

from .small import arc_samples, own_solvers


def work(files: list[str], operations: int) -> programs.Programs:
    """Some of our own solvers, and a generated batt."""
    batt = programs.loads(programs.generate(operations, seed=7, programs=own_solvers()))
    return functools.reduce(programs.Programs.__add__, [programs.load(SOLVERS / file) for file in files], batt)


def digest(
    samples: int, split: str, cells: int, files: list[str], operations: int, part: tuple[int, int] = (0, 1)
) -> str:
    """All that these samples, or one part of so many, give, as one text."""
    loaded, chosen = work(files, operations), arc_samples(samples, split, cells)[part[0] :: part[1]]
    values = SampleFunction(loaded, chosen)(torch.arange(len(chosen))).values
    outcomes = outcomes_of(loaded, chosen, values)
    made = hashlib.sha256(outcomes.values().values.numpy().tobytes())
    for name in ("status", "step", "category", "equal"):
        made.update(getattr(outcomes, name).tobytes())
    for table in result_table(outcomes):
        made.update(repr(table.to_pylist()).encode())
    made.update(json.dumps(submission(outcomes)).encode())
    return made.hexdigest()


if __name__ == "__main__":
    print(digest(**json.loads(sys.argv[1])))
