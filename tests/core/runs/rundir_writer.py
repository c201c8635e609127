"""Writers that tests kill: `churn` writes to a run directory without end, `hold` opens it and waits (stopping.py)."""

import time
from pathlib import Path
from typing import Any

from brimful.core.runs.events import BatchDone, Finished, Started
from brimful.core.runs.files import write_atomic
from brimful.core.runs.rundir import RunDir

from ...helpers.stopping import serve

RUN = {"work": "churn", "config": {"points": 40, "kernel": {"name": "rbf"}}, "input": "abc"}


def churn(path: Path) -> None:
    step = 0
    while True:
        with RunDir.open(path, **RUN) as run:
            step = max(step, run.manifest.get("step", 0))
            run.log(Started(work="churn", items=None, done=step, budget=10**9))
            for _ in range(5):
                step += 1
                text = f"{step}\n" * 2000
                write_atomic(path / f"shard-{step % 7}", text.encode())
                run.record(step=step)
                run.log(BatchDone(items=1, bad=0, done=step, seconds=0.1, peak=1, budget=10**9))
            run.log(Finished(state="interrupted", done=step, bad=0, seconds=1.0))


def hold(path: Path) -> None:
    with RunDir.open(path, **RUN):
        print("held", flush=True)
        time.sleep(600)


def write(order: dict[str, Any]) -> None:
    {"churn": churn, "hold": hold}[order["command"]](Path(order["path"]))


if __name__ == "__main__":
    serve(write)
