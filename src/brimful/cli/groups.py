"""Groups of commands: their help in full, and workloads that are imported when one of their commands is resolved, not
when it is listed."""

from typing import Any

import typer
import typer.core

from ..core.base.errors import ConfigError
from ..core.declare import registry
from .output import guarded

HELP = {"help_option_names": ["-h", "--help"]}
"""Settings of the root, which its commands inherit."""


class FullHelpGroup(typer.core.TyperGroup):
    """A group whose list of commands says all that the help of each begins with: its first sentence, wrapped."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = []
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.short_help or _first_sentence(command.help or "")))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    sentence, end, _ = paragraph.partition(". ")
    return sentence + end.strip()


class WorkloadGroup(FullHelpGroup):
    """`brimful NAME ...`: the workload's commands, run; or `brimful plan NAME ...`, where they are only explained."""

    def __init__(self, name: str, outline: registry.Outline, plan: bool) -> None:
        help = f"Explain a command of {name} without running it." if plan else outline.help
        super().__init__(name=name, help=help, no_args_is_help=True, rich_markup_mode=None)
        self._plan = plan
        self._outlines = {command.name: command for command in outline.commands if command.planned or not plan}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._outlines)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as it is listed; `resolve_command` gives it with its options."""
        if (outline := self._outlines.get(cmd_name)) is None:
            return None
        return typer.core.TyperCommand(cmd_name, help=outline.help, rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        if listed is None or name is None:
            return name, listed, rest
        from .commands import command_with_options

        return name, command_with_options(registry.load(str(self.name)).command(name), self._plan), rest


class Workloads(FullHelpGroup):
    """A group that has every registered workload beside its own commands."""

    plan = False

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *registry.names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in registry.names():
            return super().get_command(ctx, cmd_name)
        try:
            return WorkloadGroup(cmd_name, registry.outline(cmd_name), self.plan)
        except ConfigError as error:
            return _unavailable(cmd_name, error)


class Plans(Workloads):
    """`brimful plan`: the same workloads and options, explained and not run."""

    plan = True


def _unavailable(name: str, error: ConfigError) -> typer.core.TyperCommand:
    """A workload that cannot be imported is a command that fails with the reason, which is also its help."""

    @guarded
    def fail() -> None:
        raise error

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return typer.core.TyperCommand(
        name, callback=fail, short_help=str(error), add_help_option=False, context_settings=settings
    )
