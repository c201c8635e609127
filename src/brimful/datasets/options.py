"""The options of `brimful data`, each declared once."""

from dataclasses import dataclass

from ..core.declare.config import option
from ..data.database.reader import CONNECTIONS


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    """For all commands: which server."""

    url: str | None = option(
        None,
        help="postgresql://user:password@host:port/database; by default $BRIMFUL_DATABASE_URL, or the embedded server "
        "in $BRIMFUL_POSTGRES_DIR or the user's data directory, which is started and stopped as needed",
        local=True,
    )


@dataclass(frozen=True, kw_only=True)
class NamedOptions(DatabaseOptions):
    """For commands on one dataset."""

    name: str = option(help="name of the dataset", positional=True)


@dataclass(frozen=True, kw_only=True)
class ImportConfig(DatabaseOptions):
    """The options of `brimful data import`."""

    source: str = option(
        help="a .npy, .npz, .parquet or .csv file, or a query such as 'SELECT x, y FROM t ORDER BY id'",
        positional=True,
        metavar="FILE|QUERY",
        files=True,
    )
    dataset: str = option(help="name of the new dataset: letters, digits, '_', '-' and '.'", metavar="NAME")
    columns: str | None = option(None, help="only these columns, as a,b,c; by default all that hold numbers")


@dataclass(frozen=True, kw_only=True)
class ListConfig(DatabaseOptions):
    """The options of `brimful data list`."""


@dataclass(frozen=True, kw_only=True)
class ShowConfig(NamedOptions):
    """The options of `brimful data show`."""


@dataclass(frozen=True, kw_only=True)
class VerifyConfig(NamedOptions):
    """The options of `brimful data verify`."""


@dataclass(frozen=True, kw_only=True)
class ChunksConfig(NamedOptions):
    """The options of `brimful data chunks`."""

    anew: bool = option(False, help="build them also where they are those of the rows, as after damage")


@dataclass(frozen=True, kw_only=True)
class BenchConfig(NamedOptions):
    """The options of `brimful data bench`."""

    connections: int = option(CONNECTIONS, help="how many read at the same time", ge=1, le=64)


@dataclass(frozen=True, kw_only=True)
class DeleteConfig(NamedOptions):
    """The options of `brimful data delete`."""

    yes: bool = option(False, help="do it; without it the command only says what would be deleted")
