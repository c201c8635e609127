"""Progress for people: plain lines in a pipe, a bar on a terminal."""

import io
import re

import pytest

from brimful.core.runs.events import BatchDone, EpochDone, Event, Finished, Sampled, Started, Warned
from brimful.core.runs.progress import Bar, sink_for
from brimful.core.runs.progress_lines import Lines

GB = 10**9


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def batch(done: int) -> BatchDone:
    return BatchDone(items=10, bad=0, done=done, seconds=1.0, peak=3 * GB, budget=8 * GB)


def test_who_gets_what():
    seen: list[Event] = []
    assert sink_for(False) is None
    assert sink_for(seen.append) == seen.append
    assert isinstance(sink_for(None, io.StringIO()), Lines)
    assert isinstance(sink_for(True, io.StringIO()), Lines)
    assert isinstance(sink_for(None, Terminal()), Bar)


def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]):
    sink = sink_for(None)
    assert sink is not None
    sink(Warned(message="look out"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "warning: look out\n")


def test_a_whole_run_in_a_pipe_is_plain_lines():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock=clock)
    lines(Started(work="gp fit", items=1000, done=200, budget=8 * GB))
    for done in range(210, 1001, 10):
        clock.now += 1
        lines(batch(done))
        lines(Sampled(used=1, process=1, utilisation=None, watts=None))
    lines(Warned(message="the disk is slow"))
    lines(Finished(state="finished", done=1000, bad=3, seconds=80.0, message="see out/"))
    text = stream.getvalue()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]", text)
    printed = text.splitlines()
    assert printed[0] == "gp fit: 1,000 items, 200 done before, budget 8.00 GB"
    assert printed[1] == "gp fit: 250 of 1,000 (25%), 10/s, 1m15s left, 3.00 GB of 8.00 GB"
    assert printed[-2] == "warning: the disk is slow"
    assert printed[-1] == "gp fit: finished, 1,000 items, 3 flagged in 1m20s. see out/"
    assert printed[-3] == "gp fit: 1,000 of 1,000 (100%), 10/s, 3.00 GB of 8.00 GB"
    assert len(printed) == 3 + 80 // 5


def test_nothing_is_left_after_the_last_epoch():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock=clock)
    lines(Started(work="train", items=1000, done=0, budget=0))
    for epoch in (1, 2):
        clock.now += 1
        lines(batch(499 * epoch))
        lines(EpochDone(epoch=epoch, epochs=2, step=epoch, values={"train_loss": 0.5}, seconds=1.0))
    assert stream.getvalue().splitlines()[1:] == [
        "train: epoch 1 of 2: train_loss 0.5, 1.0 s left",
        "train: epoch 2 of 2: train_loss 0.5",
    ]


def test_a_stream_has_no_share_and_no_end():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, every=0.0, clock=clock)
    lines(Started(work="map", items=None, done=0, budget=GB))
    clock.now += 2
    lines(batch(10))
    assert stream.getvalue().splitlines() == [
        "map: a stream, budget 1.00 GB",
        "map: 10, 5/s, ? left, 3.00 GB of 8.00 GB",
    ]


def test_nothing_to_do_does_not_divide_by_nothing():
    stream = io.StringIO()
    lines = Lines(stream, every=0.0, clock=Clock())
    lines(Started(work="map", items=0, done=0, budget=GB))
    lines(batch(0))
    lines(Finished(state="finished", done=0, bad=0, seconds=0.0))
    assert stream.getvalue().splitlines()[-1] == "map: finished, 0 items in 0 µs"


@pytest.mark.parametrize("items", [100, 0, None])
def test_a_bar_on_a_terminal_shows_done_rate_and_memory_and_clears_itself(
    items: int | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    stream = Terminal()
    bar = Bar(stream)
    bar(Started(work="gp fit", items=items, done=0, budget=8 * GB))
    for done in (10, 50, 100):
        bar(batch(done))
    bar(Sampled(used=1, process=1, utilisation=None, watts=None))
    bar(Warned(message="slow [/disk] at [cuda:0]"))
    bar(Finished(state="finished", done=100, bad=1, seconds=3.0, message="rows [3, 5] [/x]"))
    bar.close()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "gp fit" in text
    assert "3.00 GB of 8.00 GB" in text
    assert "warning: slow [/disk] at [cuda:0]" in text
    assert "finished, 100 items, 1 flagged in 3.0 s. rows [3, 5] [/x]" in text
    assert "\x1b" in stream.getvalue()


def test_a_name_with_brackets_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "160")
    stream = Terminal()
    bar = Bar(stream)
    bar(Started(work="map [/x] [red]", items=10, done=0, budget=GB))
    bar(batch(10))
    bar(Finished(state="finished", done=10, bad=0, seconds=1.0))
    assert "map [/x] [red]: finished" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_a_second_run_on_one_bar_starts_anew():
    stream = Terminal()
    bar = Bar(stream)
    for work in ("first", "second"):
        bar(Started(work=work, items=10, done=0, budget=GB))
        bar(batch(10))
        bar(Finished(state="finished", done=10, bad=0, seconds=1.0))
    assert "second: finished" in stream.getvalue()
