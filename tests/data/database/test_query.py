"""Plain tables and queries: their columns as tensors, checked on the server before anything is loaded."""

import pickle
from typing import Any

import pytest
import torch

from brimful import BrimfulWarning, InputError, StorageError, data
from brimful.data import database as db

from .conftest import Server


@pytest.fixture
def table(shared: Server) -> str:
    name = shared.name()
    shared.execute(
        f"CREATE TABLE {name} (id int PRIMARY KEY, a real, b float8, c smallint, d bigint, e boolean, f numeric, "
        "g real[], h int[], i date, j text)"
    )
    shared.execute(
        f"INSERT INTO {name} SELECT n, n, CASE WHEN n <> 3 THEN n / 2.0 END, n, n, n % 2 = 0, n + 0.25, "
        "ARRAY[n, NULL, 2], ARRAY[[n, 1], [2, 3]], '1970-01-01'::date + n, 'x' FROM generate_series(9, 0, -1) AS n"
    )
    return name


def open_query(shared: Server, what: str, **options: Any) -> db.QueryDataset:
    dataset = db.postgres(what, home=shared.home, **options)
    assert isinstance(dataset, db.QueryDataset)
    return dataset


def test_columns_become_tensors_in_the_order_of_the_key(shared: Server, table: str):
    with pytest.warns(BrimfulWarning, match=r"left out of the batch: j \(text\)"):
        dataset = open_query(shared, table)
    forms = {name: (field.dtype, field.shape) for name, field in dataset.fields.items()}
    assert forms == {
        "id": (torch.int32, ()), "a": (torch.float32, ()), "b": (torch.float64, ()), "c": (torch.int16, ()),
        "d": (torch.int64, ()), "e": (torch.bool, ()), "f": (torch.float64, ()), "g": (torch.float32, (3,)),
        "h": (torch.int32, (2, 2)), "i": (torch.int32, ()),
    }  # fmt: skip
    assert dataset.nbytes == 10 * (4 + 4 + 8 + 2 + 8 + 1 + 8 + 12 + 16 + 4)
    batch = dataset.take(range(10))
    for name in forms:
        assert (batch[name].dtype, tuple(batch[name].shape[1:])) == forms[name]
    assert batch["id"].tolist() == batch["i"].tolist() == list(range(10))
    assert batch["f"][2] == 2.25
    assert batch["h"][4].tolist() == [[4, 1], [2, 3]]
    assert torch.isnan(batch["b"]).tolist() == [n == 3 for n in range(10)]
    assert torch.isnan(batch["g"][:, 1]).all()


def test_a_query_is_a_source_and_survives_pickling(shared: Server, table: str):
    dataset = open_query(shared, f"SELECT id, a FROM {table} WHERE id < 6 ORDER BY id DESC;")
    assert [
        batch["id"].tolist() for batch in data.loader(dataset, batch_size=4, shuffle=False, device="cpu").epoch(0)
    ] == [
        [5, 4, 3, 2],
        [1, 0],
    ]
    assert pickle.loads(pickle.dumps(dataset)).take([0])["id"].item() == 5
    assert open_query(shared, table, columns=["d", "c"]).take([3])["d"].item() == 3


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT id FROM {}", "does not say the order of its rows"),
        ("UPDATE {} SET a = 1", "begin with SELECT"),
        ("SELECT NULLIF(c, 3) AS c FROM {} ORDER BY 1", "column 'c' is null in 1 of 10 rows"),
        ("SELECT ARRAY[c, NULL] AS c FROM {} ORDER BY id", "column 'c' is null in 10 of 10 rows"),
        ("SELECT array_fill(1, ARRAY[id]) AS x FROM {} ORDER BY id", "unequal length"),
        ("SELECT 'ab'::bytea AS x FROM {} ORDER BY id", "column 'x' is bytea"),
        ("SELECT j FROM {} ORDER BY id", r"the columns j \(text\) hold no numbers"),
        ("SELECT id FROM {} WHERE id > 99 ORDER BY id", "gives no rows"),
        ("SELECT id, a AS id FROM {} ORDER BY 1", "two columns of one name"),
    ],
)
def test_what_cannot_be_tensors_is_refused_before_loading(shared: Server, table: str, query: str, message: str):
    with pytest.raises(InputError, match=message):
        open_query(shared, query.format(table))


def test_mistakes_in_a_query_are_the_servers_own_words(shared: Server):
    with pytest.raises(StorageError, match='relation "nothere" does not exist'):
        open_query(shared, "SELECT * FROM nothere ORDER BY 1")


def test_a_table_that_changes_between_planning_and_loading_is_noticed(shared: Server, table: str):
    dataset = open_query(shared, table, columns=["id"])
    shared.execute(f"DELETE FROM {table} WHERE id = 4")
    with pytest.raises(StorageError, match="gave 9 rows where 10 were counted"):
        dataset.take([0])


def test_a_table_without_a_key_and_a_view(shared: Server, table: str):
    shared.execute(
        f"CREATE TABLE {table}_plain AS SELECT id FROM {table}; CREATE VIEW {table}_view AS SELECT id FROM {table}"
    )
    assert sorted(open_query(shared, f"{table}_plain").column("id").tolist()) == list(range(10))
    with pytest.raises(InputError, match="has no order of its own"):
        open_query(shared, f"{table}_view")
