"""`brimful.data.loader` on a device: permutations, batches beside indexing by hand, and waiting in each tier.

    python benchmarks/data_device.py [--device cuda] [--only permutation,batches,stall] [--quick] [--out FILE.json]

permutation  the order of an epoch made on the device, beside torch.randperm; its bits are compared with the host's
batches      epochs of the device tier, ten at a time, beside torch.randperm and `x[order[i:i + size]]` for the same two
             fields
stall        the share of the epoch in which nothing could be done for want of a batch, in each tier, with a step of a
             given length; the window tier reads from a source of a given rate, 1.2 times and 2 times what the steps use
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from brimful import data
from brimful.core.base.formatting import format_bytes, format_table
from brimful.core.memory import devices
from brimful.data.array_dataset import ArrayDataset
from brimful.data.shuffle.permutation import permutation, permutation_on
from saving import save

EPOCHS = 10  # read one after the other, as training does, before the device is waited for
WIDTH = 64  # float32 numbers of a row, beside an int64 label


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best(calls: dict[str, Callable[[], Any]], device: torch.device, rounds: int) -> dict[str, float]:
    """Seconds of each call, the least of some rounds over all of them in turn."""
    least = dict.fromkeys(calls, float("inf"))
    for number in range(rounds + 1):
        for name, call in calls.items():
            wait(device)
            began = time.perf_counter()
            call()
            wait(device)
            if number:  # the first compiles and loads
                least[name] = min(least[name], time.perf_counter() - began)
    return least


def measure_permutations(device: torch.device, quick: bool) -> list[dict[str, Any]]:
    rows = []
    for samples in (10_000, 200_000) if quick else (10_000, 200_000, 2_000_000, 20_000_000):
        same = torch.equal(permutation_on(device, samples, 1, 2).cpu(), torch.from_numpy(permutation(samples, 1, 2)))
        calls = {
            "ours": lambda n=samples: permutation_on(device, n, 1, 2),
            "randperm": lambda n=samples: torch.randperm(n, device=device),
            "host": lambda n=samples: permutation(n, 1, 2),
        }
        rows.append({"samples": samples, "same_bits": same, **best(calls, device, 5)})
    return rows


def consume(batches: Iterable[Any]) -> None:
    for _ in range(EPOCHS):
        for _ in batches:
            pass


def measure_batches(device: torch.device, quick: bool) -> list[dict[str, Any]]:
    samples = 20_000 if quick else 200_000
    x, y = torch.randn(samples, WIDTH, device=device), torch.randint(10, (samples,), device=device)
    rows = []
    for size in (16, 64, 256, 1024, 4096, 16_384, 65_536):
        loader = data.loader((x, y), batch_size=size, device=device, tier="device")

        def by_hand(size: int = size) -> None:
            for _ in range(EPOCHS):
                order = torch.randperm(samples, device=device)
                for start in range(0, samples, size):
                    part = order[start : start + size]
                    _ = x[part], y[part]

        calls = {"loader": lambda batches=loader: consume(batches), "by hand": by_hand}
        took = best(calls, device, 2 if quick or size < 256 else 10)
        per_second = {name: EPOCHS * -(-samples // size) / seconds for name, seconds in took.items()}
        rows.append({"batch": size, **per_second, "ratio": took["loader"] / took["by hand"]})
    return rows


class RatedSource(ArrayDataset):
    """Rows in memory that are read by chunks, at a given rate over all readers."""

    def __init__(self, tree: Any, chunk_rows: int, rate: float) -> None:
        super().__init__(tree)
        self.chunk_rows, self._seconds, self._free = chunk_rows, chunk_rows * self.nbytes / len(self) / rate, 0.0

    def schema(self) -> Any:
        return self.fields

    def read(self, chunk: int) -> Any:
        self._free = max(self._free, time.perf_counter()) + self._seconds
        until = self._free
        part, _ = self.load(slice(chunk * self.chunk_rows, min(len(self), (chunk + 1) * self.chunk_rows)))
        time.sleep(max(0.0, until - time.perf_counter()))
        return part


def stall_of(loader: data.Loader, device: torch.device, step: float, epochs: int) -> dict[str, float]:
    """Of all epochs but the first, which loads."""
    waited = seconds = 0.0
    for epoch in range(epochs + 1):
        began = time.perf_counter()
        for _ in loader.epoch(epoch):
            if device.type == "cuda":
                torch.cuda._sleep(int(step * 1.7e9))  # cycles
                wait(device)
            else:
                time.sleep(step)
        if epoch:
            waited, seconds = waited + loader.stall.waited, seconds + time.perf_counter() - began
    return {"waited": waited, "seconds": seconds, "share": waited / seconds}


def measure_stall(device: torch.device, quick: bool) -> list[dict[str, Any]]:
    rows = []
    sizes = ((40_000, 256, 512), (2_000, 25_000, 64)) if quick else ((200_000, 256, 512), (20_000, 25_000, 64))
    for samples, width, size in sizes:
        table = torch.zeros(samples, width)
        batch_bytes, step = size * width * 4, 0.002 if width < 1000 else 0.01
        chunk_rows = max(1, 2**20 // (width * 4))
        case = {"samples": samples, "row_bytes": width * 4, "batch": size, "step_ms": 1000 * step}
        for tier in ("device", "pinned"):
            loader = data.loader(table, batch_size=size, device=device, tier=tier)
            rows.append({**case, "tier": tier, "rate_MBs": None, **stall_of(loader, device, step, 1)})
        for share in (1.2, 2.0):
            rate = share * batch_bytes / step
            source = RatedSource(table, chunk_rows, rate)
            loader = data.loader(source, batch_size=size, device=device, tier="window", window=samples // 8)
            measured = stall_of(loader, device, step, 1)
            rows.append({**case, "tier": f"window, source at {share} x", "rate_MBs": rate / 1e6, **measured})
    return rows


PARTS: dict[str, Callable[[torch.device, bool], list[dict[str, Any]]]] = {
    "permutation": measure_permutations,
    "batches": measure_batches,
    "stall": measure_stall,
}


def show(report: dict[str, Any]) -> str:
    text = f"{report['device']}, torch {report['torch']}, numpy {np.__version__}, {report['threads']} thread(s)"
    for row in report.get("permutation", ())[:1]:
        table = [
            (
                f"{row['samples']:,}",
                *(f"{1000 * row[name]:.2f}" for name in ("ours", "randperm", "host")),
                row["same_bits"],
            )
            for row in report["permutation"]
        ]
        text += "\n\nmilliseconds per permutation\n" + format_table(
            [tuple(map(str, line)) for line in table], ("samples", "ours", "torch.randperm", "on the host", "same bits")
        )
    if "batches" in report:
        table = [
            (f"{row['batch']:,}", f"{row['loader']:,.0f}", f"{row['by hand']:,.0f}", f"{row['ratio']:.2f}")
            for row in report["batches"]
        ]
        text += "\n\nbatches per second, all rows on the device\n" + format_table(
            table, ("batch", "loader", "by hand", "time / by hand's")
        )
    if "stall" in report:
        table = [
            (
                f"{row['samples']:,} x {format_bytes(row['row_bytes'])}",
                f"{row['batch']}",
                f"{row['step_ms']:g}",
                row["tier"],
                "" if row["rate_MBs"] is None else f"{row['rate_MBs']:,.0f}",
                f"{row['share']:.2%}",
            )
            for row in report["stall"]
        ]
        header = ("rows", "batch", "step, ms", "tier", "source, MB/s", "stall share")
        text += "\n\nwaiting for batches\n" + format_table(table, header)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = devices.resolve(options.device)
    report: dict[str, Any] = {
        "device": devices.model_name(device),
        "torch": torch.__version__,
        "threads": options.threads,
    }
    for part in options.only.split(","):
        if part not in PARTS:
            parser.error(f"--only has {part!r}; there are {', '.join(PARTS)}")
        report[part] = PARTS[part](device, options.quick)
    print(show(report))
    save(options.out, report, show(report))


if __name__ == "__main__":
    main()
