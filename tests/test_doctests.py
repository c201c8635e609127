"""The examples in docstrings say what happens."""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for file in sorted((SOURCE / "brimful").rglob("*.py"))
    if ">>>" in file.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str):
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.attempted > 0
    assert results.failed == 0
