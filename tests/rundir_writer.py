"""Writers in processes of their own, for tests that kill them.

Started once, it forks a writer for each line it reads: `churn PATH` writes to a run directory without end,
`hold PATH` opens it and waits. The writer's pid is printed first, then what it has to say, then `ended`.
"""

import os
import sys
import time
from pathlib import Path

from brimful.errors import BrimfulError
from brimful.events import BatchDone, Finished, Started
from brimful.files import write_atomic
from brimful.rundir import RunDir

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
    try:
        with RunDir.open(path, **RUN):
            print("held", flush=True)
            time.sleep(600)
    except BrimfulError as error:
        print(f"{type(error).__name__}: {error}", flush=True)


def main() -> None:
    for line in sys.stdin:
        command, _, path = line.strip().partition(" ")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            {"churn": churn, "hold": hold}[command](Path(path))
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
