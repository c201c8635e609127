"""Long curves from the extremes of ranges."""

import json
import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful.service.child.job_dir import METRICS
from brimful.service.jobs.job import JobRequest
from brimful.service.store import Store
from brimful.service.store.ingest import ingest_all
from brimful.service.store.metric_ranges import Points

from ...conftest import SOAK

STEPS = 50_000


@pytest.fixture(scope="module")
def store(module_store: Store) -> Store:
    return module_store


@pytest.fixture(scope="module")
def job(store: Store, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job with one long and one short curve."""
    folder = tmp_path_factory.mktemp("job")
    id = store.jobs.add(JobRequest(name="long", workload="nets"), None).id
    rng = random.Random(1)
    values = [math.sin(step / 900) + 0.1 * rng.random() for step in range(STEPS)]
    values[31_337], values[222] = 9.0, -9.0
    with (folder / METRICS).open("w") as file:
        for step, value in enumerate(values):
            file.write(json.dumps({"name": "loss", "step": step * 3, "time": float(step), "value": value}) + "\n")
            if step % 5000 == 0:
                file.write(json.dumps({"name": "rare", "step": step * 3, "time": float(step), "value": value}) + "\n")
    ingest_all(store.pool, id, folder)
    ingest_all(store.pool, id, folder)
    return id


@pytest.fixture(scope="module")
def whole(store: Store, job: str) -> dict[str, Points]:
    return store.history.metrics(job, None, 100_000, None, None)


def test_a_long_curve_keeps_its_extremes_and_ends(store: Store, job: str):
    curves = store.history.metrics(job, None, 500, None, None)
    loss = curves["loss"]
    assert len(loss) <= 500 and len(curves["rare"]) == 10
    assert loss == sorted(loss) and (loss[0][0], loss[-1][0]) == (0, 3 * (STEPS - 1))
    by_step = {step: value for step, _, value in loss}
    assert by_step[3 * 31_337] == 9.0 and by_step[3 * 222] == -9.0


def test_a_part_of_a_long_curve_has_its_own_extremes_and_none_from_outside(store: Store, job: str):
    first, last = 3 * 223 - 1, 3 * 31_336 + 1  # both extremes lie just outside
    loss = store.history.metrics(job, ["loss"], 400, first, last)["loss"]
    assert (loss[0][0], loss[-1][0]) == (3 * 223, 3 * 31_336)
    inside = store.history.metrics(job, ["loss"], 100_000, None, None)["loss"]
    whole = [value for step, _, value in inside if first <= step <= last]
    values = [value for _, _, value in loss]
    assert max(values) == pytest.approx(max(whole)) and min(values) == pytest.approx(min(whole))
    assert max(values) < 9.0 and min(values) > -9.0


def test_few_enough_points_are_exact(store: Store, job: str):
    loss = store.history.metrics(job, ["loss"], 4000, 30_000, 36_000)["loss"]
    assert [step for step, _, _ in loss] == list(range(30_000, 36_001, 3))


@given(first=st.integers(0, 3 * STEPS + 100), length=st.integers(0, 3 * STEPS), points=st.sampled_from([2, 20, 300]))
@settings(max_examples=200 if SOAK else 20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_part_has_the_curves_with_points_in_it(
    store: Store, job: str, whole: dict[str, Points], first: int, length: int, points: int
):
    """From its first point to its last, with its extremes: a curve that pauses there is left out."""
    last = first + length
    found = store.history.metrics(job, None, points, first, last)
    for name, curve in whole.items():
        inside = [point for point in curve if first <= point[0] <= last]
        assert (name in found) == bool(inside)
        if inside:
            assert {inside[0], inside[-1]} <= set(found[name]) <= set(inside)
            for extreme in (min, max):
                assert extreme(value for _, _, value in found[name]) == extreme(value for _, _, value in inside)
