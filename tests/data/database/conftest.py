"""One embedded server for all tests here, shared by all processes of a test run; each test has datasets of its own."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import torch

from brimful.data import database as db
from brimful.data.database import server
from brimful.data.database.connection import Database

from ...helpers.postgres import clean_up


@dataclass(frozen=True)
class Server:
    """The server, and a name for a dataset that nobody else uses."""

    home: str

    @property
    def database(self) -> Database:
        return Database.at(home=self.home)

    @property
    def url(self) -> str:
        return self.database.uri()

    def name(self) -> str:
        return f"t{uuid.uuid4().hex[:12]}"

    def put(self, what: Any) -> str:
        """A new dataset, by its name."""
        name = self.name()
        db.import_dataset(what, name, home=self.home)
        return name

    def open(self, name: str, **options: Any) -> db.PostgresDataset:
        dataset = db.postgres(name, home=self.home, **options)
        assert isinstance(dataset, db.PostgresDataset)
        return dataset

    def execute(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def terminate_others(self) -> int:
        """Ends every other connection, as an administrator would."""
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'brimful'"
        return len(self.execute(f"{others} AND pid <> pg_backend_pid()"))


@pytest.fixture(scope="session")
def shared(postgres_home: Path) -> Server:
    return Server(str(postgres_home))


@pytest.fixture(scope="session")
def own_home() -> Iterator[Path]:
    home = Path("/tmp") / f"bf-{uuid.uuid4().hex[:8]}"
    yield home
    clean_up(home)


@pytest.fixture
def own(own_home: Path) -> Iterator[Server]:
    """A server of the test's own, which it may stop; it is stopped before the next test has it."""
    yield Server(str(own_home))
    if server.url_in_use(own_home):
        server._stop(own_home, "immediate")
    server.stop(own_home)


@pytest.fixture
def rows() -> dict[str, Any]:
    """A field of each kind, with NaN among them."""
    chance = np.random.default_rng(0)
    values = {
        "features": chance.normal(size=(300, 7, 6)).astype(np.float32),
        "mask": chance.random((300, 7)) < 0.5,
        "target": chance.normal(size=(300, 2)),
        "label": np.arange(300),
        "image": chance.integers(0, 256, (300, 4, 5), dtype=np.uint8),
        "small": chance.integers(-128, 128, 300, dtype=np.int8),
        "half": torch.randn(300, generator=torch.Generator().manual_seed(0)).bfloat16(),
    }
    values["target"][7, 1] = np.nan
    return values


def same(first: Any, second: Any) -> bool:
    """Whether two arrays have the same dtype, shape and bits."""
    one, other = (torch.as_tensor(part).contiguous() for part in (first, second))
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8))
