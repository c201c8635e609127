"""Imports only go down: core, engine, workloads, faces. Workloads and faces never import their own kind."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "brimful"
FACES = ("cli", "service")
EXEMPT = ("__init__.py", "__main__.py", "registry.py")
CORE, ENGINE, WORKLOADS, FACE = range(4)


def layer(root: Path, part: str) -> int:
    """The layer of a file or folder directly under the package; the public surface itself counts as engine."""
    if part in FACES:
        return FACE
    if (root / part / "workload.py").exists():
        return WORKLOADS
    return ENGINE if part in ("engine", "__init__") else CORE


def exists(root: Path, part: str) -> bool:
    return (root / part).is_dir() or (root / f"{part}.py").exists()


def imports(root: Path, file: Path) -> Iterator[str]:
    """What a file imports of the package, by the first part of the name; `__init__` for the surface itself."""
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
                yield name[1] if len(name) > 1 and exists(root, name[1]) else "__init__"


def violations(root: Path) -> list[str]:
    found = []
    for file in sorted(root.rglob("*.py")):
        inside = file.relative_to(root)
        if str(inside) in EXEMPT:
            continue
        own = inside.parts[0].removesuffix(".py")
        for target in imports(root, file):
            up = layer(root, target) > layer(root, own)
            sideways = layer(root, target) == layer(root, own) >= WORKLOADS and target != own
            if up or sideways:
                found.append(f"{inside} imports {target}")
    return found


def test_the_package_keeps_its_layers():
    assert violations(SOURCE) == []


def test_the_checker_sees_the_imports_there_are():
    assert {"registry", "config", "events"} <= set(imports(SOURCE, SOURCE / "cli" / "commands.py"))
    assert set(imports(SOURCE, SOURCE / "cli" / "guard.py")) >= {"errors"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "__init__.py": "from .engine.map import map",
        "__main__.py": "from .cli.app import main",
        "registry.py": "import importlib",
        "plan.py": "from .cost import Cost\nimport math",
        "cost.py": "",
        "data/source.py": "from ..plan import Plan\nfrom . import loader",
        "data/loader.py": "",
        "engine/__init__.py": "",
        "engine/map.py": "from ..plan import Plan\nfrom .. import cost\nfrom .fold import fold",
        "engine/fold.py": "",
        "gp/workload.py": "from ..engine.map import map\nfrom .model import f\nfrom brimful.registry import Command",
        "gp/model.py": "import torch\nfrom brimful import fold",
        "wpo/workload.py": "from brimful.engine import fold",
        "cli/app.py": "from ..registry import load\nfrom ..gp import model",
        "service/app.py": "from brimful.gp.workload import WORKLOAD",
    }
    root = tmp_path / "brimful"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def test_a_good_tree_has_no_violation(tree: Path):
    assert violations(tree) == []


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("plan.py", "from .engine.map import map", "plan.py imports engine"),
        ("plan.py", "from . import engine", "plan.py imports engine"),
        ("plan.py", "import brimful.engine.map", "plan.py imports engine"),
        ("plan.py", "from brimful import map", "plan.py imports __init__"),
        ("plan.py", "import brimful", "plan.py imports __init__"),
        ("plan.py", "def f():\n    from .gp import model", "plan.py imports gp"),
        ("plan.py", "importlib.import_module('brimful.cli.app')", "plan.py imports cli"),
        ("data/source.py", "from ..engine import map", "data/source.py imports engine"),
        ("engine/map.py", "from ..gp.model import f", "engine/map.py imports gp"),
        ("engine/map.py", "if TYPE_CHECKING:\n    from ..cli import app", "engine/map.py imports cli"),
        ("gp/model.py", "from ..wpo import model", "gp/model.py imports wpo"),
        ("gp/model.py", "import brimful.cli.app as app", "gp/model.py imports cli"),
        ("cli/app.py", "from ..service.app import app", "cli/app.py imports service"),
        ("service/app.py", "from brimful.cli import app", "service/app.py imports cli"),
    ],
)
def test_a_planted_violation_is_caught(tree: Path, file: str, line: str, told: str):
    with (tree / file).open("a") as out:
        out.write(line + "\n")
    assert violations(tree) == [told]
