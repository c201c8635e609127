"""The workloads there are. Adding one is a folder with a `workload.py`, and one line here."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import ConfigError
from ..memory.plan import Plan
from ..runs.events import Events

WORKLOADS: dict[str, str] = {
    "gp": "brimful.gp.workload",
    "gpcm": "brimful.gpcm.workload",
    "nets": "brimful.nets.workload",
    "wpo": "brimful.wpo.workload",
}
"""Name to the module that defines `WORKLOAD`; imported only when it is asked for."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing a workload can do.

    Attributes:
        name: as on the command line: `brimful WORKLOAD NAME`.
        help: what it does, in a sentence or two.
        config: the frozen dataclass of its options.
        plan: the plan for a config; measures first when its second argument is true. None where there is
            nothing to plan.
        run: does it and returns a summary of JSON values; what happens on the way goes to the events.
        job: whether the service may run it.
    """

    name: str
    help: str
    config: type
    run: Callable[[Any, Events], Mapping[str, Any]]
    plan: Callable[[Any, bool], Plan] | None = None
    job: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """A named set of commands."""

    name: str
    help: str
    commands: tuple[Command, ...]

    def command(self, name: str) -> Command:
        for each in self.commands:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.commands)
        raise ConfigError(f"{self.name} has no command {name!r}; there are {names}")


def load(name: str) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise ConfigError(f"there is no workload {name!r}; there are {', '.join(WORKLOADS)}")
    return importlib.import_module(WORKLOADS[name]).WORKLOAD
