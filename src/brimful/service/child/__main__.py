"""`python -m brimful.service.child JOBDIR` runs a job; `... fork-server` forks the processes of jobs for a server."""

import sys
from pathlib import Path

from . import fork_server, run
from .job_dir import ExitCode

if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m brimful.service.child JOBDIR | fork-server", file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    sys.exit(fork_server.main() if sys.argv[1] == "fork-server" else run.main(Path(sys.argv[1]).absolute()))
