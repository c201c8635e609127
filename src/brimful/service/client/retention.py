"""Which ended jobs are old enough to be removed."""

from collections.abc import Iterable

from ...core.base.errors import ConfigError
from ..jobs.job import Job
from ..jobs.state import JobState

ENDED = (JobState.FINISHED.value, JobState.FAILED.value, JobState.CANCELLED.value)


def removable(jobs: Iterable[Job], days: float, now: float) -> list[Job]:
    """Those that ended more than so many days before `now` (seconds since 1970). One that waits, runs or is paused is
    never among them."""
    if not days >= 0:
        raise ConfigError(f"days is {days}; it must be at least 0")
    before = now - days * 86_400
    return [job for job in jobs if job.state.ended and job.ended is not None and job.ended <= before]
