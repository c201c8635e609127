"""A process that has the workloads imported, and answers what the server asks of them: the server imports none.

Calls and answers are lines of JSON on a socket: {"method", "arguments"}, and {"result"} or {"error", "message"}, with
the "option" at fault where that is known.
"""

import contextlib
import json
import socket
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ...core.base.errors import BrimfulError
from ..errors import Invalid

Methods = Mapping[str, Callable[..., Any]]


def serve(connection: socket.socket, methods: Methods) -> None:
    """Answers until the connection ends."""
    with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as calls:
        for line in calls:
            connection.sendall(json.dumps(_answer(json.loads(line), methods), default=str).encode() + b"\n")


def _answer(call: dict[str, Any], methods: Methods) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return {"result": methods[call["method"]](**call["arguments"])}
        except Invalid as error:
            return {"error": "Invalid", "problems": [problem.to_dict() for problem in error.problems]}
        except BrimfulError as error:
            return {"error": type(error).__name__, "message": str(error), "option": error.option}
        except Exception as error:
            traceback.print_exc()
            return {"error": "unexpected", "message": f"{type(error).__name__}: {error}"}
