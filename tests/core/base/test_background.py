"""Working ahead: the thread is not left in the middle of its work when a run ends, and a source that blocks is."""

import threading
import time

from brimful.core.base import background
from brimful.core.base.background import BackgroundThread


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "brimful-ahead" and each.is_alive()]


def test_what_is_being_read_is_read_to_its_end_and_the_rest_is_not():
    read = []

    def slow(number: int) -> int:
        time.sleep(0.2)
        read.append(number)
        return number

    with BackgroundThread() as worker:
        futures = [worker.submit(lambda number=number: slow(number)) for number in range(3)]
        assert futures[0].result() == 0
    assert threads() == []
    assert read in ([0], [0, 1])


def test_a_source_that_blocks_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(background, "_PATIENCE", 0.1)
    free = threading.Event()
    with BackgroundThread() as worker:
        blocked = worker.submit(lambda: free.wait(250))
    assert not blocked.done()
    free.set()
