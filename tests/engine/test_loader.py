"""Reading ahead: the thread is not left in the middle of its work when a run ends, and a source that blocks is."""

import threading
import time

from brimful.engine import loader
from brimful.engine.items import Loaded
from brimful.engine.loader import Loader


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "brimful-loader" and each.is_alive()]


def test_what_is_being_read_is_read_to_its_end_and_the_rest_is_not():
    read = []

    def slow(number: int) -> Loaded:
        time.sleep(0.2)
        read.append(number)
        return Loaded(number, 1, None)

    with Loader() as ahead:
        futures = [ahead.submit(lambda number=number: slow(number)) for number in range(3)]
        assert futures[0].result().start == 0
    assert threads() == []
    assert read in ([0], [0, 1])


def test_a_source_that_blocks_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(loader, "_PATIENCE", 0.1)
    free = threading.Event()
    started = time.perf_counter()
    with Loader() as ahead:
        ahead.submit(lambda: Loaded(0, int(free.wait(30)), None))
    assert time.perf_counter() - started < 5
    free.set()
