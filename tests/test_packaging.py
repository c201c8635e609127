"""What is shipped: a wheel with the package alone, and a page whose links work on an index."""

import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import pytest

import brimful

from .helpers.paths import ROOT

URL = "https://example.org/brimful"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_page_are_absolute_on_an_index(hook: ModuleType):
    text = "![a fit](docs/images/gp.png) and [map](docs/map.md), [paper](https://arxiv.org/abs/1), [below](#install)"
    assert hook.with_links(text, URL) == (
        f"![a fit]({URL}/raw/main/docs/images/gp.png) and [map]({URL}/blob/main/docs/map.md), "
        "[paper](https://arxiv.org/abs/1), [below](#install)"
    )
    assert hook.with_links(text, None) == " and map, [paper](https://arxiv.org/abs/1), [below](#install)"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (f"{URL}.git", URL),
        ("git@example.org:brimful.git", URL),
        ("ssh://git@example.org/brimful.git", URL),
        ("/a/folder", None),
        ("https://user:secret@example.org/brimful", None),
    ],
)
def test_the_repository(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, given: str, expected: str | None):
    monkeypatch.setenv("BRIMFUL_REPOSITORY", given)
    assert hook.repository(ROOT) == expected


def test_every_link_of_the_readme_leads_somewhere(hook: ModuleType):
    targets = [match["target"] for match in hook._LINK.finditer((ROOT / "README.md").read_text())]
    missing = [target for target in targets if ":" not in target and not (ROOT / target.partition("#")[0]).exists()]
    assert len(targets) > 20 and missing == []


def build(kind: str, source: Path, out: Path) -> Path:
    """A wheel or a source distribution, from a tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, env={"BRIMFUL_REPOSITORY": URL, "PATH": ""})
    return next(out.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path):
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        about = Parser().parsestr(content.read(next(name for name in names if name.endswith("METADATA"))).decode())
    assert "brimful/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"brimful"}  # no tests, no docs
    kinds = {Path(name).suffix for name in names if name.startswith("brimful/")} - {".py", ".typed", ".sql"}
    assert not kinds & {".parquet", ".npy", ".safetensors", ".csv", ".png", ".so"}
    assert f"Source, {URL}" in about.get_all("Project-URL", [])
    assert f"]({URL}/blob/main/docs/map.md)" in about.get_payload()
    assert about["Requires-Python"] == "<3.14,>=3.11"
    assert [line for line in about.get_all("Requires-Dist", []) if line.startswith("torch")] == ["torch>=2.11"]


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path):
    packed = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(packed) as content:
        content.extractall(tmp_path, filter="data")
    again = build("wheel", tmp_path / packed.name.removesuffix(".tar.gz"), tmp_path / "wheel")
    assert again.name == wheel.name
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


@pytest.mark.soak
def test_an_installed_wheel_runs(wheel: Path, tmp_path: Path):
    """On the Python that runs the tests, with the packages that are there."""
    folder = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    program = "import brimful, numpy as np; print(brimful.__file__); x = np.linspace(0, 1, 9); " \
        "print(brimful.gp.fit(x, np.sin(np.outer(np.arange(1, 4), x)), device='cpu', progress=False))"  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(folder), "BRIMFUL_CACHE_DIR": str(tmp_path / "cache")}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert run.stdout.startswith(str(folder))
    assert "3 processes (rbf), 100.0% converged" in run.stdout
    command = subprocess.run(
        [sys.executable, str(folder / "bin" / "brimful"), "--version"], env=environment, capture_output=True, text=True
    )
    assert command.stdout.strip().endswith(brimful.__version__)
