"""The rows of a shard, from chunks that others read and put into their slots."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import torch

from brimful.data.dataset import Field
from brimful.data.shuffle.window import WindowShuffle
from brimful.data.tiers.row_pool import ChunkSize
from brimful.data.tiers.window_stream import WindowStream

Put = Callable[[dict[str, Any]], Any]


class Readers:
    """Reads a chunk at once, or never: then what would have put it into its slot is remembered."""

    def __init__(self, shuffle: WindowShuffle, most: int = 10**6) -> None:
        self.shuffle, self.left, self.given_up = shuffle, most, list[Put]()

    def submit(self, chunk: int, put: Put) -> Future[Any]:
        read: Future[Any] = Future()
        if self.left > 0:
            read.set_result(put({"x": torch.arange(*self.shuffle.rows(chunk))}))
        else:
            self.given_up.append(put)
        self.left -= 1
        return read


def rows(stream: WindowStream, start: int, stop: int) -> list[int]:
    buffer = stream.buffer(stop - start, pin=False)
    stream.read(start, stop, buffer)
    return buffer.fields()["x"].tolist()


@pytest.mark.parametrize("window", [1, 3, 7])
def test_a_read_that_was_given_up_writes_nowhere(window: int):
    """It may end long after its epoch, when another chunk is in its slot."""
    shuffle = WindowShuffle(samples=60, seed=0, chunk_rows=4, window=window)
    stream = WindowStream(shuffle, True, 0, ChunkSize.of({"x": Field(torch.int64, ())}, 4), ahead=3)
    first, second = Readers(shuffle, shuffle.chunks), Readers(shuffle)
    stream.open(0, 0, first.submit)
    assert rows(stream, 0, 60) == shuffle.of(0).tolist()
    stream.close()
    assert bool(first.given_up) == (window > 1)  # what is read of the next epoch, there is room for
    stream.open(1, 0, second.submit)
    seen = rows(stream, 0, 22)
    for put in first.given_up:
        put({"x": torch.full((4,), -1)})
    assert seen + rows(stream, 22, 60) == shuffle.of(1).tolist()


@pytest.mark.parametrize("ahead", [1, 4])
def test_chunks_that_come_at_once_do_not_overwrite_rows_that_are_still_wanted(ahead: int):
    shuffle = WindowShuffle(samples=101, seed=3, chunk_rows=5, window=5)
    stream = WindowStream(shuffle, True, 0, ChunkSize.of({"x": Field(torch.int64, ())}, 5), ahead)
    for epoch in range(4):
        stream.open(epoch, 0, Readers(shuffle).submit)
        assert [row for start in range(0, 101, 7) for row in rows(stream, start, min(101, start + 7))] == shuffle.of(
            epoch
        ).tolist()
        stream.close()
