"""Server-sent events read from bytes, in whatever portions they come."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.service.client.server_sent_events import Message, MessageReader

STREAM = (
    b": a comment\n\nid: 1\nevent: metric\ndata: one\n\nid: 2\ndata:two\ndata: lines\n\n"
    b"retry: 2500\ndata\n\nid: 3\r\ndata: \xc3\xa4\r\n\r\ndata: still 3\r\rid: 4\n\ndata: now 4\n\ndata: torn"
)
MESSAGES = [
    Message("one", "metric", "1"),
    Message("two\nlines", "message", "2"),
    Message("", "message", "2"),
    Message("ä", "message", "3"),
    Message("still 3", "message", "3"),
    Message("now 4", "message", "4"),
]


def test_a_stream_at_once():
    reader = MessageReader()
    assert reader.feed(STREAM) == MESSAGES
    assert reader.retry == 2.5


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_portions_make_no_difference(ends: list[int]):
    reader, bounds = MessageReader(), [0, *sorted(ends), len(STREAM)]
    portions = [STREAM[start:end] for start, end in itertools.pairwise(bounds)]
    assert [message for portion in portions for message in reader.feed(portion)] == MESSAGES


def test_a_new_connection_goes_on_from_the_last_id():
    assert MessageReader("9").feed(b"data: x\n\n") == [Message("x", id="9")]


@pytest.mark.parametrize("line", [b"retry: soon", b"id: \0", b"unknown: x", b"\xef\xbb\xbf"])
def test_what_means_nothing_is_passed_over(line: bytes):
    reader = MessageReader()
    assert reader.feed(line + b"\ndata: x\n\n") == [Message("x")]
    assert reader.retry is None


def test_bytes_that_are_no_text_do_not_end_it():
    assert MessageReader().feed(b"data: \xff\n\n") == [Message("\ufffd")]
