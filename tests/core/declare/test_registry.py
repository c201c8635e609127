"""Workloads by name."""

import importlib.metadata
import sys

import pytest

from brimful.core.base.errors import ConfigError
from brimful.core.declare import registry

from ...helpers.madeup import WORKLOAD, Fit


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        registry, "WORKLOADS", {"made": "tests.helpers.madeup", "other": "not_imported_until_asked_for"}
    )


def test_a_workload_is_found_by_its_name():
    assert registry.load("made") is WORKLOAD
    assert "not_imported_until_asked_for" not in sys.modules


def test_an_unknown_workload_says_which_there_are():
    with pytest.raises(ConfigError, match="no workload 'gp'; there are made, other"):
        registry.load("gp")


def test_a_command_is_found_by_its_name():
    command = registry.load("made").command("fit")
    assert command.config is Fit
    assert command.job
    assert not registry.load("made").command("fail").job


def test_an_unknown_command_says_which_there_are():
    with pytest.raises(ConfigError, match="made has no command 'fly'; there are fit, predict, fail"):
        registry.load("made").command("fly")


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch):
    def points(**values: str) -> None:
        made = [importlib.metadata.EntryPoint(name, value, registry.GROUP) for name, value in values.items()]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: made if group == registry.GROUP else [])

    return points


def test_another_package_registers_one(register):
    register(far="tests.helpers.madeup:WORKLOAD", made="not_imported_either:WORKLOAD")
    assert registry.names() == ["made", "other", "far"]
    assert registry.load("far") is registry.load("made") is WORKLOAD  # a name of ours stays ours


def test_a_broken_package_is_named_and_breaks_nothing_else(register):
    register(gone="no_such_module:WORKLOAD", wrong="tests.helpers.madeup:MACHINE")
    assert registry.names() == ["made", "other", "gone", "wrong"]
    with pytest.raises(ConfigError, match="'gone' is registered as 'no_such_module:WORKLOAD' and cannot be loaded"):
        registry.load("gone")
    with pytest.raises(ConfigError, match="which is a Memory; it must be"):
        registry.load("wrong")
    assert registry.load("made") is WORKLOAD
