"""Events: typed, one stream, a log that a crash cannot spoil, and sinks that cannot take the work down."""

import json
import threading
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import BrimfulWarning, StorageError
from brimful.core.runs import events
from brimful.core.runs.events import (
    BatchDone,
    Event,
    Events,
    Finished,
    JsonLines,
    Planned,
    Sampled,
    Started,
    Warned,
    from_dict,
    read_log,
    read_log_end,
)

counts = st.integers(0, 2**53)
times = st.floats(0, 1e12)
texts = st.text()
any_event = st.one_of(
    st.builds(Planned, time=times, plan=st.dictionaries(texts, st.one_of(counts, texts, st.none()))),
    st.builds(Started, time=times, work=texts, items=st.none() | counts, done=counts, budget=counts),
    st.builds(BatchDone, time=times, items=counts, bad=counts, done=counts, seconds=times, peak=counts, budget=counts),
    st.builds(Sampled, time=times, used=counts, process=counts, utilisation=st.none() | times, watts=st.none()),
    st.builds(Warned, time=times, message=texts),
    st.builds(Finished, time=times, state=texts, done=counts, bad=counts, seconds=times, message=texts),
)

STORY: list[Event] = [
    Started(time=1.5, work="nets træning ☂", items=10, done=0, budget=10**9),
    BatchDone(time=2.5, items=5, bad=1, done=5, seconds=0.25, peak=123, budget=10**9),
    Warned(time=3.5, message='line\nbreak, "quotes" and \x1b codes'),
    Finished(time=4.5, state="finished", done=10, bad=1, seconds=2.0),
]


def write(path: Path, story: Sequence[Event]) -> None:
    log = JsonLines(path)
    for event in story:
        log(event)
    log.close()


@given(any_event)
def test_every_event_survives_json(event: Event):
    assert from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_every_kind_there_is_can_be_read_back():
    assert {kind.__name__ for kind in events.KINDS.values()} == {kind.__name__ for kind in Event.__subclasses__()}
    known = {"planned", "started", "batch_done", "epoch_done", "metric", "sampled", "warned", "compiled", "finished"}
    assert set(events.KINDS) == known | {"nodes_done", "memory_measured"}


_VALUES = {
    "plan": {},
    "nodes": {},
    "values": {},
    "parts": {},
    "work": "",
    "metric": "",
    "message": "",
    "state": "",
}  # of fields that are not numbers


@pytest.mark.parametrize("name", list(events.KINDS))
def test_an_event_with_a_field_missing_is_not_misread(name: str):
    kind = events.KINDS[name]
    full = {"event": name, **{field.name: _VALUES.get(field.name, 0) for field in fields(kind)}}
    assert from_dict(full) is not None
    assert from_dict({**full, "from a later version": 1}) == from_dict(full)
    for field in fields(kind):
        less = from_dict({name: value for name, value in full.items() if name != field.name})
        assert less is None or field.name == "compiling"  # which logs of earlier versions do not have
        for other in ([1], True, {} if field.name not in ("plan", "values", "nodes", "parts") else 0):
            assert from_dict({**full, field.name: other}) is None


@pytest.mark.parametrize("data", [{}, {"event": "later"}, {"event": None}, {"event": []}, {"event": {}}])
def test_what_is_no_event_is_none(data: dict):
    assert from_dict(data) is None


def test_a_log_reads_back(tmp_path: Path):
    path = tmp_path / "log"
    write(path, STORY[:2])
    write(path, STORY[2:])
    assert list(read_log(path)) == STORY
    assert len(path.read_text().splitlines()) == len(STORY)
    assert all(json.loads(line)["event"] for line in path.read_text().splitlines())


def test_a_log_cut_at_any_byte_keeps_all_whole_lines_and_can_be_written_on(tmp_path: Path):
    path = tmp_path / "log"
    write(path, STORY)
    whole = path.read_bytes()
    more = Warned(time=9.0, message="after the crash")
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        lines = whole[:cut].count(b"\n")
        read = list(read_log(path))
        assert read in (STORY[:lines], STORY[: lines + 1])
        assert read_log_end(path) == read
        write(path, [more])
        assert list(read_log(path)) == [*STORY[:lines], more]


def test_a_torn_line_longer_than_a_block_is_cut(tmp_path: Path):
    path = tmp_path / "log"
    write(path, STORY)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event": "warned", "message": "' + b"x" * 200_000)
    write(path, [])
    assert path.read_bytes() == whole
    path.write_bytes(b"x" * 200_000)
    write(path, [])
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    "line", [b"\xff\xfe\x00", b"[1, 2]", b"null", b'{"event": []}', b'{"event": "later"}', b"[" * 100_000, b""]
)
def test_a_foreign_line_is_passed_over(tmp_path: Path, line: bytes):
    path = tmp_path / "log"
    write(path, STORY[:2])
    path.write_bytes(path.read_bytes() + line + b"\n")
    write(path, STORY[2:])
    assert list(read_log(path)) == STORY


def test_the_end_of_a_long_log_is_read_alone(tmp_path: Path):
    path = tmp_path / "log"
    story = [Warned(time=float(place), message="x" * 100) for place in range(100)]
    write(path, story)
    end = read_log_end(path, most=1000)
    assert 0 < len(end) < 10
    assert end == story[-len(end) :]


def test_every_sink_gets_every_event_in_order():
    first: list[Event] = []
    second: list[Event] = []
    stream = Events(first.append)
    stream.emit(STORY[0])
    stream.add(second.append)
    for event in STORY[1:]:
        stream.emit(event)
    assert (first, second) == (STORY, STORY[1:])


def test_a_sink_that_raises_is_told_of_once_and_left_out():
    calls: list[Event] = []
    seen: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise ValueError("no more")

    stream = Events(broken, seen.append)
    with pytest.warns(BrimfulWarning, match="left out.*no more"):
        stream.emit(STORY[0])
    for event in STORY[1:]:
        stream.emit(event)
    assert calls == STORY[:1]
    assert seen == STORY


def test_a_full_disk_does_pass():
    def full(event: Event) -> None:
        raise StorageError("the disk is full")

    with pytest.raises(StorageError):
        Events(full).emit(STORY[0])


class Closing:
    def __init__(self, error: Exception | None = None) -> None:
        self.closed, self.error = 0, error

    def __call__(self, event: Event) -> None:
        pass

    def close(self) -> None:
        self.closed += 1
        if self.error:
            raise self.error


def test_closing_closes_each_sink_once():
    sink = Closing()
    with Events(sink, print) as stream:
        pass
    stream.close()
    assert sink.closed == 1


def test_a_sink_that_fails_to_close_is_told_of_and_the_others_are_closed():
    bad, good = Closing(ValueError("stuck")), Closing()
    with pytest.warns(BrimfulWarning, match="stuck"), Events(bad, good):
        pass
    assert good.closed == 1


def test_events_from_many_threads_do_not_mix(tmp_path: Path):
    path = tmp_path / "log"
    with Events(JsonLines(path)) as stream:

        def work(name: int) -> None:
            for place in range(50):
                stream.emit(Warned(message=f"{name} {place} " + "x" * 5000))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    messages = [event.message.split()[:2] for event in read_log(path) if isinstance(event, Warned)]
    assert len(messages) == 200
    for name in range(4):
        assert [place for who, place in messages if who == str(name)] == [str(place) for place in range(50)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_log_on_a_full_disk_says_so_and_still_closes():
    log = JsonLines(Path("/dev/full"))
    with pytest.raises(StorageError, match="disk is full"):
        log(STORY[0])
    log.close()


def test_a_log_that_cannot_be_opened_says_so(tmp_path: Path):
    with pytest.raises(StorageError, match="cannot write"):
        JsonLines(tmp_path)
    with pytest.raises(StorageError, match="cannot write"):
        JsonLines(tmp_path / "no" / "log")
