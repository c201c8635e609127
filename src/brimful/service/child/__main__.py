"""`python -m brimful.service.child JOBDIR` runs a job; `... plan` plans one that it reads from standard input, and
`... fork-server` forks the processes of jobs for a server."""

import sys
from pathlib import Path

from . import fork_server, plan, run
from .job_dir import ExitCode

if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m brimful.service.child JOBDIR | plan | fork-server", file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    commands = {"plan": plan.main, "fork-server": fork_server.main}
    sys.exit(commands[sys.argv[1]]() if sys.argv[1] in commands else run.main(Path(sys.argv[1]).absolute()))
