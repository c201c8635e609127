"""The end of a command's process.

At its end an interpreter takes all modules apart. With torch's and numba's that takes one to two seconds, and the
driver of a GPU as long again; the system frees the same memory at once.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn


def run_to_end(main: Callable[[], None]) -> NoReturn:
    """Runs a command, and ends the process: what was registered for its end is called, threads are waited for, and what
    was printed is written."""
    code: Any = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    if _is_watched():
        sys.exit(code)
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    steps = (threading._shutdown, atexit._run_exitfuncs)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        for step in steps:  # as an interpreter does
            code = _told(step) or code
    finally:
        os._exit(_flush(code or 0))


def _told(step: Callable[[], object]) -> int:
    """Takes a step of the end; what goes wrong in it, or interrupts it, is told, and the next step is taken."""
    try:
        step()
    except KeyboardInterrupt:
        print("brimful: interrupted at its end", file=sys.stderr)
        return 130
    except BaseException:
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]
    return 0


def _is_watched() -> bool:
    """Whether a debugger, a profiler or what measures coverage has work of its own at the end."""
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    tools = [monitoring.get_tool(number) for number in range(6)] if monitoring is not None else []
    return any((sys.gettrace(), sys.getprofile(), *tools))


def _flush(code: int) -> int:
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BrokenPipeError:  # the reader went away
        pass
    except OSError as error:
        os.write(2, f"brimful: what was printed cannot be written: {error}\n".encode())
        return code or 1
    return code
