"""When a job was created, started and ended, on the clock of the one who looks."""

from nicegui.element import Element

from ....jobs.job import Job


class JobTimes(Element, component="job_times.js"):
    """The moments that are known."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._props["times"] = _times(job)

    def show(self, job: Job) -> None:
        if self._props["times"] != (times := _times(job)):
            self._props["times"] = times


def _times(job: Job) -> dict[str, float | None]:
    return {"created": job.created, "started": job.started, "ended": job.ended}
