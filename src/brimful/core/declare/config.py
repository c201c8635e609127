"""Options, declared once as the fields of a frozen dataclass: the command line, a JSON schema for other
faces, and the checks all come from that one declaration."""

import contextlib
import dataclasses
import difflib
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..base.errors import BrimfulError, BudgetError, ConfigError
from ..memory.budget import Budget

T = TypeVar("T")


TABLE, MODEL = "table", "model"
"""What a file holds that an option names."""


@dataclass(frozen=True, slots=True)
class Option:
    """What a field says of itself beyond its type and default.

    An option that is `unnamed` may be given on the command line without its name, too: the one argument of a command.
    The others are for jobs of the service, which neither read nor write outside their own directories:

    Attributes:
        files: its text may name files, as every path does.
        reads: what such a file holds, if not just anything: "table", of numbers by columns, which a dataset of the
            database may stand for, or "model", the folder of a model that another command of the workload stores.
        local: it is not offered there.
        job: of an output path: its value inside the job's run directory where none is given; "" is that directory.
    """

    help: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    positional: bool = False
    aliases: tuple[str, ...] = ()
    files: bool = False
    local: bool = False
    job: str | None = None
    unnamed: bool = False
    reads: str = ""


def option(
    default: Any = MISSING,
    *,
    help: str,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: tuple[str, ...] = (),
    metavar: str | None = None,
    positional: bool = False,
    aliases: tuple[str, ...] = (),
    files: bool = False,
    local: bool = False,
    job: str | None = None,
    unnamed: bool = False,
    reads: str = "",
) -> Any:
    """A dataclass field that is an option. Without a default it is required. A positional one is given on the command
    line by its place, without its name. An alias is another spelling, accepted wherever the option is.

    Example:
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Config:
        ...     points: int = option(40, help="points per task", ge=1)
        >>> build(Config, {"points": "0"})
        Traceback (most recent call last):
        brimful.core.base.errors.ConfigError: points is 0; it must be at least 1
    """
    names = metavar, positional, tuple(aliases)
    declared = Option(help, ge, gt, le, lt, tuple(choices), *names, files, local, job, unnamed, reads)
    return field(default=default, metadata={"option": declared})


def options_of(config: Any, kind: type) -> dict[str, Any]:
    """The options of a config that one of the classes it is composed of declares."""
    return {declared.name: getattr(config, declared.name) for declared in dataclasses.fields(kind)}


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """For commands that draw random numbers."""

    seed: int = option(0, help="seed of all randomness", ge=0)


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """For commands that compute on a device, inside a budget."""

    device: str = option("auto", help="auto, cpu, cuda, cuda:1, or several as cuda:0,cuda:1")
    budget: str | None = option(
        None, help='memory to stay inside: "8GB", "512MB", "80%"; by default 90% of what is free'
    )


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """For commands that run a map, which a cluster may do."""

    cluster: str | None = option(
        None, help='run on a Ray cluster: "ray", "ray://host:port" or "host:port"', metavar="ADDRESS", local=True
    )


@dataclass(frozen=True, kw_only=True)
class OutOptions:
    """For commands that write a run directory."""

    out: Path | None = option(None, help="run directory: results are written here, and the run can be resumed", job="")


@dataclass(frozen=True, kw_only=True)
class TrainedModelOptions:
    """For commands that read what another one trained."""

    directory: Path = option(help="folder of a trained model", positional=True, metavar="DIR", reads=MODEL)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(TrainedModelOptions):
    """The options of a workload's `report`."""

    out: Path | None = option(None, help="folder of the report; by default that of the model")


NONE = "none"
"""None, where an option's value is a text: on the command line, or in a form."""

PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a path"}
_SHARED = (SeedOptions, DeviceOptions, ClusterOptions, OutOptions)
_LAST = [option.name for kind in _SHARED for option in dataclasses.fields(kind)]


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """A field, its plain type, whether it may be None, or, from Python, an object of another type, and its option."""

    name: str
    type: type
    nullable: bool
    default: Any
    option: Option
    wide: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def can_be_off(self) -> bool:
        """Whether it is a number that may be None where its default is not, which a text says as "none"."""
        return self.nullable and self.type in (int, float) and not self.required and self.default is not None


def describe(config: type) -> list[FieldInfo]:
    """The options of a config class: its own in the order they were declared, then those that many share.

    A subclass that gives an inherited option another default, `lr: float = 0.1`, keeps the declaration. A field that
    is no option and of no such type can be set from Python alone.
    """
    hints = typing.get_type_hints(config)
    infos = []
    fields = {field.name: field for field in dataclasses.fields(config)}
    for name in in_order(fields):
        union = typing.get_origin(hints[name]) in (types.UnionType, typing.Union)
        parts = typing.get_args(hints[name]) if union else (hints[name],)
        declared, plain = _declared(config, name), [part for part in parts if part in PLAIN]
        if plain:
            nullable, wide = type(None) in parts, any(part not in (*PLAIN, type(None)) for part in parts)
            infos.append(FieldInfo(name, plain[0], nullable, fields[name].default, declared or Option(""), wide))
        elif declared is not None:
            raise TypeError(f"{config.__name__}.{name}: options are int, float, str, bool or Path, not {parts[0]}")
    return infos


def in_order(names: Iterable[str]) -> list[str]:
    """The names of options as they are listed: a command's own, then those that many share."""
    names = list(names)
    return [*(name for name in names if name not in _LAST), *(name for name in _LAST if name in names)]


def topics(config: type) -> dict[str, str]:
    """What options are about, by their names, in the order to show them: those of the command itself, which have no
    topic, then those of the classes that it is composed of, its workload's own before others, and last those that many
    share. A topic is named after the class that declares its options first: "Optimizer", of `OptimizerOptions`."""
    own, places = config.__module__.rpartition(".")[0], {}
    for place, base in enumerate(config.__mro__):
        other = place > 0 and not f"{base.__module__}.".startswith(f"{own}.")
        for name in vars(base).get("__annotations__", {}):  # the last one that has it declares it first
            places[name] = (base in _SHARED, other, place, _topic(base) if place else "")
    ranked = sorted(in_order(places), key=lambda name: places[name][:-1])
    return {name: places[name][-1] for name in ranked}


def _topic(declared: type) -> str:
    if declared in _SHARED:
        return "Device and seed"
    words = re.findall(r"[A-Z][a-z]+|[A-Z]+(?![a-z])", re.sub(r"(Options|Config)$", "", declared.__name__))
    return " ".join(words).capitalize().replace("train", "training")


def _declared(config: type, name: str) -> Option | None:
    """The declaration of a field, in the class itself or the nearest base that has one."""
    of_bases = (vars(base).get("__dataclass_fields__", {}).get(name) for base in config.__mro__)
    return next((field.metadata["option"] for field in of_bases if field and "option" in field.metadata), None)


def flag(info: FieldInfo) -> str:
    """An option's name as it is typed on the command line."""
    if info.option.positional:
        return info.option.metavar or info.name.upper()
    return "--" + info.name.replace("_", "-")


def build(config: type[T], values: dict[str, Any], spell: Callable[[FieldInfo], str] | None = None) -> T:
    """A config from keyword arguments, text or JSON, by name or alias, each checked against its type, range and
    choices.

    Args:
        spell: how errors write an option's name; `flag` where it was typed on the command line.

    Raises:
        ConfigError: with the option's name, the value at fault and what is allowed.
    """
    built, problems = check(config, values, spell)
    for name, message in problems:
        with at_fault(name):
            raise ConfigError(message)
    return config(**built)


@contextlib.contextmanager
def at_fault(option: str) -> Iterator[None]:
    """An error raised inside is about the value of that option."""
    try:
        yield
    except BrimfulError as error:
        error.option = option
        raise


def check(
    config: type, values: dict[str, Any], spell: Callable[[FieldInfo], str] | None = None
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values that `build` makes a config of, and all that is wrong with them: the option and a sentence."""
    infos = {info.name: info for info in describe(config)}
    spellings = {name: name for name in getattr(config, "__dataclass_fields__", ())}
    spellings |= {alias: name for name, info in infos.items() for alias in info.option.aliases}
    problems = [(name, _unknown(name, spellings, infos)) for name in sorted(set(values) - set(spellings))]
    known = [name for name in values if name in spellings]
    if len({spellings[name] for name in known}) < len(known):
        twice = [name for name in known if spellings[name] != name and spellings[name] in values]
        message = f"{', '.join(twice) or 'an option'} is given twice, under two spellings; give it once"
        problems.append((twice[0] if twice else known[-1], message))
    values = {spellings[name]: values[name] for name in known}
    built = {name: value for name, value in values.items() if name not in infos}
    for name, info in infos.items():
        if name in values:
            try:
                built[name] = _check(info, values[name], spell(info) if spell else name)
            except ConfigError as error:
                problems.append((name, str(error)))
        elif info.required:
            problems.append((name, f"{spell(info) if spell else name} is missing: {info.option.help}"))
    return built, problems


def _unknown(name: str, spellings: dict[str, str], infos: dict[str, FieldInfo]) -> str:
    near = difflib.get_close_matches(name, spellings, 1)
    advice = f"did you mean {near[0]!r}? There are" if near else "there are"
    return f"unknown option {name!r}; {advice} {', '.join(infos)}"


def _check(info: FieldInfo, value: Any, name: str) -> Any:
    if value is None or (value == NONE and info.nullable and info.type in (int, float)):
        if info.nullable:
            return None
        raise ConfigError(f"{name} is None; it must be {PLAIN[info.type]}")
    if info.wide and not isinstance(value, tuple(PLAIN)):
        return value
    value = _convert(info, value, name)
    limits = info.option
    if info.type in (int, float):
        for bad, text in (
            (isinstance(value, float) and math.isnan(value), "a number"),
            (limits.ge is not None and value < limits.ge, f"at least {limits.ge}"),
            (limits.gt is not None and value <= limits.gt, f"above {limits.gt}"),
            (limits.le is not None and value > limits.le, f"at most {limits.le}"),
            (limits.lt is not None and value >= limits.lt, f"below {limits.lt}"),
        ):
            if bad:
                raise ConfigError(f"{name} is {value}; it must be {text}")
    if limits.choices and value not in limits.choices:
        raise ConfigError(f"{name} is {value!r}; choose one of {', '.join(limits.choices)}")
    if info.name == "budget":
        try:
            Budget.parse(value)
        except BudgetError as error:
            raise ConfigError(str(error).replace(info.name, name, 1)) from error
    return value


def _convert(info: FieldInfo, value: Any, name: str) -> Any:
    truths = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    try:
        if info.type is bool:
            return value if isinstance(value, bool) else truths[str(value).lower()]
        if isinstance(value, bool | dict | list | tuple):
            raise ValueError
        if info.type is int and isinstance(value, float) and not value.is_integer():
            raise ValueError
        return info.type(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name} is {value!r}; it must be {PLAIN[info.type]}") from error


def to_dict(config: Any) -> dict[str, Any]:
    """The config as JSON values; `build` reads it back to an equal config."""
    values = {info.name: getattr(config, info.name) for info in describe(type(config))}
    return {name: _as_json(value) for name, value in values.items()}


def _as_json(value: Any) -> Any:
    """Objects that only Python can give are written as texts."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, Path) else repr(value)


def schema(config: type) -> dict[str, Any]:
    """The config as a JSON schema (draft 2020-12)."""
    kinds = {int: "integer", float: "number", str: "string", bool: "boolean", Path: "string"}
    names = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
    properties, required = {}, []
    for info in describe(config):
        kind: Any = kinds[info.type]
        entry: dict[str, Any] = {
            "type": [kind, "null"] if info.nullable else kind,
            "description": info.option.help,
        }
        entry |= {
            key: getattr(info.option, name) for name, key in names.items() if getattr(info.option, name) is not None
        }
        if info.option.choices:
            entry["enum"] = [*info.option.choices, *([None] if info.nullable else [])]
        if info.required:
            required.append(info.name)
        else:
            entry["default"] = str(info.default) if isinstance(info.default, Path) else info.default
        properties[info.name] = entry
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
