"""What workers run in the tests of their supervisor."""

import os
import threading
import time
from typing import Any

from brimful.engine.distributed.workers import Channel


class Unportable(Exception):
    """An error that cannot be pickled."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.lock = threading.Lock()


def echo(channel: Channel, count: int) -> str:
    """Sends back what it gets, so many times."""
    for _ in range(count):
        channel.send((os.getpid(), channel.receive()))
    return "done"


def fail(channel: Channel, error: Exception) -> None:
    raise error


def fail_unportably(channel: Channel) -> None:
    raise Unportable(7)


def die(channel: Channel, code: int) -> None:
    os._exit(code)


def until_cancelled(channel: Channel) -> str:
    channel.send("waiting")
    channel.cancel.wait()
    return "stopped"


def deaf(channel: Channel) -> None:
    """Does not stop by itself."""
    channel.send(os.getpid())
    while True:
        time.sleep(60)


def lingering(channel: Channel) -> int:
    """Returns, and has a thread that keeps the process from ending."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    return os.getpid()


def from_threads(channel: Channel, count: int) -> None:
    def send(thread: int) -> None:
        for number in range(count):
            channel.send((thread, number, b"x" * 10_000))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def environment(channel: Channel) -> dict[str, Any]:
    import sys

    import torch

    return {
        "threads": torch.get_num_threads(),
        "path": sys.path,
        "argv": sys.argv,
        "main": getattr(sys.modules["__main__"], "__file__", None),
    }
