"""Groups of commands: their help in full, and workloads that are imported when one of their commands is resolved, not
when it is listed."""

import difflib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer.core

from ..core.base.errors import ConfigError
from ..core.declare import registry
from ..core.declare.outline import CommandOutline, Outline
from .output import guarded

if TYPE_CHECKING:
    from .commands import Shown

HELP = {"help_option_names": ["-h", "--help"]}
"""Settings of the root, which its commands inherit."""

_UsageError: Any = typer.BadParameter.__base__


class FullHelpGroup(typer.core.TyperGroup):
    """A group whose list of commands says all that the help of each begins with: its first sentence, wrapped. A
    misspelt command is answered by the nearest name, of commands too that are not imported yet."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except _UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1) if args else []
            if near and "Did you mean" not in error.message:
                error.message = f"{error.message.rstrip('.')}. Did you mean {near[0]!r}?"
            raise

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
    """`brimful NAME ...`: commands of a workload, listed by their outlines; one that is called gets its options. The
    workload is imported when a command runs, not when its help is shown.

    Args:
        with_options: gives a command with its options.
    """

    def __init__(
        self,
        name: str,
        help: str,
        outlines: Iterable[CommandOutline],
        with_options: "Callable[[Shown], Any]",
    ) -> None:
        super().__init__(name=name, help=help, no_args_is_help=True, rich_markup_mode=None)
        self._outlines, self._with_options = {outline.name: outline for outline in outlines}, with_options

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
        from .commands import Shown

        return name, self._with_options(Shown.of(str(self.name), self._outlines[name])), rest


class Workloads(FullHelpGroup):
    """A group that has every registered workload beside its own commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *registry.names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in registry.names():
            return super().get_command(ctx, cmd_name)
        try:
            return self.group_of(cmd_name, registry.outline(cmd_name))
        except ConfigError as error:
            return _unavailable(cmd_name, error)

    def group_of(self, name: str, outline: Outline) -> WorkloadGroup:
        """The workload's commands, run."""

        def with_options(command: "Shown") -> Any:
            from .commands import command_that_runs

            return command_that_runs(command)

        return WorkloadGroup(name, outline.help, outline.commands, with_options)


class Root(Workloads):
    """`brimful` itself: the server's options, too, are imported when it is started, not when it is listed."""

    _SERVE = "serve"
    _HELP = (
        "Serve every workload as jobs over REST, on PostgreSQL: jobs go on after a crash, and share devices by memory."
    )

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), self._SERVE]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name == self._SERVE:
            return typer.core.TyperCommand(cmd_name, help=self._HELP, rich_markup_mode=None)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        if name != self._SERVE:
            return name, listed, rest
        from .serve import serve_command

        return name, serve_command(self._HELP), rest


class Plans(Workloads):
    """`brimful plan`: the same workloads and options, explained and not run."""

    def group_of(self, name: str, outline: Outline) -> WorkloadGroup:
        def with_options(command: "Shown") -> Any:
            from .commands import command_that_explains

            return command_that_explains(command)

        planned = [command for command in outline.commands if command.planned]
        return WorkloadGroup(name, f"Explain a command of {name} without running it.", planned, with_options)


def _unavailable(name: str, error: ConfigError) -> typer.core.TyperCommand:
    """A workload that cannot be imported is a command that fails with the reason, which is also its help."""

    @guarded
    def fail() -> None:
        raise error

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return typer.core.TyperCommand(
        name, callback=fail, short_help=str(error), add_help_option=False, context_settings=settings
    )
