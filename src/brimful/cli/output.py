"""What a person or a program sees: a report as a table or as JSON, an error as one line and without a traceback."""

import functools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import typer

from ..core.base.errors import BrimfulError


def emit(report: Mapping[str, Any], explain: Callable[[Mapping[str, Any]], str], as_json: bool) -> None:
    """Prints a report one way or the other, on standard output."""
    print(json.dumps(report, indent=1) if as_json else explain(report), flush=True)


class UsageProblem(BrimfulError):
    """What was typed cannot be meant: an option's value is of another type, or out of its range."""


class _Guarded:
    """A decorator for commands. With `debug` set, the traceback is shown as well."""

    debug = False

    def __call__(self, command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def guarded_command(*args: Any, **kwargs: Any) -> None:
            try:
                with warnings.catch_warnings():
                    warnings.showwarning = _show_warning
                    command(*args, **kwargs)
            except (typer.Exit, typer.Abort):
                raise
            except KeyboardInterrupt as error:
                self._fail(str(error) or "interrupted", 130)
            except BrimfulError as error:
                self._fail(str(error), 2 if isinstance(error, UsageProblem) else 1)
            except BrokenPipeError:  # the reader of our output went away: `brimful runs | head`
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor is there one at the exit
                raise typer.Exit(0) from None
            except Exception as error:
                self._fail(f"unexpected {type(error).__name__}: {error}. Run again with --debug to see where.", 1)

        return guarded_command

    def _fail(self, message: str, code: int) -> None:
        if self.debug:
            traceback.print_exc()
        print(f"brimful: {message}", file=sys.stderr)
        raise typer.Exit(code)


def _show_warning(message: Warning | str, *_: Any) -> None:
    print(f"brimful: warning: {message}", file=sys.stderr)


guarded = _Guarded()
