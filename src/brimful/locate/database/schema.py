"""The tables of `locate` in PostgreSQL, and how they came to be what they are: one migration after the other.

    locate.dataset       a set of recordings: its name, its scenario and seed where it was generated, its version
    locate.receiver      a place where receivers are, once
    locate.recording     one transmission: where it came from, where that is known
    locate.measurement   what one receiver measured of one recording; NULL where it detected nothing

Measurements refer to recordings and receivers that exist, and go with their recording. That is checked once a statement
and not by foreign keys, which look at every row by itself: two million rows would take a minute instead of seconds.

These rows are the truth. Every statement that changes recordings or measurements raises the version of their dataset,
in the same transaction; tensors that were made of an earlier version are made again.
"""

from typing import TYPE_CHECKING, Any

from ...core.base.errors import StorageError

if TYPE_CHECKING:
    from psycopg import Connection

_LOCK = 0x6C6F_6361  # of whoever migrates

_TABLES = """
CREATE TABLE locate.dataset (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    created timestamptz NOT NULL DEFAULT now(),
    scenario jsonb,
    seed bigint
);
CREATE TABLE locate.receiver (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    latitude double precision NOT NULL,
    longitude double precision NOT NULL,
    UNIQUE (latitude, longitude)
);
CREATE TABLE locate.recording (
    dataset integer NOT NULL REFERENCES locate.dataset ON DELETE CASCADE,
    number integer NOT NULL CHECK (number >= 0),
    name text,
    transmitter_latitude double precision,
    transmitter_longitude double precision,
    power_dbm real,
    gdop real,
    PRIMARY KEY (dataset, number)
);
CREATE TABLE locate.measurement (
    dataset integer NOT NULL,
    recording integer NOT NULL,
    slot smallint NOT NULL CHECK (slot BETWEEN 0 AND 14),
    receiver integer NOT NULL,
    detected boolean NOT NULL,
    snr_db real,
    psd_dbm_hz real,
    frequency_offset_hz real,
    PRIMARY KEY (dataset, recording, slot)
);
CREATE FUNCTION locate.check_measurements() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN
    IF EXISTS (SELECT FROM changed c LEFT JOIN locate.recording r ON r.dataset = c.dataset AND r.number = c.recording
               WHERE r.dataset IS NULL) THEN
        RAISE foreign_key_violation USING MESSAGE = 'a measurement is of a recording that does not exist';
    END IF;
    IF EXISTS (SELECT FROM changed c LEFT JOIN locate.receiver r ON r.id = c.receiver WHERE r.id IS NULL) THEN
        RAISE foreign_key_violation USING MESSAGE = 'a measurement is of a receiver that does not exist';
    END IF;
    RETURN NULL;
END$$;
CREATE TRIGGER insert_checks AFTER INSERT ON locate.measurement
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION locate.check_measurements();
CREATE TRIGGER update_checks AFTER UPDATE ON locate.measurement
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION locate.check_measurements();
CREATE FUNCTION locate.delete_measurements() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN
    DELETE FROM locate.measurement m USING changed c WHERE m.dataset = c.dataset AND m.recording = c.number;
    RETURN NULL;
END$$;
CREATE TRIGGER delete_measurements AFTER DELETE ON locate.recording
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION locate.delete_measurements();
"""

_VERSIONS = """
ALTER TABLE locate.dataset ADD COLUMN version integer NOT NULL DEFAULT 1;
CREATE FUNCTION locate.rows_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS
$$BEGIN
    UPDATE locate.dataset SET version = version + 1 WHERE id IN (SELECT DISTINCT dataset FROM changed);
    RETURN NULL;
END$$;
"""
for _table in ("recording", "measurement"):
    for _event, _rows in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
        _VERSIONS += (
            f"CREATE TRIGGER {_event.lower()}_changes AFTER {_event} ON locate.{_table} "
            f"REFERENCING {_rows} TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION locate.rows_changed();\n"
        )

MIGRATIONS = (_TABLES, _VERSIONS)
"""In order; what is there already is never changed, only added to."""


def migrate(connection: "Connection[Any]", target: int = len(MIGRATIONS)) -> int:
    """Brings the tables to a version of the schema, and says which it was before.

    Raises:
        StorageError: the tables are of a later version than this one knows.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute("CREATE SCHEMA IF NOT EXISTS locate")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS locate.migration "
            "(version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
        )
        row = connection.execute("SELECT coalesce(max(version), 0) FROM locate.migration").fetchone()
        before = int((row or (0,))[0])
        if before > len(MIGRATIONS):
            raise StorageError(
                f"the tables of locate are of version {before} of their schema, and this brimful knows up to "
                f"{len(MIGRATIONS)}; install a later brimful"
            )
        for number in range(before + 1, target + 1):
            connection.execute(MIGRATIONS[number - 1].encode())
            connection.execute("INSERT INTO locate.migration (version) VALUES (%s)", (number,))
    return before
