"""Methods of the service block: they run on threads."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio.to_thread

P = ParamSpec("P")
T = TypeVar("T")


async def ask(method: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Calls a method of the service on a thread."""
    return await anyio.to_thread.run_sync(lambda: method(*arguments, **named))
