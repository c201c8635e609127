"""What cannot be located, and how recordings are put together."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from brimful.locate import Recordings
from brimful.locate.data.files import TENSORS
from brimful.locate.data.recordings import MEANING, Fault, recording_bytes

from ..helpers import recordings


def one(**changes: torch.Tensor) -> Recordings:
    return replace(recordings().select(slice(0, 1)), **changes)


def faulty(fault: Fault) -> Recordings:
    """A recording that has just this fault."""
    good = one()
    nowhere = torch.zeros_like(good.mask)
    far = good.positions.clone()
    match fault:
        case Fault.NO_RECEIVERS:
            return one(mask=nowhere, detected=nowhere)
        case Fault.TOO_FEW:
            return one(detected=good.detected & (good.detected.cumsum(1) <= 2))
        case Fault.NOT_FINITE:
            return one(psd_dbm_hz=torch.where(good.detected, torch.inf, good.psd_dbm_hz))
        case Fault.BAD_POSITION:
            far[0, good.mask[0].nonzero()[0], 0] = 91.0
            return one(positions=far)
        case Fault.TOO_FAR:
            far[0, good.mask[0].nonzero()[0], 0] = -20.0
            return one(positions=far)
        case Fault.SINGULAR:
            return one(positions=good.positions[:, :1].expand_as(good.positions).clone())
        case _:
            return good


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_is_told_from_the_others(fault: Fault):
    assert faulty(fault).faults().tolist() == [fault]
    assert fault is Fault.NONE or MEANING[fault]


def test_receivers_on_a_line_are_singular():
    line = one().positions.clone()
    line[..., 1] = 8.0
    assert one(positions=line).faults().tolist() == [Fault.SINGULAR]


def test_a_fault_says_nothing_about_its_neighbors():
    all_of_them = Recordings.concatenate([faulty(fault) for fault in Fault])
    assert all_of_them.faults().tolist() == list(Fault)


def test_put_together_and_taken_apart():
    some = recordings()
    parts = [some.select(slice(0, 10)), some.select(torch.arange(10, 30)).padded(15)]
    joined = Recordings.concatenate(parts)
    assert joined.receivers == 15 and len(joined) == 30
    assert torch.equal(joined.detected[:, : some.receivers], some.detected[:30])
    assert not joined.mask[:, some.receivers :].any()
    named = replace(some.select(slice(0, 3)), names=np.array(["a", "b", "c"]))
    assert named.select(torch.tensor([False, True, True])).name(0) == "b"
    assert some.name(7) == "7"


def test_the_bytes_of_a_recording_are_known_beforehand():
    some = recordings()
    sizes = sum(getattr(some, name).nbytes for name in TENSORS)
    assert recording_bytes(some.mask.shape[1]) * len(some) == sizes
