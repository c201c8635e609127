"""When a webhook that was not accepted is sent again: after seconds at first, after hours at last, then never."""

from dataclasses import dataclass

PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 7200.0, 21600.0, 43200.0)
"""Seconds after the first attempt, the second, and so on: nine attempts within 24 hours."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended: with the status of a response, or with an error and none.

    Attributes:
        final: no other attempt can do better.
    """

    status: int | None
    error: str = ""
    final: bool = False

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def next_pause(outcome: Outcome, attempts: int, jitter: float) -> float | None:
    """Seconds until another attempt, after so many; None where there is none.

    Args:
        jitter: 0 to 1, so that many that failed together do not come back together: up to a fifth more.
    """
    if outcome.accepted or outcome.final or attempts > len(PAUSES):
        return None
    return PAUSES[attempts - 1] * (1 + jitter / 5)
