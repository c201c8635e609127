"""The one way a file is refused."""

from ...errors import FieldProblem, Invalid


def refused(name: str, why: str) -> Invalid:
    """A file that is not taken: what is wrong with it, and what to do."""
    return Invalid(FieldProblem("file", f"{name} is refused: {why}"))
