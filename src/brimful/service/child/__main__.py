"""`python -m brimful.service.child JOBDIR` runs a job; `... plan` plans one that it reads from standard input."""

import sys
from pathlib import Path

from . import plan, run
from .job_dir import ExitCode

if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m brimful.service.child JOBDIR | plan", file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    sys.exit(plan.main() if sys.argv[1] == "plan" else run.main(Path(sys.argv[1]).absolute()))
