"""The tables of the service, brought to this version's form: numbered SQL files, each applied once, in order.

Two servers that start at the same time take turns by an advisory lock. A database that a later version has changed is
refused.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.base.errors import ConfigError
from .pool import SCHEMA

if TYPE_CHECKING:
    from .pool import Connection

FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x6272696D66756C  # "brimful"


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str


def migrations(folder: Path = FOLDER) -> list[Migration]:
    """Those there are, in order; numbered from 1 without gaps."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        match = re.fullmatch(r"(\d{4})_(\w+)", path.stem)
        if match is None:
            raise ConfigError(f"{path} is no migration: name it 0001_what_it_does.sql")
        found.append(Migration(int(match[1]), match[2], path.read_text()))
    if [one.number for one in found] != list(range(1, len(found) + 1)):
        raise ConfigError(f"the migrations in {folder} are not numbered from 1 without gaps")
    return found


def migrate(connection: "Connection", folder: Path = FOLDER) -> list[int]:
    """Applies what is missing, all or nothing; the numbers of what was applied.

    Raises:
        ConfigError: a later version has been here.
    """
    known = migrations(folder)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        connection.execute(f"SET LOCAL search_path TO {SCHEMA}, public".encode())
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration (number integer PRIMARY KEY, name text NOT NULL, "
            "applied timestamptz NOT NULL DEFAULT now())"
        )
        row = connection.execute("SELECT coalesce(max(number), 0) FROM migration").fetchone()
        last = int(row[0]) if row else 0
        if last > len(known):
            raise ConfigError(
                f"the database was changed by a later version of brimful: it is at migration {last}, and this version "
                f"knows {len(known)}. Install that version, or give another database"
            )
        for one in known[last:]:
            connection.execute(one.text.encode())
            connection.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (one.number, one.name))
    return [one.number for one in known[last:]]
