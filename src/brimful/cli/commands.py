"""Typer commands made from a workload's declared options."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import typer
import typer.main

from ..core.base.errors import ConfigError
from ..core.declare import registry
from ..core.declare.config import FieldInfo, build, flag
from ..core.declare.outline import CommandOutline
from ..core.declare.registry import Command
from ..core.declare.summary_text import format_summary
from ..core.runs.context import RunContext
from ..core.runs.events import Event, Events, Finished
from .output import UsageProblem, emit, guarded

_UNNAMED = "unnamed_argument"
_METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}

# `--some_option` is read as `--some-option`: people type both.
_SETTINGS = {"token_normalize_func": lambda token: token.replace("_", "-")}


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a workload as its help shows it.

    Attributes:
        load: imports the workload, and gives the command itself.
    """

    name: str
    help: str
    options: list[FieldInfo]
    load: Callable[[], Command]

    @classmethod
    def of(cls, workload: str, outline: CommandOutline) -> Self:
        options = registry.options(workload, outline.name)
        return cls(outline.name, outline.help, options, lambda: registry.load(workload).command(outline.name))


def command_that_runs(command: Shown) -> Any:
    """A command of a workload, with its options."""
    return typer_command(command, _run)


def command_that_explains(command: Shown) -> Any:
    """The same, planned and not run."""
    return typer_command(command, _explain, boolean("probe", "measure two small steps first"))


def _run(command: Command, *, json: bool, **options: Any) -> None:
    from ..core.runs.progress import sink_for  # it imports rich, and help does without

    config = build(command.config, options, flag)
    endings: list[Finished] = []

    def record(event: Event) -> None:
        if isinstance(event, Finished):
            endings.append(event)

    with Events(*filter(None, [sink_for(None)]), record) as events:
        try:
            summary = command.run(config, RunContext(events))
        except KeyboardInterrupt:
            if any(event.state == "interrupted" for event in endings):
                raise typer.Exit(130) from None  # the progress display has said what was kept
            raise
    from ..engine.distributed.environment import is_first_rank  # torch, likewise

    if is_first_rank():
        emit(summary, format_summary, json)


def _explain(command: Command, *, json: bool, probe: bool, **options: Any) -> None:
    assert command.plan is not None
    plan = command.plan(build(command.config, options, flag), probe)
    emit(plan.to_dict(), lambda _: plan.explain(), json)


def typer_command(command: Shown, body: Callable[..., None], *more: inspect.Parameter) -> Any:
    """A command line that calls `body(command, **options)`, for which a wrong option is an error of usage."""
    as_json = boolean("json", "print one JSON object instead of a table")
    function = functools.partial(_checked, body, command)
    return made_from(command.name, command.help, command.options, function, *more, as_json)


def made_from(
    name: str, help: str, options: list[FieldInfo], function: Callable[..., None], *more: inspect.Parameter
) -> Any:
    """A command that calls a function with options, as text."""
    parameters = [*map(_parameter, options), *filter(None, [_unnamed(options)]), *more]
    signature = inspect.Signature(
        sorted(parameters, key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    )
    function = guarded(functools.partial(_named, function, options))
    function.__dict__["__signature__"] = signature
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    function.__doc__ = help
    group = typer.Typer(rich_markup_mode=None, add_completion=False)
    group.command(name, help=help, context_settings=_SETTINGS)(function)
    return typer.main.get_command(group)


def _named(function: Callable[..., None], options: list[FieldInfo], **given: Any) -> None:
    """Calls a function with options, of which those that are required are there, and one may have come unnamed."""
    value = given.pop(_UNNAMED, None)
    for info in options:
        if info.option.unnamed and value is not None:
            if str(given[info.name]) != str(None if info.required else info.default):
                raise UsageProblem(
                    f"{value!r} and {flag(info)} {str(given[info.name])!r} are both given; give one of them"
                )
            given[info.name] = value
        if info.required and given[info.name] is None:
            raise UsageProblem(f"{flag(info)} is missing: {info.option.help}")
    function(**given)


def _unnamed(options: list[FieldInfo]) -> inspect.Parameter | None:
    """The argument that stands for the option which may be given without its name."""
    for info in options:
        if info.option.unnamed:
            settings = typer.Argument(help=f"the same as {flag(info)}", metavar=info.name.upper())
            kind = Annotated[str | None, settings]
            return inspect.Parameter(_UNNAMED, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    return None


def _checked(body: Callable[..., None], shown: Shown, **options: Any) -> None:
    """The command, for which a wrong option is an error of usage."""
    command = shown.load()
    try:
        body(command, **options)
    except ConfigError as error:
        raise UsageProblem(str(error)) from error


def boolean(name: str, help: str) -> inspect.Parameter:
    """A flag that is off by default."""
    kind = Annotated[bool, typer.Option(f"--{name}", help=help)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)


def _parameter(info: FieldInfo) -> inspect.Parameter:
    allowed = f" [{' | '.join(info.option.choices)}]" if info.option.choices else ""
    span = ", ".join([*_range(info), *(["or none"] if info.can_be_off else [])])
    words = info.option.help + allowed + (f" [{span}]" if span else "")
    optional = not info.required or not info.option.positional  # a missing option is reported by `_named`
    if info.option.positional:
        settings: Any = typer.Argument(help=words, metavar=flag(info))
    else:
        short = [f"-{info.name}"] if len(info.name) == 1 else []
        settings = typer.Option(
            f"{flag(info)}/--no-{flag(info)[2:]}" if info.type is bool else flag(info),
            *short,
            *("--" + alias.replace("_", "-") for alias in info.option.aliases),
            help=words + (" [required]" if info.required else ""),
            metavar=info.option.metavar or _METAVARS.get(info.type),
            show_default=not info.required and info.default is not None,
        )
    # Text on the way in, so that every wrong value is reported in the same words, by `config.build`.
    kind: Any = bool if info.type is bool else Path if info.type is Path else str
    kind = kind | None if info.nullable or (info.required and optional) else kind
    default = info.default if not info.required else None if optional else inspect.Parameter.empty
    if kind is not bool and default is not inspect.Parameter.empty and default is not None and info.type is not Path:
        default = str(default)
    return inspect.Parameter(
        info.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, settings]
    )


def _range(info: FieldInfo) -> list[str]:
    names = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    return [
        f"{sign} {getattr(info.option, name):g}"
        for name, sign in names.items()
        if getattr(info.option, name) is not None
    ]
