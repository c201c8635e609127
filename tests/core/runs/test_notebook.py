"""Progress, results and plans in a notebook: one output that is updated in place, and short tables."""

import os
from typing import Any

import nbclient
import nbformat
import pytest

from brimful.core.runs.events import BatchDone, Compiled, EpochDone, Finished, Started, Warned
from brimful.core.runs.notebook import NotebookBar, in_notebook
from brimful.core.runs.progress import sink_for
from brimful.core.runs.progress_lines import Lines

from ...helpers.paths import ROOT

CELLS = (
    "import torch, brimful",
    "result = brimful.map(torch.sqrt, torch.arange(-1.0, 5000), batch_size=500, device='cpu')",
    "result",
    "result.plan",
    "parts = brimful.map(torch.exp, torch.zeros(300), stream=True, device='cpu')\n"
    "total = sum(float(part.values.sum()) for part in parts)",
    "total",
    "brimful.map(torch.sqrt, torch.arange(9.0), device='cpu', progress=False).status.sum()",
)


@pytest.fixture(scope="module")
def outputs() -> list[list[Any]]:
    """The outputs of each cell, after a kernel has run them all."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(env=environment)
    return [cell.outputs for cell in notebook.cells]


def test_a_run_has_one_output_that_says_how_it_ended(outputs: list[list[Any]]):
    for cell in (1, 4):
        assert [output.output_type for output in outputs[cell]] == ["display_data"]
        data = outputs[cell][0].data
        assert "map: finished" in data["text/plain"]
        assert data["text/html"].startswith("<div>")
        assert "<progress" not in data["text/html"]
    assert "1 flagged" in outputs[1][0].data["text/plain"]
    assert outputs[5][0].data["text/plain"] == "300.0"
    assert [output.output_type for output in outputs[6]] == ["execute_result"]


def test_results_and_plans_are_short_tables(outputs: list[list[Any]]):
    for cell, caption, begin in ((2, "MapResult", "<table><caption>MapResult"), (3, "Plan", "<pre>  work ")):
        data = outputs[cell][0].data
        assert data["text/html"].startswith(begin)
        assert len(data["text/html"]) < 2000
        assert data["text/plain"].startswith(caption)
        assert len(data["text/plain"]) < 600


class Handle:
    """In place of IPython's: what is displayed."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


def test_what_is_shown_while_it_runs(monkeypatch: pytest.MonkeyPatch):
    now, handle = [0.0], Handle()

    def display(bundle: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert display_id
        handle.update(bundle, raw)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    bar = NotebookBar(lambda: now[0])
    bar(Compiled(loops=0, seconds=0, work="gp fit"))
    bar(Started(work="map", items=200, done=0, budget=1_000_000))
    for count in range(100):  # many batches in a moment, and few updates
        now[0] += 0.01
        bar(BatchDone(items=1, bad=0, done=count + 1, seconds=0.01, peak=500_000, budget=1_000_000))
    assert len(handle.shown) <= 2 + 4
    assert "compiling, once" in handle.shown[0]["text/plain"]
    assert '<progress value="100" max="200"' in handle.shown[-1]["text/html"]
    assert "100 of 200 (50%)" in handle.shown[-1]["text/plain"]
    bar(Warned(message="<b>careful</b>"))
    assert "&lt;b&gt;careful" in handle.shown[-1]["text/html"]
    bar(EpochDone(epoch=1, epochs=3, step=4, seconds=1, values={"loss": 0.5}))
    assert "epoch 1 of 3: loss 0.5" in handle.shown[-1]["text/plain"]
    bar(Finished(state="finished", done=200, bad=0, seconds=2))
    assert handle.shown[-1]["text/plain"].endswith("map: finished, 200 items in 2.0 s")
    assert "<progress" not in handle.shown[-1]["text/html"]


def test_here_is_no_notebook(capsys: pytest.CaptureFixture[str]):
    assert not in_notebook()
    assert type(sink_for(None)) is Lines
