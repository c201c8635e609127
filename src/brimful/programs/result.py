"""What running programs gives back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.declare.result import Result
from .data.tasks import Sample
from .execution.failures import ProgramStatus
from .executors.operation_table import operation_table
from .executors.usage import RunUsage
from .loading import Programs
from .outcomes import Outcomes, Outputs, ProgramFailure
from .scoring import Submission, score_tables, scores, submission
from .table import result_table

OPERATIONS = pa.schema(
    [
        ("operation", pa.string()),
        ("count", pa.int64()),
        ("form", pa.string()),
        ("rows", pa.int64()),
        ("rows_sequential", pa.int64()),
        ("seconds", pa.float64()),
        ("time_share", pa.float64()),
        ("problem", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProgramResult(Result):
    """The result of running programs on samples.

    Attributes:
        outcomes: what became of every candidate output on every sample.
        messages: sample index to why it was not run.
        merged: operations left after merging.
        executor: which one ran: "sequential", or "batched", which leaves small batches to the other where the run chose
            itself.
        usage: where the time went, in this call.
    """

    outcomes: Outcomes
    messages: dict[int, str]
    merged: int
    executor: str
    usage: RunUsage

    @property
    def programs(self) -> Programs:
        """What was run."""
        return self.outcomes.programs

    @property
    def samples(self) -> tuple[Sample, ...]:
        """What it was run on."""
        return self.outcomes.samples

    @property
    def status(self) -> np.ndarray:
        """`ProgramStatus` by sample and candidate output."""
        return self.outcomes.status

    @property
    def outputs(self) -> Outputs:
        """What the programs gave: `outputs[sample][program]`, a solver's output, or (o, s) of a batt; None where the
        program ended or was not run."""
        return self.outcomes.outputs

    @property
    def failures(self) -> list[ProgramFailure]:
        """The first operation that failed, for every candidate and sample on which one did."""
        return self.outcomes.failures()

    @property
    def scores(self) -> pa.Table:
        """Which candidates solve which tasks: one row per candidate and task it was run on."""
        return scores(self.outcomes)

    @property
    def operations(self) -> pa.Table:
        """Where the time of the batched executor went, in this call: one row per operation, how it ran, for how many
        rows, how many of them one by one, and its share of the time. Empty where all ran sequentially."""
        rows = operation_table(self.programs.merge(), self.usage.operations) if self.usage.operations else []
        return pa.Table.from_pylist([row._asdict() for row in rows], OPERATIONS)

    def table(self) -> pa.Table:
        """One row per candidate and sample it was run on: status, the operation that failed, the output as lists of
        numbers where it is a grid, and whether it is the target."""
        return pa.concat_tables(result_table(self.outcomes))

    def submission(self) -> Submission:
        """The two best attempts for every test input, as ARC's `submission.json` has them."""
        return submission(self.outcomes)

    def summary(self) -> dict[str, Any]:
        solved, status = set[str](), Counter[int]()
        for table in score_tables(self.outcomes):
            solved.update(table.filter(table["solved"])["task"].unique().to_pylist())
        for flags in self.outcomes.flags():
            status.update(dict(enumerate(np.bincount(flags.status.ravel()).tolist())))
        return {
            "programs": len(self.programs),
            "operations": sum(program.operations for program in self.programs),
            "operations_merged": self.merged,
            "samples": len(self.samples),
            "executor": self.executor,
            "sequential_share": self.usage.sequential_share if self.usage.operations else None,
            "flagged": len(self.messages),
            "tasks": len({sample.task for sample in self.samples}),
            "solved": len(solved),
            "outputs": status.total() - status[ProgramStatus.NOT_RUN],
            "failed": status[ProgramStatus.FAILED],
            "defaulted": status[ProgramStatus.DEFAULTED],
            "failed_by_category": self.outcomes.failed_by_category(),
            **Result.summary(self),
        }
