"""What a first visit offers: an example of each workload, which is accepted, ends well and has its pictures."""

import pytest

from brimful.service.dashboard.examples import EXAMPLES, Example
from brimful.service.jobs.state import JobState

from .conftest import Running

PICTURES = {
    "gp": {"gp.png"},
    "wpo": {"wpo.png"},
    "gpcm": {"gpcm.png", "students.png"},
    "programs": {"grids.png"},
    "locate": {"training.png", "map.png", "errors.png"},
    "nets": {"nets.png"},
    "data": set[str](),
}


@pytest.mark.soak
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.workload)
def test_an_example_is_accepted_and_ends(running: Running, example: Example):
    job = running.service.job(example.start(running.service))
    ended = running.wait(job, seconds=600)
    assert ended.state is JobState.FINISHED and ended.summary, ended.message
    assert ended.exit_code == 0
    report = running.service.report(job.id)
    assert PICTURES[example.workload] <= set(report["pictures"]) and set(report["captions"]) == set(report["pictures"])
