"""What is shipped: a wheel with the package alone, and a page whose links work on an index."""

import importlib.util
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import pytest

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


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path):
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True, env={"BRIMFUL_REPOSITORY": URL, "PATH": ""})
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
        about = Parser().parsestr(wheel.read(next(name for name in names if name.endswith("METADATA"))).decode())
    assert "brimful/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"brimful"}  # no tests, no docs
    kinds = {Path(name).suffix for name in names if name.startswith("brimful/")} - {".py", ".typed", ".sql"}
    assert not kinds & {".parquet", ".npy", ".safetensors", ".csv", ".png", ".so"}
    assert f"Source, {URL}" in about.get_all("Project-URL", [])
    assert f"]({URL}/blob/main/docs/map.md)" in about.get_payload()
    assert about["Requires-Python"] == "<3.14,>=3.11"
    assert [line for line in about.get_all("Requires-Dist", []) if line.startswith("torch")] == ["torch>=2.11"]
