"""Workloads by name."""

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
