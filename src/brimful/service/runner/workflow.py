"""The durable part: a workflow per start of a job. What a killed server was doing, the next one goes on with.

A workflow supervises the job's process, then records how it ended, then says so; each is a step whose outcome is kept
in the database. A step that was interrupted is done again: the process of the job goes on from its checkpoint.
"""

import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol

from dbos import DBOS, DBOSConfig, SetWorkflowID

from ...core.base.errors import BrimfulError
from ..store.pool import wait_until

_LOG = logging.getLogger("brimful.service")
_NAME, _VERSION, _EXECUTOR = "brimful", "1", "server"  # constant: with another one, interrupted workflows stay pending
_THREADS = 512
_ENDLESS = 1_000_000_000
_ENDED = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_AT_ONCE = 500
_PATIENCE = 5  # seconds for workflows to end, when the server stops


class Steps(Protocol):
    """What a workflow does."""

    def supervise(self, id: str, attempt: int) -> dict[str, Any]: ...

    def record(self, id: str, attempt: int, outcome: dict[str, Any]) -> bool: ...


class _Current:
    steps: Steps | None = None
    notify: Callable[[str], None] | None = None


def _steps() -> Steps:
    if _Current.steps is None:
        raise RuntimeError("no service runs in this process")
    return _Current.steps


@DBOS.step(name="brimful.supervise")
def _supervise(id: str, attempt: int) -> dict[str, Any]:
    return _steps().supervise(id, attempt)


@DBOS.step(name="brimful.record")
def _record(id: str, attempt: int, outcome: dict[str, Any]) -> bool:
    return _steps().record(id, attempt, outcome)


@DBOS.workflow(name="brimful.run_job", max_recovery_attempts=_ENDLESS)
def _run_job(id: str, attempt: int) -> str:
    outcome = _supervise(id, attempt)
    ended = _record(id, attempt, outcome)
    if ended and _Current.notify is not None:
        _Current.notify(id)
    return outcome["state"]


class Workflows:
    """DBOS, of which there is one in a process.

    Args:
        url: of the database.
        notify: called when a job has ended, again where the server was killed meanwhile.
    """

    def __init__(self, url: str, steps: Steps, notify: Callable[[str], None] | None = None) -> None:
        if _Current.steps is not None:
            raise BrimfulError("a service runs in this process already; stop it first")
        self._url = url
        _Current.steps, _Current.notify = steps, notify
        config: DBOSConfig = {
            "name": _NAME,
            "system_database_url": url,
            "application_version": _VERSION,
            "executor_id": _EXECUTOR,
            "log_level": "ERROR",
            "max_executor_threads": _THREADS,
            "sys_db_pool_size": 10,
            "enable_otlp": False,
        }
        self._dbos = DBOS(config=config)

    def launch(self) -> None:
        """Goes on with what was interrupted."""
        DBOS.launch()

    def start(self, id: str, attempt: int) -> None:
        """Starts the workflow of a job, unless it was started."""
        with SetWorkflowID(f"job.{id}.{attempt}"):
            DBOS.start_workflow(_run_job, id, attempt)

    def known(self, id: str, attempt: int) -> bool:
        """Whether the workflow was started and goes on by itself."""
        status = DBOS.get_workflow_status(f"job.{id}.{attempt}")
        return status is not None and status.status in ("PENDING", "ENQUEUED", "DELAYED")

    def forget(self, id: str, attempts: int) -> None:
        """Removes what is recorded of a job's workflows that have ended."""
        self._remove([f"job.{id}.{attempt}" for attempt in range(1, attempts + 1)])

    def forget_others(self, known: Collection[str]) -> None:
        """Removes what is recorded of workflows that have ended and whose jobs are not known any more: a server was
        killed between the two, or the workflow was still ending."""
        ended = DBOS.list_workflows(status=_ENDED, load_input=False, load_output=False)
        names = [status.workflow_id for status in ended]
        self._remove([name for name in names if name.startswith("job.") and name.split(".")[1] not in known])

    @staticmethod
    def _remove(names: list[str]) -> None:
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            ended = DBOS.list_workflows(workflow_ids=some, status=_ENDED, load_input=False, load_output=False)
            if ended:
                DBOS.delete_workflows([status.workflow_id for status in ended])

    def close(self) -> None:
        """Ends, once workflows have recorded how they ended, or after some seconds."""
        try:
            active = getattr(self._dbos, "_active_workflows_set", None)
            if active is not None:  # DBOS looks once per second, and the first time after one
                wait_until(lambda: not active.activeList(), _PATIENCE)
            DBOS.destroy(workflow_completion_timeout_sec=0 if active is not None else _PATIENCE)
        finally:
            _Current.steps = _Current.notify = None
