"""Maps that tests stop: an order has the name of a function in `mapping`, and what to map it over (stopping.py).

With the argument `workers` an order may name several devices, and a file that the pids of the workers are written to.
"""

import os
import sys
from pathlib import Path
from typing import Any

import brimful
from brimful.engine.distributed import workers

from ...helpers import forking
from ...helpers.stopping import serve
from ...helpers.worker_processes import forked_worker
from . import mapping


def work(order: dict) -> brimful.MapResult:
    """The map that an order asks for; the same here and in the test."""
    os.environ[mapping.PACE] = str(order["seconds"])
    function = mapping.Slowly(order["function"], order["log"])
    options = {name: order[name] for name in ("batch_size", "out", "fingerprint", "device") if name in order}
    items = mapping.rows(order["count"]) if not order.get("stream") else mapping.stream(order["count"])
    return brimful.map(function, items, progress=False, **options)


def work_with_workers(order: dict) -> brimful.MapResult:
    """The same; the workers are forked by a server of this script."""

    def start(*arguments: Any) -> forking.ForkedProcess:
        process = forked_worker(*arguments)
        with Path(order["workers"]).open("a") as file:
            file.write(f"{process.pid}\n")
        return process

    workers._spawn = start  # pyright: ignore[reportAttributeAccessIssue]
    return work(order)


if __name__ == "__main__":
    run = work
    if sys.argv[1:] == ["workers"]:
        run = work_with_workers
        forking.begin()
        forking.warm()
    serve(lambda order: f"finished {len(run(order).status)}")
