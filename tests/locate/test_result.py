"""Results: predictions, bad recordings, other receivers, and back from disk."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import brimful
from brimful import InputError, locate
from brimful.locate import LocateResult, Recordings
from brimful.locate.data.recordings import MEANING, Fault
from brimful.locate.physics import tangent_plane

from .data.test_recordings import faulty
from .helpers import SCENARIO, recordings

pytestmark = pytest.mark.usefixtures("one_thread")


def test_what_was_stored_comes_back(trained: LocateResult, folder: Path):
    again = locate.load(folder)
    assert again.summary() == trained.summary()
    assert (again.scaling, again.scenario, again.scores) == (trained.scaling, SCENARIO, trained.scores)
    assert torch.equal(again.held_out.position, trained.held_out.position)
    assert torch.equal(again.receiver_set.sites, trained.receiver_set.sites)
    assert again.device_use.samples == trained.device_use.samples
    one, two = (result.predict(recordings().select(slice(0, 20))) for result in (trained, again))
    assert one.equals(two)
    assert type(brimful.open(folder)) is LocateResult


def test_held_out_recordings_may_be_removed(trained: LocateResult, tmp_path: Path):
    locate.save(trained, tmp_path)
    (tmp_path / "held-out.parquet").unlink()
    bare = locate.load(tmp_path)
    assert len(bare.held_out) == 0 and set(locate.report(bare).pictures) == {"training"}
    with pytest.raises(InputError, match="no held-out recordings any more"):
        locate.evaluate(bare)


def test_predictions_are_near_the_receivers_and_have_an_ellipse(trained: LocateResult):
    some = recordings().select(slice(400, 450))
    table = trained.predict(some)
    position = torch.tensor([table["latitude"].to_pylist(), table["longitude"].to_pylist()]).T.double()
    assert float(tangent_plane.distance(position, some.centroid).max()) < 150e3
    axes = zip(table["major_m"].to_pylist(), table["minor_m"].to_pylist(), strict=True)
    assert all(major >= minor > 0 for major, minor in axes)
    assert set(table["status"].to_pylist()) == {0} and set(table["message"].to_pylist()) == {""}
    assert table["detected"].to_pylist() == some.detected.sum(1).tolist()


def test_bad_recordings_are_flagged_and_their_neighbors_untouched(trained: LocateResult):
    good = recordings().select(slice(10, 12))
    mixed = Recordings.concatenate([good, *(faulty(fault) for fault in Fault if fault)])
    table = trained.predict(mixed)
    assert table["status"].to_pylist() == [0, 0, *(int(fault) for fault in Fault if fault)]
    assert table["message"].to_pylist()[2:] == [MEANING[fault] for fault in Fault if fault]
    assert table["latitude"].to_pylist()[2:] == [None] * (len(Fault) - 1)
    alone = trained.predict(good)
    assert alone["latitude"].to_pylist() == pytest.approx(table["latitude"].to_pylist()[:2], abs=1e-6)
    none = trained.predict(faulty(Fault.NO_RECEIVERS))
    assert none["longitude"].to_pylist() == [None]


def test_receivers_elsewhere_are_refused_unless_asked_for(trained: LocateResult):
    some = recordings().select(slice(0, 5))
    moved = replace(some, positions=some.positions + 0.01 * some.mask[..., None])
    with pytest.raises(InputError, match="receivers at 10 sites, and 10 of these recordings' are elsewhere"):
        trained.predict(moved)
    assert trained.predict(moved, other_receivers=True)["status"].to_pylist() == [0] * 5
    near = replace(some, positions=some.positions + 1e-4 * some.mask[..., None])  # a few metres
    assert trained.predict(near).num_rows == 5


def test_a_model_of_many_sites_does_with_any():
    made = locate.generate(60, locate.Scenario(sites="random"))
    result = locate.train(made, network="small", epochs=1, device="cpu", progress=False)
    assert len(result.receiver_set.sites) == 0
    assert result.predict(recordings().select(slice(0, 3)))["status"].to_pylist() == [0] * 3


def test_it_is_evaluated_on_what_it_did_not_see(trained: LocateResult):
    held_out, comparison = locate.evaluate(trained, samples=20)
    assert len(held_out) == 20 and set(comparison.scores) == {"network", "least squares", "posterior"}
    others = locate.Dataset("others", locate.generate(40, SCENARIO, seed=1), SCENARIO, 1)
    held_out, comparison = locate.evaluate(trained, others, samples=20, max_gdop=1.0)
    assert len(held_out) == 20 and float(held_out.gdop.max()) <= 1.0
    with pytest.raises(InputError, match="generated with seed 0, as recordings that the model was trained on"):
        locate.evaluate(trained, replace(others, seed=0))
