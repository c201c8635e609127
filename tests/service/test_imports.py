"""What the process of the server imports: neither torch nor any workload, which its other processes have."""

import json
import subprocess
import sys

from ..helpers.paths import ROOT

_HEAVY = ("torch", "numba", "pandas", "scipy", "sympy", "matplotlib", "pyarrow")
_PROGRAM = f"""
import json, sys
from pathlib import Path
import brimful.service.server
from brimful.service.options import ServeOptions
from brimful.service.service import Service
from brimful.service.api.app import create_app
from brimful.service.security.policy import SecurityPolicy
service = Service(ServeOptions(state=Path(sys.argv[1]), database="postgresql://localhost/none"))
create_app(service, SecurityPolicy.for_host("127.0.0.1"))
service.inventory.capacity()
service.health()
workloads = [name for name in sys.modules if name.startswith("brimful.") and name.endswith(".workload")]
print(json.dumps([name for name in {_HEAVY!r} if name in sys.modules] + workloads))
"""


def test_the_server_imports_no_torch(tmp_path: object):
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
