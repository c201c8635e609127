r"""The states of a job, and which may follow which.

    queued -> running -> finished
                |  \---> failed                      retry: queued
                |-> pausing -> paused                resume: queued
                |-> cancelling -> cancelled          retry: queued
                \-> queued                           the server stops: the job goes on after its restart

A job that waits is paused or cancelled at once, and fails where it cannot be planned.
"""

from enum import StrEnum

from ..errors import Conflict


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FAILED = "failed"
    FINISHED = "finished"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself, and the result, if there is one, is whole."""
        return self in ENDED

    @property
    def active(self) -> bool:
        """Whether a process may be working on it: it has a lease."""
        return self in ACTIVE


_S = JobState

ENDED = frozenset({_S.CANCELLED, _S.FAILED, _S.FINISHED})
ACTIVE = frozenset({_S.RUNNING, _S.PAUSING, _S.CANCELLING})

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    _S.QUEUED: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED, _S.FAILED}),
    _S.RUNNING: frozenset({_S.QUEUED, _S.PAUSING, _S.CANCELLING, _S.FAILED, _S.FINISHED}),
    _S.PAUSING: frozenset({_S.PAUSED, _S.CANCELLING, _S.FAILED, _S.FINISHED}),
    _S.PAUSED: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.CANCELLING: frozenset({_S.CANCELLED, _S.FINISHED}),
    _S.CANCELLED: frozenset({_S.QUEUED}),
    _S.FAILED: frozenset({_S.QUEUED}),
    _S.FINISHED: frozenset(),
}


def may(before: JobState, after: JobState) -> bool:
    """Whether a job in one state may go to the other."""
    return after in TRANSITIONS[before]


REQUESTS: dict[str, dict[JobState, JobState]] = {
    "cancel": {
        _S.QUEUED: _S.CANCELLED,
        _S.PAUSED: _S.CANCELLED,
        _S.RUNNING: _S.CANCELLING,
        _S.PAUSING: _S.CANCELLING,
    },
    "pause": {_S.QUEUED: _S.PAUSED, _S.RUNNING: _S.PAUSING},
    "resume": {_S.PAUSED: _S.QUEUED},
    "retry": {_S.FAILED: _S.QUEUED, _S.CANCELLED: _S.QUEUED},
}
"""What a user may ask for: by the state the job is in, the state that it goes to."""

_REPEATED: dict[str, frozenset[JobState]] = {
    "cancel": frozenset({_S.CANCELLING, _S.CANCELLED}),
    "pause": frozenset({_S.PAUSING, _S.PAUSED}),
    "resume": frozenset({_S.QUEUED, _S.RUNNING}),
    "retry": frozenset({_S.QUEUED, _S.RUNNING}),
}

_ADVICE = {
    "cancel": "it has ended already",
    "pause": "only a job that waits or runs can be paused",
    "resume": "only a paused job can be resumed; a failed or cancelled one is retried",
    "retry": "only a failed or cancelled job can be retried",
}


def requested(request: str, state: JobState) -> JobState:
    """The state that a job goes to when a user asks for "cancel", "pause", "resume" or "retry". Asking again for what
    happens already changes nothing.

    Raises:
        Conflict: it does not go with the state.
    """
    if state in REQUESTS[request]:
        return REQUESTS[request][state]
    if state in _REPEATED[request]:
        return state
    raise Conflict(f"the job is {state.value}, so it cannot be {_past(request)}: {_ADVICE[request]}")


def _past(request: str) -> str:
    return {"cancel": "cancelled", "pause": "paused", "resume": "resumed", "retry": "retried"}[request]
