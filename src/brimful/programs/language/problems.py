"""What is wrong with a source file: where, at which operation, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...core.base.errors import InputError

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or will always fail.

    Attributes:
        file, line: where.
        operation: at which operation or statement.
        message: what is wrong.
        fatal: whether the program cannot be run for it. A step of a batt that will always fail is not: it yields its
            default.
    """

    file: str
    line: int
    operation: str
    message: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.operation}: {self.message}"


class ProgramError(InputError):
    """A source file that is no program. `problems` has all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        shown = "\n".join(str(problem) for problem in self.problems[:_SHOWN])
        more = len(self.problems) - _SHOWN
        rest = f"\nand {more} more: `brimful programs check` shows all" if more > 0 else ""
        super().__init__(f"{shown}{rest}\nNothing was executed. Mend the lines named.")

    def __reduce__(self) -> tuple[type, tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)
