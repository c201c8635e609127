"""Typer commands made from a workload's declared options."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from ..core.base.errors import ConfigError
from ..core.declare.config import FieldInfo, build, describe
from ..core.declare.registry import Command, load
from ..core.declare.result import format_summary
from ..core.runs.context import RunContext
from ..core.runs.events import Events
from ..core.runs.progress import sink_for
from .output import emit, guarded

_METAVARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}

# `--some_option` is read as `--some-option`: people type both.
_SETTINGS = {"token_normalize_func": lambda token: token.replace("_", "-")}


def workload_group(name: str, plan: bool) -> Any:
    """`brimful NAME ...`: the workload's commands, run; or `brimful plan NAME ...`, where they are only explained. A
    workload that cannot be imported is a command that fails with the reason, which is also its help."""
    try:
        workload = load(name)
    except ConfigError as error:
        return _unavailable(name, error)
    help = f"Explain a command of {name} without running it." if plan else workload.help
    group = typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None, add_completion=False)
    group.callback()(lambda: None)
    for command in workload.commands:
        if not plan:
            _add(group, command, _run)
        elif command.plan is not None:
            _add(group, command, _explain, _flag("probe", "measure two small steps first"))
    return typer.main.get_command(group)


def _unavailable(name: str, error: ConfigError) -> typer.core.TyperCommand:
    @guarded
    def fail() -> None:
        raise error

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return typer.core.TyperCommand(
        name, callback=fail, short_help=str(error), add_help_option=False, context_settings=settings
    )


def _run(command: Command, *, json: bool, **options: Any) -> None:
    config = build(command.config, options)
    with Events(*filter(None, [sink_for(None)])) as events:
        summary = command.run(config, RunContext(events))
    emit(summary, format_summary, json)


def _explain(command: Command, *, json: bool, probe: bool, **options: Any) -> None:
    assert command.plan is not None
    plan = command.plan(build(command.config, options), probe)
    emit(plan.to_dict(), lambda _: plan.explain(), json)


def _add(group: typer.Typer, command: Command, body: Callable[..., None], *more: inspect.Parameter) -> None:
    as_json = _flag("json", "print one JSON object instead of a table")
    parameters = [*map(_parameter, describe(command.config)), *more, as_json]
    signature = inspect.Signature(
        sorted(parameters, key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    )
    function = guarded(functools.partial(body, command))
    function.__dict__["__signature__"] = signature
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    function.__doc__ = command.help
    group.command(command.name, help=command.help, context_settings=_SETTINGS)(function)


def _flag(name: str, help: str) -> inspect.Parameter:
    kind = Annotated[bool, typer.Option(f"--{name}", help=help)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)


def _parameter(info: FieldInfo) -> inspect.Parameter:
    flag = "--" + info.name.replace("_", "-")
    allowed = f" [{'|'.join(info.option.choices)}]" if info.option.choices else ""
    span = _range(info)
    words = info.option.help + allowed + (f" [{span}]" if span else "")
    if info.option.positional:
        settings: Any = typer.Argument(help=words, metavar=info.option.metavar or info.name.upper())
    else:
        short = [f"-{info.name}"] if len(info.name) == 1 else []
        settings = typer.Option(
            f"{flag}/--no-{flag[2:]}" if info.type is bool else flag,
            *short,
            *("--" + alias.replace("_", "-") for alias in info.option.aliases),
            help=words,
            metavar=info.option.metavar or _METAVARS.get(info.type),
            show_default=not info.required and info.default is not None,
        )
    # Text on the way in, so that every wrong value is reported in the same words, by `config.build`.
    kind: Any = bool if info.type is bool else Path if info.type is Path else str
    kind = kind | None if info.nullable else kind
    default = inspect.Parameter.empty if info.required else info.default
    if kind is not bool and default is not inspect.Parameter.empty and default is not None and info.type is not Path:
        default = str(default)
    return inspect.Parameter(
        info.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, settings]
    )


def _range(info: FieldInfo) -> str:
    names = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    return ", ".join(
        f"{sign} {getattr(info.option, name):g}"
        for name, sign in names.items()
        if getattr(info.option, name) is not None
    )
