"""Reports and results: one value, printed, drawn, and shown in a notebook."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brimful.core.declare.pictures import figure_of
from brimful.core.declare.report import Report, with_report
from brimful.core.declare.result import Result
from brimful.core.declare.summary_text import format_summary
from brimful.core.memory.cost import Cost
from brimful.core.memory.plan import Candidate, choose

PLAN = choose("made", [Candidate(strategy="whole", cost=Cost(10**6, 10**3), items=10)], 10**9)


class Made(Result):
    def summary(self) -> dict:
        return {"tasks": 10, "kernel": "<rbf>", "bad_share": 0.25, "none": None, **super().summary()}


MADE = Made(plan=PLAN, observed=2 * 10**6, seconds=0.5)


def test_a_result_says_what_it_is_in_a_line_and_in_a_notebook():
    result = MADE
    assert result.predicted == PLAN.predicted
    assert repr(result).startswith("Made(tasks=10, kernel=<rbf>, bad=25.00%, seconds=500 ms, predicted peak=1.01 MB")
    shown = result._repr_html_()
    assert "<th>observed peak</th><td>2.00 MB</td>" in shown and "&lt;rbf&gt;" in shown and "none" not in shown


def test_a_summary_has_the_same_keys_everywhere_and_is_json():
    summary = MADE.summary()
    assert {"predicted_peak_bytes", "observed_peak_bytes", "seconds"} <= set(summary)
    assert json.loads(json.dumps(summary)) == summary
    assert "observed peak" in format_summary(summary)


def test_the_summary_of_a_command_names_the_pictures(tmp_path: Path):
    report = Report({}, pictures={name: lambda: figure_of(2, 1) for name in ("one", "two")})
    summary = with_report({"tasks": 3}, lambda _: report, tmp_path)
    assert summary == {"tasks": 3, "pictures": [str(tmp_path / "one.png"), str(tmp_path / "two.png")]}
    assert format_summary(summary).split()[-2:] == [f"{tmp_path}/one.png,", f"{tmp_path}/two.png"]
    without = with_report({"tasks": 3}, lambda _: report, None)
    assert without["pictures"] == [] and "pictures" not in format_summary(without)


@pytest.mark.usefixtures("rendered_pictures")
def test_a_report_is_saved_whole(tmp_path: Path):
    drawn = []

    def draw():
        drawn.append(True)
        figure = figure_of(2, 1)
        figure.subplots().plot([0, 1])
        return figure

    report = Report({"loss": 0.5}, {"items": pa.table({"a": [1]})}, {"fit": draw})
    assert str(report).split() == ["loss", "0.5"] and not drawn
    files = report.save(tmp_path / "out")
    assert [path.name for path in files] == ["fit.png", "items.parquet", "metrics.json"]
    assert (tmp_path / "out" / "fit.png").read_bytes().startswith(b"\x89PNG")
    assert pq.read_table(files[1]).to_pydict() == {"a": [1]}
    assert json.loads(files[2].read_text()) == {"loss": 0.5}
