"""One server at a time on a database."""

import threading

import pytest

from brimful.service.errors import Conflict
from brimful.service.store import Store
from brimful.service.store.server_lock import ServerLock

TERMINATE = """
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE locktype = 'advisory' AND datname = current_database()
"""
"""Ends who holds a lock here; other tests have databases on the same server."""


def test_the_second_server_refuses_and_one_that_was_faster_after_a_restart_takes_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("brimful.service.store.server_lock._PATIENCE", 0.1)
    lost, messages = threading.Event(), list[str]()

    def lose(message: str) -> None:
        messages.append(message)
        lost.set()

    first, second = ServerLock(store.pool, lose), ServerLock(store.pool, lose)
    first.take()
    try:
        with pytest.raises(Conflict, match=r"another server uses this database: brimful serve, process \d+"):
            second.take()
        monkeypatch.setattr("brimful.service.store.server_lock._PATIENCE", 5.0)
        with store.pool.session() as connection:  # as when the database restarts
            connection.execute(TERMINATE)
        second.take()
        assert lost.wait(20)
        assert len(messages) == 1 and "another server has taken over this database" in messages[0]
    finally:
        first.release()
        second.release()
