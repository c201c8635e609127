"""The scheduler: what jobs need is found out, and those that may start are started, whenever something changes."""

import json
import logging
import threading
import time
from collections.abc import Callable

from ...core.base.errors import BrimfulError
from ..errors import NotFound, Unavailable
from ..jobs.admission import admit
from ..jobs.job import Job
from ..jobs.lease import Demand
from ..jobs.state import JobState
from ..store import Store
from .inventory import Inventory

_LOG = logging.getLogger("brimful.service")
_EVERY = 1.0
_PAUSE = 0.5  # after a failure

Needs = Callable[[Job], Demand]
"""What a job needs; planned where its request does not say it. Raises `BrimfulError` where that cannot be."""


class Scheduler:
    """Two threads: one finds out what jobs need, the other starts those that fit.

    Args:
        start: starts a job that has got its lease.
    """

    def __init__(self, store: Store, inventory: Inventory, needs: Needs, start: Callable[[Job], None]) -> None:
        self._store, self._inventory, self._needs, self._start_job = store, inventory, needs, start
        self._wake, self._planning, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._planned: dict[str, Demand] = {}
        self._threads = [
            threading.Thread(target=self._loop, args=(self._admit, self._wake), name="brimful-scheduler", daemon=True),
            threading.Thread(target=self._loop, args=(self._plan, self._planning), name="brimful-planner", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Something has changed: a job came or went, or the budget."""
        self._wake.set()
        self._planning.set()

    def stop(self) -> None:
        """Nothing is started from here on."""
        self._stop.set()
        self.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=30)

    @property
    def alive(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)

    def _loop(self, work: Callable[[], None], wake: threading.Event) -> None:
        while not self._stop.is_set():
            wake.wait(_EVERY)
            wake.clear()
            if self._stop.is_set():
                return
            try:
                work()
            except Unavailable:
                self._stop.wait(_PAUSE)  # the database is away
            except Exception:
                _LOG.exception("the scheduler failed, and goes on")
                self._stop.wait(_PAUSE)

    def _admit(self) -> None:
        queue = self._store.jobs.queue()
        if not queue:
            return
        decision = admit(self._inventory.capacity(), self._store.jobs.leases(), queue, time.time())
        for lease in decision.started:
            if self._stop.is_set():
                return
            try:
                job = self._store.jobs.start(lease)
            except NotFound:
                continue
            if job is not None:
                self._start_job(job)
        if decision.waiting:
            self._store.jobs.set_reasons(decision.waiting)

    def _plan(self) -> None:
        for job in self._store.jobs.without_demand():
            if self._stop.is_set():
                return
            try:
                self._store.jobs.set_demand(job.id, self._demand(job))
                self._wake.set()
            except (Unavailable, NotFound):
                raise
            except BrimfulError as error:
                self._store.jobs.move(job.id, JobState.FAILED, [JobState.QUEUED], message=str(error), ended=time.time())

    def _demand(self, job: Job) -> Demand:
        """Jobs that are alike are planned once."""
        request = job.request
        key = json.dumps([request.workload, request.command, request.config, request.budget, request.cores])
        if key not in self._planned:
            if len(self._planned) > 1000:
                self._planned.clear()
            self._planned[key] = self._needs(job)
        return self._planned[key]
