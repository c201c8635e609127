"""Maps that tests stop: an order has the name of a function in `mapping`, and what to map it over (stopping.py)."""

import os

import brimful

from ...helpers.stopping import serve
from . import mapping


def work(order: dict) -> brimful.MapResult:
    """The map that an order asks for; the same here and in the test."""
    os.environ[mapping.PACE] = str(order["seconds"])
    function = mapping.Slowly(order["function"], order["log"])
    options = {name: order[name] for name in ("batch_size", "out", "fingerprint") if name in order}
    items = mapping.rows(order["count"]) if not order.get("stream") else mapping.stream(order["count"])
    return brimful.map(function, items, progress=False, **options)


if __name__ == "__main__":
    serve(lambda order: f"finished {len(work(order).status)}")
