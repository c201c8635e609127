"""What a notebook shows of data and results: one line each, and a table where there is more to say."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from brimful import data, gp, gpcm, wpo
from brimful.core.declare.report import Report
from brimful.gpcm.evaluation.metrics import OrdinalScores
from brimful.gpcm.result import GPCMResult
from brimful.locate.data.recordings import Recordings

from .gpcm.helpers.students import students
from .gpcm.helpers.training import train

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = {"x": torch.zeros(1000, 3), "y": torch.zeros(1000, dtype=torch.int64)}
SHOWN = "1,000 samples, x float32[3], y int64, 20.00 kB"


def test_sources_say_their_samples_fields_and_bytes(tmp_path: Path):
    assert repr(data.source(ROWS)) == f"ArrayDataset({SHOWN})"
    assert repr(data.source(torch.zeros(1, 2))) == "ArrayDataset(1 sample, float32[2], 8 B)"
    assert repr(data.Subset(ROWS, [1, 2])) == "Subset(2 samples, x float32[3], y int64, 40 B)"
    ragged = data.source({"x": data.Ragged(torch.zeros(5), torch.tensor([0, 2, 5]))})
    assert repr(ragged).startswith("ArrayDataset(2 samples, x float32 ragged, ")
    wide = data.source({f"field_{number}": torch.zeros(10) for number in range(9)})
    assert repr(wide).endswith("field_5 float32, 3 more fields, 360 B)")
    np.save(tmp_path / "rows.npy", np.zeros((5, 2), np.float32))
    assert repr(data.source(tmp_path / "rows.npy")).endswith("(5 samples, float32[2], 40 B)")


def test_a_loader_says_where_it_is():
    loader = data.loader(ROWS, batch_size=64, device="cpu", tier="device")
    line = "Loader(1,000 samples in 16 batches of 64, shuffled, tier 'device' on cpu, at epoch {})"
    assert repr(loader) == line.format("0, batch 0")
    batches = loader.epoch(2)
    next(batches)
    assert repr(loader) == line.format("2, batch 1")


def test_gp_data_says_its_sizes():
    assert repr(gp.synthetic(20, 8)) == "GPData(20 tasks, at most 8 points, 1 input dimension in common)"
    own = gp.synthetic(20, 8, shared=False)
    assert repr(own) == "GPData(20 tasks, at most 8 points, 1 input dimension)"


def test_splits_say_the_sizes_of_their_parts():
    splits = wpo.DataSplits("rings", torch.zeros(2000, 2), torch.zeros(30, 2), torch.zeros(5, 2))
    assert repr(splits) == "DataSplits('rings': rows of 2 numbers: 2,000 training, 30 held out, 5 centers)"


def test_recordings_say_how_many_are_located():
    one = torch.zeros(2, 4)
    transmitter = torch.tensor([[52.0, 4.0], [torch.nan, torch.nan]])
    values = {"snr_db": one, "psd_dbm_hz": one, "frequency_offset_hz": one}
    everyone = {"mask": one == 0, "detected": one == 0}
    recordings = Recordings.of(positions=torch.zeros(2, 4, 2), transmitter=transmitter, **everyone, **values)
    assert repr(recordings) == "Recordings(2 recordings, at most 4 receivers, 1 with a known transmitter)"


def test_a_report_says_what_is_in_it():
    report = Report({"qwk": 0.5, "kernel": "<rbf>"}, tables={"items": pa.table({"a": [1]})})
    assert repr(report) == "Report(2 metrics; tables: items)"
    assert repr(Report({"qwk": 0.5})) == "Report(1 metric)"
    assert "<th>qwk</th><td>0.5</td>" in report._repr_html_() and "&lt;rbf&gt;" in report._repr_html_()


def test_students_predictions_and_folds():
    result = train(epochs=1)
    assert isinstance(result, GPCMResult)
    held_out = result.held_out
    sizes = f"{held_out.students.steps} answers of {len(held_out.students)} students"
    assert repr(held_out) == f"Predictions({sizes}, 3 categories)"
    assert repr(students([3, 4])).startswith("Students(2 students, 7 answers, ")
    folds = gpcm.CrossValidationResult.of((result, result), (), 1, 1.0)
    line, scores = repr(folds), folds.scores
    assert line.startswith(f"CrossValidationResult(2 folds, {scores.count} answers, qwk={scores.qwk:.4f} ± 0.0000, ")
    assert line.endswith(", best fold 1)") and "\n" not in line
    table = folds._repr_html_()
    assert isinstance(scores, OrdinalScores) and f"<td>{scores.qwk:.4f}</td>" in table
    assert "<th>fold 2</th>" in table and "<th>mean</th>" in table and "<th>accuracy</th>" in table
