"""The JSON body of a request: an object, read strictly, so that nothing reaches the service that the database or a
config could stumble over."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import Depends, Request

from ..errors import FieldProblem, Invalid
from ..problem import Problem
from .problems import MalformedError

_DEEPEST = 20


class _Unreadable(ValueError):
    pass


async def json_object(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise MalformedError(
            Problem(415, f"the body is {kind or 'of no type'!r}; send JSON with 'Content-Type: application/json'")
        )
    body = parse(await request.body())
    if not isinstance(body, dict):
        raise Invalid(FieldProblem("", f"the body is {_kind(body)}; it must be a JSON object, as {{...}}"))
    if problems := list(_faults(body, "")):
        raise Invalid(*problems)
    return body


JsonObject = Annotated[dict[str, Any], Depends(json_object)]


def parse(body: bytes) -> Any:
    """JSON as RFC 8259 has it: UTF-8, no NaN, no number beyond a float's range, no name twice in one object."""
    try:
        return json.loads(
            body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant, parse_float=_number
        )
    except UnicodeDecodeError as error:
        raise MalformedError(Problem(400, f"the body is not UTF-8 ({error.reason}); send it in UTF-8")) from error
    except RecursionError as error:
        raise MalformedError(Problem(400, "the body is nested too deeply; send a flatter one")) from error
    except ValueError as error:
        raise MalformedError(Problem(400, f"the body cannot be read as JSON: {error}. Mend it")) from error


def check_fields(body: Mapping[str, Any], allowed: Mapping[str, str], required: tuple[str, ...]) -> None:
    """Refuses fields that are not known, not there, or of another kind; `allowed` is their kind by name, as in
    "a text", or several as in "a list or null"."""
    problems = []
    for name in sorted(set(body) - set(allowed)):
        problems.append(FieldProblem(name, f"there is no field {name[:100]!r}; there are {', '.join(allowed)}"))
    for name in required:
        if name not in body:
            problems.append(FieldProblem(name, f"{name} is missing; it must be {allowed[name]}"))
    for name, kinds in allowed.items():
        if name in body and _kind(body[name]) not in kinds.split(" or "):
            problems.append(FieldProblem(name, f"{name} is {_kind(body[name])}; it must be {kinds}"))
    if problems:
        raise Invalid(*problems)


def check_texts(name: str, values: list[Any]) -> None:
    """Refuses a list that is empty, or has something other than texts in it."""
    problems = [
        FieldProblem(f"{name}.{place}", f"{name}.{place} is {_kind(value)}; it must be a text")
        for place, value in enumerate(values)
        if not isinstance(value, str)
    ]
    if not values:
        problems = [FieldProblem(name, f"{name} is empty; name at least one, or leave it out")]
    if problems:
        raise Invalid(*problems)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _faults(value: Any, path: str, depth: int = 0) -> Iterator[FieldProblem]:
    """Texts that no database takes, and values that are nested too deeply."""
    if depth > _DEEPEST:
        yield FieldProblem(path, f"{path[:100]} is nested more than {_DEEPEST} deep; send a flatter value")
    elif isinstance(value, str):
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value):
            yield FieldProblem(path, f"{path} has a character that no text can have, NUL or half of a pair; remove it")
    elif isinstance(value, dict):
        for name, inner in value.items():
            shown = name.encode("ascii", "backslashreplace").decode()
            below = f"{path}.{shown}" if path else shown
            yield from _faults(name, below)
            yield from _faults(inner, below, depth + 1)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _faults(inner, f"{path}.{place}", depth + 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unreadable(f"{twice[:100]!r} is given twice in one object")
    return values


def _constant(text: str) -> Any:
    raise _Unreadable(f"{text} is no number in JSON")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Unreadable(f"{text[:50]} is beyond what a number can be")
    return value
