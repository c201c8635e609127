"""`brimful`: the root of the command line. Workloads and their options come from the registry."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..core.base import version as _version
from .ending import run_to_end
from .groups import HELP, Plans, Root
from .jobs import jobs
from .output import emit, guarded

JSON = Annotated[bool, typer.Option("--json", help="print one JSON object with stable keys instead of a table")]


app = typer.Typer(
    cls=Root,
    help="Train and run huge batches of work inside a memory budget you name.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=HELP,
)
_plan = typer.Typer(
    cls=Plans,
    help="Explain what a command would do, and what it would cost, without running it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(_plan, name="plan")
app.add_typer(jobs, name="jobs")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"brimful {_version.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
) -> None:
    pass


@_plan.callback()
def plan() -> None:
    pass


@app.command()
@guarded
def doctor(json: JSON = False) -> None:
    """What is here: devices, memory, limits, versions, and what each extra still lacks."""
    from .doctor import examine, explain

    emit(examine(), explain, json)


@app.command()
@guarded
def runs(
    folder: Annotated[Path, typer.Argument(help="where to look, three levels deep")] = Path(),
    json: JSON = False,
) -> None:
    """The run directories under a folder, with their state."""
    from .runs import explain, list_runs

    emit(list_runs(folder), explain, json)


@app.command("open")
@guarded
def open_result(
    path: Annotated[Path, typer.Argument(help="a run directory, or a folder that a result was saved to")],
    json: JSON = False,
) -> None:
    """The summary of a run that has finished, read from its folder alone."""
    from ..core.declare.open_run import open
    from ..core.declare.summary_text import format_summary

    emit(open(path).summary(), format_summary, json)


def run() -> NoReturn:
    """The command, in a process of its own."""
    run_to_end(main)


def main() -> None:
    """The command, in a process that goes on after it."""
    # Shown in the root's help, and accepted anywhere on the line, where people type it after a failure.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    guarded.debug = len(arguments) < len(sys.argv) - 1
    try:
        guarded(app)(arguments, prog_name="brimful")
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except SystemExit as stop:
        if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):  # before a command began
            print("brimful: interrupted", file=sys.stderr)
        raise
