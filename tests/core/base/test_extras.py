"""Optional dependencies: a clear word where one is missing."""

import re
import tomllib
from pathlib import Path

import pytest

from brimful.core.base import extras
from brimful.core.base.errors import MissingExtraError

from ...helpers.paths import ROOT

MODULES = {"mkdocs_material": "material", "scikit_learn": "sklearn", "pytest_xdist": "xdist", "pyyaml": "yaml"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_extras_are_those_of_the_package():
    declared = {
        name: [
            MODULES.get(each, each)
            for each in (re.split(r"[\[<>=~! ]", each)[0].replace("-", "_") for each in requirements)
        ]
        for name, requirements in PROJECT["optional-dependencies"].items()
    }
    assert declared["dev"].pop(0) == "brimful"  # with every other extra
    assert PROJECT["optional-dependencies"]["dev"][0] == "brimful[postgres,serve,arc,ray,examples,docs]"
    assert {name: list(modules) for name, modules in extras.EXTRAS.items()} == declared


def test_a_missing_module_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(extras.EXTRAS, "made", ("json", "surely_not_installed"))
    assert extras.missing("made") == ["surely_not_installed"]
    with pytest.raises(MissingExtraError, match=r"surely_not_installed.*pip install 'brimful\[made\]'"):
        extras.require("made", "surely_not_installed")


def test_what_an_installed_module_misses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "drawn_tasks.py").write_text("import surely_not_drawn")
    monkeypatch.syspath_prepend(tmp_path)
    message = r"'drawn_tasks', which is installed, and imports 'surely_not_drawn'.*pip install 'brimful\[arc\]'"
    with pytest.raises(MissingExtraError, match=message):
        extras.require("arc", "drawn_tasks")


def test_a_module_that_is_there_is_imported():
    assert extras.require("made", "json").loads("1") == 1
