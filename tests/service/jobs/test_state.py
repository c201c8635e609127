"""Which states may follow which, and what users may ask for."""

import pytest

from brimful.service.errors import Conflict
from brimful.service.jobs.job import Job, JobRequest, new_id
from brimful.service.jobs.state import ACTIVE, ENDED, REQUESTS, TRANSITIONS, JobState, may, requested


def test_every_request_goes_by_an_allowed_transition():
    for changes in REQUESTS.values():
        for before, after in changes.items():
            assert may(before, after)


def test_every_state_can_be_reached_and_left_but_for_the_finished():
    assert set(TRANSITIONS) == set(JobState)
    reached = {after for allowed in TRANSITIONS.values() for after in allowed}
    assert reached == set(JobState)
    assert [state for state, allowed in TRANSITIONS.items() if not allowed] == [JobState.FINISHED]
    assert not ACTIVE & ENDED


@pytest.mark.parametrize(
    ("request_", "state", "after"),
    [
        ("cancel", "running", "cancelling"),
        ("cancel", "pausing", "cancelling"),
        ("cancel", "cancelled", "cancelled"),
        ("pause", "queued", "paused"),
        ("pause", "pausing", "pausing"),
        ("resume", "paused", "queued"),
        ("retry", "failed", "queued"),
    ],
)
def test_what_may_be_asked_for(request_: str, state: str, after: str):
    assert requested(request_, JobState(state)) is JobState(after)


@pytest.mark.parametrize(
    ("request_", "state"),
    [
        ("cancel", "finished"),
        ("pause", "failed"),
        ("resume", "pausing"),
        ("resume", "cancelled"),
        ("retry", "finished"),
    ],
)
def test_what_may_not(request_: str, state: str):
    with pytest.raises(Conflict, match=f"the job is {state}, so it cannot be"):
        requested(request_, JobState(state))


def test_ids_sort_by_time_and_values_are_json():
    ids = [new_id() for _ in range(100)]
    assert len(set(ids)) == 100 and all(len(id) == 36 and id[14] == "7" for id in ids)
    assert ids[0][:8] <= ids[-1][:8]
    values = Job(id=ids[0], request=JobRequest(name="a"), created=0.5).to_dict()
    assert values["created"] == "1970-01-01T00:00:00.500000Z" and values["ended"] is None
