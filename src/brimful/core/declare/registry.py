"""The workloads there are: ours, one line each, and those that other packages register.

A package registers one by an entry point of the group `brimful.workloads`, whose value is its `Workload`:

    [project.entry-points."brimful.workloads"]
    ridge = "my_package.workload:WORKLOAD"
"""

import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import ConfigError
from .config import FieldInfo, describe
from .option_outline import read_options
from .outline import CommandOutline, Outline, read_outline

if TYPE_CHECKING:  # what is listed needs no torch
    from ..memory.plan import Plan
    from ..runs.context import RunContext
    from .result import Result

GROUP = "brimful.workloads"

WORKLOADS: dict[str, str] = {
    "data": "brimful.datasets.workload",
    "gp": "brimful.gp.workload",
    "gpcm": "brimful.gpcm.workload",
    "locate": "brimful.locate.workload",
    "nets": "brimful.nets.workload",
    "programs": "brimful.programs.workload",
    "wpo": "brimful.wpo.workload",
}
"""Name to the module that defines `WORKLOAD`; imported only when it is asked for."""

VERBS: dict[str, str] = {
    "map": "brimful.engine.map.result:reopen",
    "train": "brimful.engine.train.reopen:reopen",
}
"""Kind of a run directory to the function that gives its result."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing a workload can do.

    Attributes:
        name: as on the command line: `brimful WORKLOAD NAME`.
        help: what it does, in a sentence or two.
        config: the frozen dataclass of its options.
        run: does it and returns a summary of JSON values; what happens on the way goes to the context's events.
        plan: the plan for a config; its second argument says whether to measure first, and only then it does. None
            where there is nothing to plan.
        job: whether the service may run it.
        stores: whether its run directory holds a stored model once it has ended, which the workload's `load` reads.
        check: what the config's declaration cannot say, and that is known at once: raises a `BrimfulError` where a
            dataset that it names is not there, `at_fault` the option. The service calls it before it queues a job.
    """

    name: str
    help: str
    config: type
    run: "Callable[[Any, RunContext], Mapping[str, Any]]"
    plan: "Callable[[Any, bool], Plan] | None" = None
    job: bool = False
    stores: bool = False
    check: Callable[[Any], None] | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A named set of commands.

    Attributes:
        load: gives the result that is stored in a folder, by its path. `brimful.open` calls it, with the options that
            it was given, where the kind of the stored model is the workload's name. None where nothing is stored.
    """

    name: str
    help: str
    commands: tuple[Command, ...]
    load: "Callable[..., Result] | None" = None

    def command(self, name: str) -> Command:
        for command in self.commands:
            if command.name == name:
                return command
        names = ", ".join(command.name for command in self.commands)
        raise ConfigError(f"{self.name} has no command {name!r}; there are {names}")


def _registered() -> dict[str, EntryPoint]:
    """Ours first, then those of other packages. A name of ours stays ours."""
    ours = {name: EntryPoint(name, f"{module}:WORKLOAD", GROUP) for name, module in WORKLOADS.items()}
    others = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name)
    return {**ours, **{point.name: point for point in others if point.name not in ours}}


def opener(kind: str) -> "Callable[..., Result | None] | None":
    """The function that gives the result of a run directory of that kind; None where there is no such kind."""
    if kind not in VERBS:
        return None
    return EntryPoint(kind, VERBS[kind], GROUP).load()


def names() -> list[str]:
    """The workloads there are, ours first; nothing is imported."""
    return list(_registered())


def outline(name: str) -> Outline:
    """What is listed of a workload. One of ours is read from the source of its registration, and not imported.

    Raises:
        ConfigError: there is none, or it cannot be imported.
    """
    path = _source(name)
    if path is not None and (written := read_outline(path)) is not None:
        return written
    workload = load(name)
    commands = (CommandOutline(one.name, one.help, one.plan is not None, one.job) for one in workload.commands)
    return Outline(workload.help, tuple(commands))


def _source(name: str) -> Path | None:
    """The file that registers one of our workloads."""
    package, *parts = WORKLOADS.get(name, "").split(".")
    if package != __name__.partition(".")[0]:
        return None
    return Path(__file__).parents[2].joinpath(*parts).with_suffix(".py")


def options(name: str, command: str) -> list[FieldInfo]:
    """The options of a command. Those of one of ours are read from its source, and the workload is not imported.

    Raises:
        ConfigError: there is no such command, or its workload cannot be imported.
    """
    path = _source(name)
    if path is not None and (written := read_options(path, command)) is not None:
        return written
    return describe(load(name).command(command).config)


def load(name: str) -> Workload:
    """The workload of that name.

    Raises:
        ConfigError: there is none, or it cannot be imported.
    """
    point = _registered().get(name)
    if point is None:
        raise ConfigError(f"there is no workload {name!r}; there are {', '.join(names())}")
    try:
        workload = point.load()
    except Exception as error:
        raise ConfigError(
            f"the workload {name!r} is registered as {point.value!r} and cannot be loaded: "
            f"{type(error).__name__}: {error}. Mend or uninstall the package that registers it"
        ) from error
    if not isinstance(workload, Workload):
        raise ConfigError(
            f"the workload {name!r} is registered as {point.value!r}, which is a {type(workload).__name__}; it must be "
            "a brimful.core.declare.registry.Workload"
        )
    return workload
