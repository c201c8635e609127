"""From PostgreSQL into memory: rows read one by one through an ORM, torch's DataLoader with workers, and chunks.

    python benchmarks/data.py [--sizes 4000x100000 200000x270] [--out benchmarks/results/data-cpu.json]

A size is samples x bytes of one. The same table holds the rows of all contenders: float32 arrays, on an embedded server
of the benchmark's own. The ORM (SQLAlchemy) and DataLoader (2 workers, a connection each) read one row per sample, as
datasets over a database do; where a whole epoch would take longer than --most seconds after its first batch, a part of
it is timed and the epoch computed from it. The tiers are those of `data.loader` on a CPU: the device tier has all rows
in memory, the window tier reads all chunks in every epoch, an eighth of them in memory at once. (`data_device.py` has
the tiers of a GPU.)

"import" and "rebuild" are what writing the rows and chunks, and the chunks again from the rows, takes; "server" are
rates of the server alone: a COPY of the chunks to /dev/null, and of the same rows from a file into a like table.
Reading
is measured in a first pass, and in another one on the same connections, the best of some rounds in turn with the
server's. Bytes per second depend on what else the machine does, which is said beside them; their ratios hardly do.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import psycopg
import torch
from sqlalchemy import REAL, BigInteger, create_engine
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from torch.utils.data import DataLoader, Dataset

from brimful import data
from brimful.core.base.formatting import format_bytes, format_seconds, format_table
from brimful.data import database as db
from brimful.data.database import chunk_format
from saving import save

BATCH = 128
TIERS: dict[str, dict[str, float]] = {"device": {}, "pinned": {}, "window": {"window": 1 / 8}}


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "bench"
    __table_args__ = {"schema": "brimful_data"}  # noqa: RUF012
    row_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    x: Mapped[list[float]] = mapped_column(ARRAY(REAL))


class RowDataset(Dataset[torch.Tensor]):
    """One row per sample, on a connection of the worker's own."""

    def __init__(self, url: str, samples: int) -> None:
        self._url, self._samples, self._connection = url, samples, None

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, number: int) -> torch.Tensor:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True)
        cursor = self._connection.cursor(binary=True)
        row = cursor.execute("SELECT x FROM brimful_data.bench WHERE row_id = %s", (number,)).fetchone()
        assert row is not None
        return torch.tensor(row[0], dtype=torch.float32)


def orm(url: str, samples: int) -> Iterator[int]:
    """Batches through an ORM: how many samples each has."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    order = np.random.default_rng(0).permutation(samples)
    for start in range(0, samples, BATCH):
        with Session(engine) as session:
            rows = [session.get_one(Row, int(number)) for number in order[start : start + BATCH]]
            yield len(torch.tensor([row.x for row in rows], dtype=torch.float32))
    engine.dispose()


def epoch_of(batches: Iterator[int], samples: int, most: float) -> tuple[float, float]:
    """Seconds to the first batch, and of an epoch: as measured, or computed from that batch and those that come in the
    `most` seconds after it."""
    began, sizes, first = time.perf_counter(), [], 0.0
    for size in batches:
        sizes.append(size)
        first = first or time.perf_counter() - began
        if time.perf_counter() - began - first > most:
            break
    seconds, rest = time.perf_counter() - began, sum(sizes[1:])
    return first, seconds if sum(sizes) == samples else first + (seconds - first) * (samples - sizes[0]) / rest


def loader_epochs(home: Path, samples: int, **options: Any) -> tuple[tuple[float, float, float], int]:
    """Seconds to the first batch, of the first epoch with all that comes before it, and of the second; and the bytes
    that the plan says."""
    started = time.perf_counter()
    dataset = db.postgres("bench", home=home)
    batches = data.loader(dataset, batch_size=BATCH, device="cpu", seed=0, **options)
    first, ends, seen = 0.0, [], 0
    for number in range(2):
        for batch in batches.epoch(number):
            seen += len(batch["x"])
            first = first or time.perf_counter() - started
        ends.append(time.perf_counter() - started)
    assert seen == 2 * samples
    assert isinstance(dataset, db.PostgresDataset)
    dataset.close()
    return (first, ends[0], ends[1] - ends[0]), batches.plan.predicted


def write_rows(path: Path, samples: int, width: int) -> None:
    """Random numbers as a .npy file, some of them at a time: all of them need not fit memory."""
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (samples, width))
    rng = np.random.default_rng(0)
    step = max(1, 2**26 // (4 * width))
    for start in range(0, samples, step):
        rows[start : start + step] = rng.random((min(step, samples - start), width), np.float32)
    rows.flush()


def server_rates(url: str, folder: Path, samples: int, width: int) -> tuple[float, Callable[[], float]]:
    """MB/s of the server alone: of copying rows from a file, and a function that measures copying chunks to nowhere."""
    part = min(samples, max(1, 10**8 // (4 * width)))
    file = folder / "data" / "rows.copy"
    with psycopg.connect(url, autocommit=True) as connection:
        query = f"SELECT * FROM brimful_data.bench ORDER BY row_id LIMIT {part}"
        connection.execute(f"COPY ({query}) TO '{file}' (FORMAT binary)".encode())
        began = time.perf_counter()
        with connection.transaction():
            connection.execute("CREATE TABLE copied (LIKE brimful_data.bench INCLUDING ALL)")
            connection.execute(f"COPY copied FROM '{file}' (FORMAT binary)".encode())
        rows = part * 4 * width / 1e6 / (time.perf_counter() - began)
        connection.execute("DROP TABLE copied")
    file.unlink()

    def chunks() -> float:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute("SELECT id, version FROM brimful.dataset WHERE name = 'bench'").fetchone()
            assert found is not None
            table = f"brimful.chunks_{found[0]}_{found[1]}"
            began = time.perf_counter()
            connection.execute(f"COPY (SELECT * FROM {table}) TO '/dev/null' (FORMAT binary)".encode())
            return samples * 4 * width / 1e6 / (time.perf_counter() - began)

    return rows, chunks


def measure(samples: int, sample_bytes: int, home: Path, most: float, rounds: int) -> dict[str, Any]:
    width = max(1, sample_bytes // 4)
    total = 4 * width * samples
    result: dict[str, Any] = {"samples": samples, "sample_bytes": 4 * width, "bytes": total}
    url = db.server_url(home)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        write_rows(path, samples, width)
        began = time.perf_counter()
        info = db.import_dataset({"x": np.load(path, mmap_mode="r")}, "bench", home=home)
        result |= {"import_mbs": total / 1e6 / (time.perf_counter() - began), "disk_bytes": info.disk_bytes}
    result["server_rows_mbs"], server_chunks = server_rates(url, home, samples, width)
    began = time.perf_counter()
    db.build_dataset_chunks("bench", home=home, anew=True)
    result["rebuild_mbs"] = total / 1e6 / (time.perf_counter() - began)
    rates: dict[str, float] = {}
    again: dict[str, float] = {}
    for _ in range(rounds):
        rates["server"] = max(server_chunks(), rates.get("server", 0))
        for connections in (1, 2, 3, 4):
            rate, key = db.bench_dataset("bench", home=home, connections=connections), str(connections)
            rates[key] = max(rate.megabytes_per_second, rates.get(key, 0))
            again[key] = max(rate.megabytes_per_second_again, again.get(key, 0))
    result |= {"read_mbs": rates, "read_again_mbs": again, "load_average": os.getloadavg()[0]}
    result["orm"] = epoch_of(orm(url, samples), samples, most)
    rows = DataLoader(RowDataset(url, samples), BATCH, shuffle=True, num_workers=2)
    result["dataloader"] = epoch_of((len(batch) for batch in rows), samples, most)
    for tier, options in TIERS.items():
        result[f"{tier}_tier"], result[f"{tier}_bytes"] = loader_epochs(
            home, samples, tier=tier, **{name: int(share * samples) for name, share in options.items()}
        )
    db.delete_dataset("bench", home=home)
    return result


def show(results: list[dict[str, Any]]) -> str:
    rates = format_table(
        [
            (
                f"{one['samples']:,} x {format_bytes(one['sample_bytes'])}",
                format_bytes(one["bytes"]),
                *(f"{one['read_mbs'][n]:,.0f}, {one['read_again_mbs'][n]:,.0f}" for n in ("1", "2", "3", "4")),
                f"{one['read_mbs']['server']:,.0f}",
                f"{one['import_mbs']:,.0f}",
                f"{one['rebuild_mbs']:,.0f}",
                f"{one['server_rows_mbs']:,.0f}",
                f"{one['load_average']:.1f}",
            )
            for one in results
        ],
        header=("MB/s", "bytes", "1 connection", "2", "3", "4", "server", "import", "rebuild", "server", "load"),
    )
    rows = []
    for one in results:
        before = one["orm"][1]
        for name in ("orm", "dataloader", *(f"{tier}_tier" for tier in TIERS)):
            first, epoch, *later = one[name]
            last = later[0] if later else epoch
            rows.append(
                (
                    f"{one['samples']:,} x {format_bytes(one['sample_bytes'])}",
                    name.replace("_", " "),
                    *map(format_seconds, (first, epoch, last)),
                    f"{before / last:,.0f}x",
                    f"{one['dataloader'][1] / last:,.0f}x",
                )
            )
    header = ("samples", "reader", "first batch", "first epoch", "next epoch", "of the ORM", "of DataLoader")
    return f"{rates}\n\n{format_table(rows, header=header)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["4000x100000", "10000x100000", "50000x100000", "200000x270"])
    parser.add_argument("--most", type=float, default=10.0, help="seconds for the readers of single rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chunk_format.checksum(b"")  # compiled once in the life of an installation
    home = Path(tempfile.gettempdir()) / f"bf-bench-{os.getpid()}"
    results = []
    try:
        for size in options.sizes:
            samples, sample_bytes = map(int, size.split("x"))
            needed, free = 4 * samples * sample_bytes, shutil.disk_usage(home.parent).free
            if needed > free / 2:
                parser.error(f"{size} takes {format_bytes(needed)} on disk, and {format_bytes(free)} are free")
            results.append(measure(samples, sample_bytes, home, options.most, options.rounds))
            print(show(results[-1:]), flush=True)
            save(options.out, {"results": results}, show(results))
    finally:
        db.stop(home)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
