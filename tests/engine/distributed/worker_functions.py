"""What workers run in the tests of their supervisor."""

import os
import sys
import threading
import time
from typing import Any

import torch

from brimful.engine.distributed.messages import Message
from brimful.engine.distributed.workers import Channel, Event, LocalWorkers


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


def die_with(channel: Channel, *arguments: Any) -> None:
    os._exit(9)


def until_cancelled(channel: Channel) -> str:
    channel.send("waiting")
    channel.cancel.wait()
    return "stopped"


def deaf(channel: Channel) -> None:
    """Does not stop by itself."""
    channel.send(os.getpid())
    while True:
        time.sleep(60)


def supervise(channel: Channel) -> None:
    """Supervises a worker of its own, in a new interpreter."""
    channel.send(os.getpid())
    with LocalWorkers() as workers:
        workers.start("inner", deaf)
        while workers.running:
            if (answer := workers.receive(1.0)) is not None:
                channel.send(answer.value)


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
    return {
        "threads": torch.get_num_threads(),
        "path": sys.path,
        "argv": sys.argv,
        "main": getattr(sys.modules["__main__"], "__file__", None),
    }


def large_from_threads(channel: Channel, count: int) -> None:
    """Sends what it was given, and a number more from every thread."""
    given = channel.receive()

    def send(thread: int) -> None:
        for _ in range(count):
            channel.send((thread, given + thread))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def half_a_message(channel: Any) -> None:
    """Ends in the middle of sending."""
    message = Message.of((Event.SENT, torch.zeros(1 << 20)))
    channel.messages.send_bytes(message.content)
    os.write(channel.messages.fileno(), message.buffers[0][:1000])
    os._exit(3)
