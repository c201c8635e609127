"""Maps in processes of their own, for tests that stop them.

Started once, it forks a process for each line it reads: a JSON object with the name of a function in `mapping` and
what to map it over. The process's pid is printed first, then what the map had to say, then `ended`.
"""

import json
import os
import sys

import mapping
import torch

import brimful


def work(order: dict) -> brimful.MapResult:
    """The map that an order asks for; the same here and in the test."""
    mapping.PACE["seconds"] = order["seconds"]
    function = mapping.Slowly(order["function"], order["log"])
    options = {name: order[name] for name in ("batch", "out", "fingerprint") if name in order}
    items = mapping.rows(order["count"]) if not order.get("stream") else mapping.stream(order["count"])
    return brimful.map(function, items, progress=False, **options)


def main() -> None:
    torch.set_num_threads(1)  # threads do not outlive a fork
    for line in sys.stdin:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            try:
                print(json.dumps(f"finished {len(work(json.loads(line)).status)}"), flush=True)
            except BaseException as error:
                print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
