"""The datasets of the service's database, as JSON values: what `brimful data` lists, shows and deletes."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from ...core.base.errors import BrimfulError, ConfigError, InputError
from ...data import database
from ...data.database import DatasetInfo
from ...data.database.table_file import write_table_file
from ..errors import NotFound, Unavailable
from ..jobs.job import utc

T = TypeVar("T")


def list_datasets(url: str) -> list[dict[str, Any]]:
    return [_values(info) for info in _call(lambda: database.list_datasets(url))]


def show_dataset(url: str, name: str) -> dict[str, Any]:
    return _values(_call(lambda: database.show_dataset(name, url)))


def delete_dataset(url: str, name: str) -> None:
    _call(lambda: database.delete_dataset(name, url))


def write_dataset(url: str, name: str, path: str) -> None:
    """Writes its rows to a file."""
    write_table_file(name, Path(path), url)


def _call(function: Callable[[], T]) -> T:
    try:
        return function()
    except (InputError, ConfigError) as error:
        raise NotFound(str(error)) from error
    except BrimfulError as error:
        raise Unavailable(str(error)) from error


def _values(info: DatasetInfo) -> dict[str, Any]:
    values = asdict(info)
    return values | {"created": utc(info.created), "fields": {name: str(form) for name, form in info.fields.items()}}
