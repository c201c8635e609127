"""Locating transmitters: how near networks come to the posterior, and how well training uses a device.

    python benchmarks/locate.py [--device cuda] [--only quality,speed,rows,epoch,generate] [--samples 400000]
                                [--epochs 100] [--networks 'default;small'] [--out benchmarks/results/locate.json]

quality   networks trained on the same simulated recordings, beside weighted least squares, the grid posterior and the
          Cramér-Rao bound, all on the same recordings of another seed
speed     steps per second, utilisation and power (NVML), and the share of time without data, of 100,000 samples at
          batch 256: `locate train`, without and with `--out`; a plain PyTorch loop over a DataLoader of tensors on the
          device; and rows read from a database one by one, as the seed's system did: from PostgreSQL where the extra is
          installed, from SQLite in this process elsewhere
rows      the last of these alone, from both databases, beside `locate train`
epoch     seconds of an epoch of 4,030 samples at batch 256, which the seed wants in 10 to 30 s
generate  seconds of 200,000 simulated recordings

Sizes are small by default, for a CPU; a GPU gets those of the claims.
"""

import argparse
import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from brimful import locate
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.core.memory.monitor import Sampler
from brimful.core.runs.events import Sampled
from brimful.locate.data.features import Scaling
from brimful.locate.evaluation.compare import compare
from brimful.locate.model.networks import LocationNetwork, NetworkConfig, loss
from brimful.locate.physics.scenario import Scenario

NETWORKS: dict[str, dict[str, Any]] = {
    "default": {},
    "small": {"network": "small"},
    "single": {"network": "small", "covariance": "single"},
    "small without dropout": {"network": "small", "dropout_rate": 0.0},
    "without dropout": {"dropout_rate": 0.0},
    "wide": {"width": 256, "layers": 4, "dropout_rate": 0.0},
    "narrow": {"width": 64, "layers": 2},
    "average": {"dropout_rate": 0.0, "ema_span": 0.1},
    "batch 1024": {"batch_size": 1024, "lr": 2e-3},
}


def quality(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    scenario = Scenario(sites=options.sites)
    recordings = locate.generate(options.samples, scenario, seed=0)
    test = locate.generate(options.test, scenario, seed=1)
    dataset = locate.Dataset("synthetic", recordings, scenario, 0)
    predicted, rows, judged = {}, {}, None
    for name in options.networks.split(";"):
        settings = {"epochs": options.epochs, "batch_size": 256, "patience": None, **NETWORKS[name]}
        result = locate.train(dataset, device=str(device), progress=False, **settings)
        samples = result.scaling.samples(test)
        predicted[name] = result.located(samples, device=device)
        use = result.device_use
        rows[name] = {
            "parameters": result.parameters,
            "seconds": result.seconds,
            "best_epoch": result.best_epoch + 1,
            "scale": result.scale,
            "steps_per_second": use.steps_per_second,
            "utilisation": use.utilisation,
            "watts": use.watts,
            "stall_share": use.stall_share,
        }
        print(name, {key: value if value is None else round(value, 3) for key, value in rows[name].items()}, flush=True)
        if judged is None:
            started = time.perf_counter()
            judged = compare({}, samples, result.scaling, scenario, device=device)
            print(f"judges: {time.perf_counter() - started:.1f} s", flush=True)
            scaling, target = result.scaling, samples["target"]
        error = predicted[name]["position"] - scaling.position_m * target
        judged.scores[name] = locate.score(error, predicted[name]["covariance"])
        ratios = judged.ratio("rmse_m", name), judged.ratio("p68_m", name)
        print(f"  RMSE {ratios[0]:.3f} and p68 {ratios[1]:.3f} times the posterior's", flush=True)
    assert judged is not None
    print(judged)
    level = judged.level
    assert level is not None
    inside = float((level < 0.68).double().mean())
    print(f"truths inside the posterior's 68% region of highest density: {inside:.1%}")
    return {"scores": judged.values(), "training": rows, "posterior_inside_68": inside}


def speed(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    scenario = Scenario()
    count = 100_000 if device.type == "cuda" else 5_000
    recordings = locate.generate(count, scenario)
    found: dict[str, Any] = {}
    kinds = {"small": {"network": "small"}, "default": {}}
    for name, settings in kinds.items():
        cuda = ((True, False), (True, True), (False, False))
        for graph, stored in cuda if device.type == "cuda" else ((False, False), (False, True)):
            # Nearly all recordings train: the claim is of so many training samples.
            shares = {"validation_split": 0.02, "test_split": 0.01}
            with tempfile.TemporaryDirectory() as folder:
                result = locate.train(
                    recordings,
                    device=str(device),
                    progress=False,
                    epochs=options.epochs if device.type == "cuda" else 3,
                    batch_size=256,
                    patience=None,
                    graph=graph,
                    out=str(Path(folder) / "run") if stored else None,
                    **shares,
                    **settings,
                )
            use = result.device_use
            kind = (", graphs" if graph else "") + (", with --out" if stored else "")
            found[f"locate train, {name}{kind}"] = {
                "steps_per_second": use.steps_per_second,
                "utilisation": use.utilisation,
                "watts": use.watts,
                "stall_share": use.stall_share,
            }
        samples = Scaling.of(recordings).samples(recordings)
        found[f"DataLoader of tensors on the device, {name}"] = _plain_loop(samples, settings, device, 20.0)
        database, connect = next(iter(_databases().items()))
        found[f"rows one by one from {database}, {name}"] = _row_loop(connect, samples, settings, device, 10.0)
    cells = [(name, *("" if row[key] is None else f"{row[key]:.3g}" for key in _USE)) for name, row in found.items()]
    print(format_table(cells, header=("", *_USE)))
    return found


_USE = ("steps_per_second", "utilisation", "watts", "stall_share")


def _network(settings: dict[str, Any], device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    return LocationNetwork(NetworkConfig(**settings)).to(device)


def _loop(
    model: nn.Module, batches: Iterator[dict[str, Tensor]], device: torch.device, seconds: float
) -> dict[str, Any]:
    """What a skilled user writes: zero_grad, loss, backward, clip, step; for so many seconds, after a few steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    seen: list[Sampled] = []
    steps, waited, started = -20, 0.0, 0.0
    with Sampler(seen.append, device):
        while True:
            if steps == 0:
                _wait(device)
                seen.clear()
                started, waited = time.perf_counter(), 0.0
            asked = time.perf_counter()
            batch = next(batches)
            waited += time.perf_counter() - asked
            optimizer.zero_grad(set_to_none=True)
            total, weight = loss(model, batch)
            (total / weight).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            steps += 1
            if steps > 0 and time.perf_counter() - started > seconds:
                break
        _wait(device)
    took = time.perf_counter() - started
    known = [sample for sample in seen if sample.utilisation is not None]
    mean = (lambda values: sum(values) / len(values)) if known else (lambda values: None)
    return {
        "steps_per_second": steps / took,
        "utilisation": mean([sample.utilisation for sample in known]),
        "watts": mean([sample.watts for sample in known]),
        "stall_share": waited / took,
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _plain_loop(samples: dict[str, Tensor], settings: dict[str, Any], device: torch.device, seconds: float) -> Any:
    names = ("features", "mask", "target")
    rows = TensorDataset(*(samples[name].to(device) for name in names))

    def batches() -> Iterator[dict[str, Tensor]]:
        while True:
            for parts in DataLoader(rows, batch_size=256, shuffle=True):
                yield dict(zip(names, parts, strict=True))

    return _loop(_network(settings, device), batches(), device, seconds)


class _Rows(TorchDataset):
    """A row of a database per sample, with one JSON object per receiver, turned into tensors one number at a time."""

    def __init__(self, fetch: Callable[[int], Any], count: int, receivers: int) -> None:
        self.fetch, self.count, self.receivers = fetch, count, receivers

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        text, east, north = self.fetch(index)
        features, mask = torch.zeros(self.receivers, 6), torch.zeros(self.receivers, dtype=torch.bool)
        for number, receiver in enumerate(json.loads(text)):
            for column, value in enumerate(receiver.values()):
                features[number, column] = value
            mask[number] = True
        return {"features": features, "mask": mask, "target": torch.tensor([east, north])}


_TABLE = "create table recording (id integer primary key, receivers text, east float8, north float8)"
_ROW = "select receivers, east, north from recording where id = "


@contextlib.contextmanager
def _sqlite(rows: Iterator[tuple[Any, ...]]) -> Iterator[Callable[[int], Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as session, session:
            session.execute(_TABLE)
            session.executemany("insert into recording values (?, ?, ?, ?)", rows)

        def fetch(index: int) -> Any:
            with contextlib.closing(sqlite3.connect(path)) as session:
                return session.execute(f"{_ROW}?", (index,)).fetchone()

        yield fetch


@contextlib.contextmanager
def _postgres(rows: Iterator[tuple[Any, ...]]) -> Iterator[Callable[[int], Any]]:
    """A server of the benchmark's own, on one connection that stays open."""
    import psycopg

    from brimful.data.database import server_url, stop

    home = Path(tempfile.gettempdir()) / f"bf-locate-{os.getpid()}"
    try:
        with psycopg.connect(server_url(home), autocommit=True) as session:
            session.execute(_TABLE)
            with session.cursor() as cursor, cursor.copy("copy recording from stdin") as copy:
                for row in rows:
                    copy.write_row(row)
            yield lambda index: session.execute(f"{_ROW}%s".encode(), (index,)).fetchone()
    finally:
        stop(home)
        shutil.rmtree(home, ignore_errors=True)


def _row_loop(
    database: Any, samples: dict[str, Tensor], settings: dict[str, Any], device: torch.device, seconds: float
) -> Any:
    names, count = ("snr", "psd", "frequency_offset", "east", "north", "detected"), min(20_000, len(samples["mask"]))
    parts = zip(*(samples[name][:count].tolist() for name in ("features", "mask", "target")), strict=True)
    texts = (
        (number, json.dumps([dict(zip(names, row, strict=True)) for row, up in zip(f, m, strict=True) if up]), *t)
        for number, (f, m, t) in enumerate(parts)
    )
    with database(texts) as fetch:

        def batches() -> Iterator[dict[str, Tensor]]:
            while True:
                rows = _Rows(fetch, count, samples["mask"].shape[1])
                for batch in DataLoader(rows, batch_size=256, shuffle=True):
                    yield {name: value.to(device) for name, value in batch.items()}

        return _loop(_network(settings, device), batches(), device, seconds)


def rows(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Rows one by one, from each database there is, beside `locate train`."""
    recordings = locate.generate(5_000)
    result = locate.train(
        recordings, device=str(device), progress=False, epochs=3, batch_size=256, patience=None, network="small"
    )
    samples, found = Scaling.of(recordings).samples(recordings), {"locate train": result.device_use.steps_per_second}
    for name, database in _databases().items():
        loop = _row_loop(database, samples, {"network": "small"}, device, 10.0)
        found[f"rows from {name}"] = loop["steps_per_second"]
    cells = [(name, f"{rate:.3g}", f"{found['locate train'] / rate:.3g}x") for name, rate in found.items()]
    print(format_table(cells, header=("", "steps per second", "locate train's")))
    return found


def _databases() -> dict[str, Any]:
    """The best first."""
    return ({"PostgreSQL": _postgres} if find_spec("psycopg") else {}) | {"SQLite": _sqlite}


def epoch(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    recordings = locate.generate(4_030)
    found = {}
    for name in ("small", "default"):
        settings: dict[str, Any] = {"network": "small"} if name == "small" else {}
        result = locate.train(
            recordings, device=str(device), progress=False, epochs=6, batch_size=256, patience=None, **settings
        )
        rows = result.history[1:]
        found[name] = sum(row["seconds"] for row in rows) / len(rows)
        print(f"{name}: an epoch of 4,030 recordings takes {found[name]:.4f} s")
    return found


def generate(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    count = 200_000
    started = time.perf_counter()
    recordings = locate.generate(count)
    seconds = time.perf_counter() - started
    print(f"{len(recordings):,} recordings in {seconds:.1f} s, on {torch.get_num_threads()} threads")
    return {"recordings": count, "seconds": seconds, "threads": torch.get_num_threads()}


PARTS = {"generate": generate, "epoch": epoch, "rows": rows, "speed": speed, "quality": quality}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--samples", type=int)
    parser.add_argument("--test", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--sites", default="fixed")
    parser.add_argument("--networks", default="default;small;single", help="; ".join(NETWORKS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = devices.resolve(options.device)
    large = device.type == "cuda"
    options.samples = options.samples or (400_000 if large else 8_000)
    options.test = options.test or (20_000 if large else 500)
    options.epochs = options.epochs or (60 if large else 5)
    found = {"device": devices.model_name(device), "torch": torch.__version__}
    for name in options.only.split(","):
        print(f"\n{name}", flush=True)
        found[name] = PARTS[name](options, device)
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
