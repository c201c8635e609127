"""The results of some samples, as both executors give them.

Legend: N samples, K candidate outputs (one per solver, one per output of a batt).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from ...data.ragged import Ragged
from ...engine.map.batch import Batch
from ..execution.encoded import Encoded
from ..execution.encoding import encode_returned
from ..execution.failures import ProgramStatus

INVALID = 16
"""Status of a sample that is no sample of ARC."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The results of some samples.

    Attributes:
        outcome, step, category: (N, K) what became of each candidate.
        equal: (N, K) whether it is the target; -1 where that is not known.
        encoded: the records of all programs as bytes.
        problems: why a sample was not run.
    """

    outcome: np.ndarray
    step: np.ndarray
    category: np.ndarray
    equal: np.ndarray
    encoded: Encoded
    problems: list[str | None]

    def __len__(self) -> int:
        return len(self.encoded)

    @classmethod
    def blank(cls, problems: Sequence[str | None], programs: int, candidates: int) -> Self:
        """Samples on which nothing was run."""
        shape = len(problems), candidates
        return cls(
            np.full(shape, int(ProgramStatus.NOT_RUN), np.int8),
            np.full(shape, -1, np.int32),
            np.zeros(shape, np.int8),
            np.full(shape, -1, np.int8),
            Encoded.of([encode_returned([None] * programs)] * len(problems)),
            list(problems),
        )

    def take(self, index: Sequence[int]) -> Rows:
        """Some of the samples."""
        outcome, step, category, equal = (
            part[list(index)] for part in (self.outcome, self.step, self.category, self.equal)
        )
        encoded, problems = Encoded.of([self.encoded[at] for at in index]), [self.problems[at] for at in index]
        return Rows(outcome, step, category, equal, encoded, problems)

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """The samples of several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        names = ("outcome", "step", "category", "equal")
        outcome, step, category, equal = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        encoded = Encoded.joined([part.encoded for part in parts])
        problems = [problem for part in parts for problem in part.problems]
        return Rows(outcome, step, category, equal, encoded, problems)

    def batch(self) -> Batch:
        """The same as `map` takes it."""
        return Batch(
            {
                "outcome": torch.from_numpy(self.outcome),
                "step": torch.from_numpy(self.step),
                "category": torch.from_numpy(self.category),
                "equal": torch.from_numpy(self.equal),
                "values": Ragged(torch.from_numpy(self.encoded.flat), torch.from_numpy(self.encoded.offsets)),
            },
            status=torch.tensor([INVALID if problem else 0 for problem in self.problems]),
            message={at: problem for at, problem in enumerate(self.problems) if problem},
            fresh=True,
        )
