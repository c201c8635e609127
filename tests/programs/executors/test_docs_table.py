"""docs/programs.md says which operations are batched, and stays current."""

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from ...helpers.paths import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("programs_table", ROOT / "benchmarks" / "programs_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_that_of_today(script: Any):
    text = script.DOCS.read_text()
    assert script.BEGIN in text and script.current(text) == text, "run python benchmarks/programs_table.py"


def test_shares_of_time_come_from_a_results_file(script: Any, tmp_path: Any):
    path = tmp_path / "programs-cpu.json"
    assert script.measured(path) == {}
    path.write_text('{"operations": 1598}')
    assert script.measured(path) == {}
    rows = {name: f'{{"form": "{form}", "time_share": 0.25}}' for name, form in (("a", "torch"), ("b", "torch"))}
    operations = ", ".join(f'"{name}": {row}' for name, row in rows.items())
    path.write_text(f'{{"operations": {{"cpu": {{"operations": {{{operations}}}}}}}}}')
    assert script.measured(path) == {"torch": 0.5}
