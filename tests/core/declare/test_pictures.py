"""Pictures that every workload draws alike."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest

from brimful.core.declare.captions import caption_of
from brimful.core.declare.pictures import add_legends, draw_run, figure_of, save
from brimful.core.runs.events import BatchDone, Event, Sampled, Warned


def batch(time: float, items: int, seconds: float, peak: int) -> BatchDone:
    return BatchDone(time=time, items=items, bad=0, done=items, seconds=seconds, peak=peak, budget=10**9)


def sample(time: float, used: int) -> Sampled:
    return Sampled(time=time, used=used, process=used, utilisation=None, watts=None)


@pytest.mark.parametrize("caption", ["", "What it shows, in a sentence", "a \N{GREEK SMALL LETTER BETA} of 0.5"])
def test_a_picture_says_what_it_shows(tmp_path: Path, caption: str):
    assert caption_of(save(figure_of(2, 2), tmp_path / "a.png", caption)) == caption


def test_what_is_no_picture_has_no_caption(tmp_path: Path):
    for content in (b"", b"text", b"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\n\xff\xff\xff\xfftEXt"):
        (tmp_path / "a.png").write_bytes(content)
        assert caption_of(tmp_path / "a.png") == ""
    assert caption_of(tmp_path / "none.png") == ""


@pytest.mark.parametrize("events", [[], [Warned(message="nothing yet")], [sample(3.0, 10**6)]])
def test_a_run_without_batches_has_a_title_and_no_lines(events: list[Event]):
    axes = figure_of(4, 3).add_subplot()
    draw_run(axes, events, "tasks")
    assert axes.get_title() == "the run"
    assert len(axes.lines) == 0


def test_a_run_shows_throughput_and_memory_from_its_beginning():
    figure = figure_of(4, 3)
    axes = figure.add_subplot()
    done = [batch(101.0, 50, 1.0, 3_000_000), batch(103.0, 400, 2.0, 9_000_000), batch(103.0, 7, 0.0, 1_000_000)]
    draw_run(axes, [sample(100.5, 2_000_000), *done, sample(102.5, 4_000_000)], "tasks")
    (rate,) = axes.lines
    assert rate.get_xdata().tolist() == [0.0, 1.0, 3.0]
    assert rate.get_ydata().tolist() == [50.0, 50.0, 200.0]
    assert axes.get_ylabel() == "tasks per second"
    (memory,) = [each for each in figure.axes if each is not axes]
    line, dots = memory.lines
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0.5, 2.5], [2.0, 4.0])
    assert dots.get_ydata().tolist() == [3.0, 9.0, 1.0]
    assert memory.get_ylim()[0] == axes.get_ylim()[0] == axes.get_xlim()[0] == 0


def test_batches_that_end_together_do_not_make_a_peak():
    axes = figure_of(4, 3).add_subplot()
    together = [batch(100 + second + late, 10, 0.001, 1) for second in range(1, 11) for late in (0.0, 0.001)]
    draw_run(axes, [batch(100.0, 10, 1.0, 1), *together], "tasks")
    assert max(axes.lines[0].get_ydata()) < 25


def test_a_run_that_took_no_time_is_drawn():
    axes = figure_of(4, 3).add_subplot()
    draw_run(axes, [batch(100.0, 10, 0.0, 1)], "tasks")
    assert np.isfinite(axes.lines[0].get_ydata()).all()


def test_a_figure_is_written_in_its_size(tmp_path: Path):
    figure = figure_of(6, 4)
    draw_run(figure.add_subplot(), [batch(1.0, 5, 0.5, 10**6)], "networks")
    pixels = matplotlib.image.imread(save(figure, tmp_path / "run.png"))
    assert pixels.shape[:2] == (440, 660)
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 10


@pytest.mark.usefixtures("rendered_pictures")
def test_on_a_slow_machine_a_legend_is_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seconds = itertools.count(step=10)
    monkeypatch.setattr("matplotlib.legend.time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    figure = figure_of(3, 2)
    figure.subplots().plot([0, 1], [0, 1], label="line")
    assert save(add_legends(figure), tmp_path / "slow.png").exists()
    assert next(seconds) > 0  # it was asked how long it takes
