"""Imports only go down, between layers, between the floors of the core, and inside every folder."""

import ast
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from .helpers.paths import ROOT

SOURCE = ROOT / "src" / "brimful"
FACES = ("service", "cli")  # the command line starts the server and asks it
EXEMPT = ("__init__.py", "__main__.py", "workloads.py", "core/declare/registry.py")  # the surface; what loads by name
FLOORS = ("core/base", "core/runs", "core/memory", "core/declare", "data", "engine/distributed", "engine")


def layer(root: Path, module: tuple[str, ...]) -> tuple[int, str]:
    """How high a module is, and what it belongs to there; the public surface itself counts as the engine."""
    path = "/".join(module)
    if module[0] in FACES:
        return len(FLOORS) + 1 + FACES.index(module[0]), module[0]
    if (root / module[0] / "workload.py").exists():
        return len(FLOORS), module[0]
    for height, floor in enumerate(FLOORS):
        if path == floor or path.startswith(floor + "/"):
            return height, "/".join(module[:2]) if floor == "engine" else floor
    return len(FLOORS) - 1, path


def find(root: Path, name: list[str]) -> tuple[str, ...]:
    """The module that an imported name is or comes from, as parts below the package."""
    parts: tuple[str, ...] = ()
    for part in name:
        below = root.joinpath(*parts, part)
        if not (below.is_dir() or below.with_suffix(".py").exists()):
            break
        parts = (*parts, part)
    return parts or ("__init__",)


def imports(root: Path, file: Path) -> Iterator[tuple[str, ...]]:
    """The modules of the package that a file imports."""
    package = [root.name, *file.relative_to(root).parent.parts]
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            names = [[*base, alias.name] for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                names = [str(node.args[0].value).split(".")]
        for name in names:
            if name[0] == root.name:
                yield find(root, name[1:])


@functools.cache
def graph(root: Path) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Every file of the package, as parts below it, with the modules it imports."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root)
        if str(inside) not in EXEMPT:
            found[inside.with_suffix("").parts] = set(imports(root, file))
    return found


def upward(root: Path) -> list[str]:
    """Imports of a higher layer, and of another workload, verb or face beside one's own."""
    found = []
    for module, targets in graph(root).items():
        height, own = layer(root, module)
        for target in sorted(targets):
            its_height, its = layer(root, target)
            if its_height > height or (its_height == height and its != own):
                found.append(f"{'/'.join(module)} imports {'/'.join(target)}")
    return found


def circles(root: Path) -> list[str]:
    """Files or folders that import each other, taken together at every level: what a folder holds counts as the
    folder."""
    edges = graph(root)
    folders = {module[:depth] for module in edges for depth in range(len(module))}
    found = []
    for folder in sorted(folders):
        depth = len(folder)
        inside: dict[str, set[str]] = {}
        for module, targets in edges.items():
            if module[:depth] != folder:
                continue
            mine = module[depth]
            for target in targets:
                if target[:depth] == folder:
                    its = target[depth] if len(target) > depth else "__init__"
                    if its != mine:
                        inside.setdefault(mine, set()).add(its)
        try:
            TopologicalSorter(inside).prepare()
        except CycleError as error:
            found.append(f"{'/'.join(folder)}: {' -> '.join(error.args[1])}")
    return found


def test_the_package_keeps_its_layers():
    assert upward(SOURCE) == []


def test_no_folder_has_a_circle():
    assert circles(SOURCE) == []


def test_the_checker_sees_the_imports_there_are():
    found = set(imports(SOURCE, SOURCE / "cli" / "commands.py"))
    assert {("core", "declare", "registry"), ("core", "runs", "events")} <= found


def test_folders_and_files_stay_small():
    for folder in (SOURCE, *(each for each in SOURCE.rglob("*") if each.is_dir())):
        assert len(list(folder.glob("*.py"))) <= 18, folder
    for file in SOURCE.rglob("*.py"):
        assert file.read_text().count("\n") <= 400, file


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "__init__.py": "from .engine.map import map",
        "__main__.py": "from .cli.app import main",
        "core/declare/registry.py": "import importlib",
        "core/memory/plan.py": "from .cost import Cost\nimport math",
        "core/memory/cost.py": "from ..base import formatting",
        "core/base/formatting.py": "",
        "data/sources.py": "from ..core.memory.plan import Plan\nfrom . import loader",
        "data/loader.py": "",
        "engine/__init__.py": "",
        "engine/distributed/workers.py": "",
        "engine/map/__init__.py": "from ...core.memory.plan import Plan\nfrom ..distributed import workers",
        "engine/fold/__init__.py": "from .term import f",
        "engine/fold/term.py": "",
        "gp/workload.py": "from ..engine.map import map\nfrom .model.kernels import f",
        "gp/fit.py": "from .data import sources\nfrom .model import kernels",
        "gp/model/kernels.py": "import torch\nfrom brimful import fold",
        "gp/data/sources.py": "",
        "wpo/workload.py": "from brimful.engine import fold",
        "cli/app.py": "from ..core.declare.registry import load\nfrom ..gp.model import kernels",
        "service/app.py": "from brimful.gp.workload import WORKLOAD",
    }
    root = tmp_path / "brimful"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def test_a_good_tree_has_no_violation(tree: Path):
    assert upward(tree) == circles(tree) == []


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("core/memory/plan.py", "from ...engine.map import map", "core/memory/plan imports engine/map"),
        ("core/memory/plan.py", "from ... import engine", "core/memory/plan imports engine"),
        ("core/memory/plan.py", "import brimful.engine.map", "core/memory/plan imports engine/map"),
        ("core/memory/plan.py", "from brimful import map", "core/memory/plan imports __init__"),
        ("core/memory/plan.py", "import brimful", "core/memory/plan imports __init__"),
        ("core/memory/plan.py", "def f():\n    from ...gp.model import f", "core/memory/plan imports gp/model"),
        ("core/memory/plan.py", "importlib.import_module('brimful.cli.app')", "core/memory/plan imports cli/app"),
        ("core/base/formatting.py", "from ..memory.plan import Plan", "core/base/formatting imports core/memory/plan"),
        ("data/sources.py", "from ..engine import map", "data/sources imports engine/map"),
        ("engine/map/__init__.py", "from ...gp.model import f", "engine/map/__init__ imports gp/model"),
        ("engine/map/__init__.py", "if T:\n    from ...cli import app", "engine/map/__init__ imports cli/app"),
        ("engine/map/__init__.py", "from ..fold import term", "engine/map/__init__ imports engine/fold/term"),
        ("engine/distributed/workers.py", "from ..map import map", "engine/distributed/workers imports engine/map"),
        ("gp/fit.py", "from ..wpo import workload", "gp/fit imports wpo/workload"),
        ("gp/fit.py", "import brimful.cli.app as app", "gp/fit imports cli/app"),
        ("gp/fit.py", "from ..service.app import app", "gp/fit imports service/app"),
        ("service/app.py", "from brimful.cli import app", "service/app imports cli/app"),
    ],
)
def test_a_planted_violation_is_caught(tree: Path, file: str, line: str, told: str):
    with (tree / file).open("a") as out:
        out.write(line + "\n")
    assert told in upward(tree)


@pytest.mark.parametrize(
    ("file", "line", "folder"),
    [
        ("gp/model/kernels.py", "from .. import fit", "gp: "),  # a folder, and a file that uses it
        ("gp/data/sources.py", "def f():\n    from ..fit import g", "gp: "),
        ("data/loader.py", "from .sources import source", "data: "),  # two files
        ("engine/fold/term.py", "from . import g", "engine/fold: "),  # a file, and its folder's own
    ],
)
def test_a_planted_circle_is_caught(tree: Path, file: str, line: str, folder: str):
    with (tree / file).open("a") as out:
        out.write(line + "\n")
    assert [told.startswith(folder) for told in circles(tree)] == [True]
