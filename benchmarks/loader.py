"""Batches per second of `brimful.data.loader` in both tiers, beside torch's DataLoader on the same tensors.

    python benchmarks/loader.py [--quick] [--out benchmarks/results/loader.json]

Every contender shuffles, brings each batch to the device and, on CUDA, waits for the device once, at the end of the
epoch. DataLoader runs over a TensorDataset in the usual form (one sample a call, then collated), in the form a skilled
user writes (lists of indices through a BatchSampler, no collating, pinned memory on CUDA), and with worker processes;
"by hand" is torch.randperm and indexing, on the device. The best of some rounds, each over all contenders in turn.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from brimful import data
from brimful.core.base.formatting import format_bytes, format_table
from brimful.core.memory import devices
from saving import save

Epoch = Callable[[], Iterable[Any]]


def contenders(x: torch.Tensor, y: torch.Tensor, size: int, device: torch.device, folder: Path) -> dict[str, Epoch]:
    dataset = TensorDataset(x, y)
    cuda = device.type == "cuda"
    here = {"x": x.to(device), "y": y.to(device)}
    np.save(folder / "x.npy", x.numpy())

    def moved(batches: Iterable[Any]) -> Iterable[Any]:
        for batch in batches:
            yield tuple(part.to(device, non_blocking=True) for part in batch)

    def indexed(workers: int) -> DataLoader:
        sampler = BatchSampler(RandomSampler(dataset), size, drop_last=False)
        options: Any = {"num_workers": workers, "persistent_workers": workers > 0, "pin_memory": cuda}
        return DataLoader(dataset, sampler=sampler, batch_size=None, **options)

    def by_hand() -> Iterable[Any]:
        order = torch.randperm(len(x), device=device)
        for start in range(0, len(x), size):
            part = order[start : start + size]
            yield here["x"][part], here["y"][part]

    usual = DataLoader(dataset, batch_size=size, shuffle=True, pin_memory=cuda)
    skilled, workers = indexed(0), indexed(2)
    resident = data.loader((x, y), batch_size=size, device=device, tier="device")
    pinned = data.loader((x, y), batch_size=size, device=device, tier="pinned")
    mapped = data.loader(folder / "x.npy", batch_size=size, device=device, tier="pinned")
    return {
        "loader, device tier": lambda: resident,
        "loader, pinned tier": lambda: pinned,
        "loader, pinned tier, from a .npy file (x alone)": lambda: mapped,
        "by hand: randperm and indexing": by_hand,
        "DataLoader, lists of indices": lambda: moved(skilled),
        "DataLoader, lists of indices, 2 workers": lambda: moved(workers),
        "DataLoader, as usual": lambda: moved(usual),
    }


def seconds(epoch: Epoch, device: torch.device, step: Callable[[Any], Any], most: float) -> tuple[float, int]:
    """Seconds and batches of an epoch, or of as much of it as fits into `most` seconds."""
    started, count = time.perf_counter(), 0
    for batch in epoch():
        step(batch)
        count += 1
        if time.perf_counter() - started > most:
            break
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started, count


def measure(samples: int, width: int, size: int, device: torch.device, rounds: int, most: float) -> list[dict]:
    x, y = torch.randn(samples, width), torch.randint(10, (samples,))
    weight = torch.randn(width, 64, device=device)

    def use(batch: Any) -> Any:
        return (batch[0] if isinstance(batch, tuple) else batch) @ weight

    works = {"nothing": lambda batch: None, "a product": use}
    best: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for work, step in works.items():
            everyone = contenders(x, y, size, device, Path(folder))
            for epoch in everyone.values():
                seconds(epoch, device, step, 0.2)  # loads, compiles, starts the workers
            for _ in range(rounds):
                for name, epoch in everyone.items():
                    took, count = seconds(epoch, device, step, most)
                    best[name, work] = max(best.get((name, work), 0.0), count / took)
            del everyone
    names = dict.fromkeys(name for name, _ in best)
    return [
        {"samples": samples, "width": width, "batch": size, "name": name, **{work: best[name, work] for work in works}}
        for name in names
    ]


def show(report: dict) -> str:
    text = f"{report['device']}, torch {report['torch']}, {report['threads']} thread(s); batches per second"
    for case in report["cases"]:
        first = case[0]
        bytes = first["samples"] * first["width"] * 4
        header = (f"{first['samples']:,} rows of {first['width']}, batch {first['batch']:,}", "alone", "with a product")
        rows = [(each["name"], f"{each['nothing']:,.0f}", f"{each['a product']:,.0f}") for each in case]
        text += f"\n\n{format_bytes(bytes)}\n" + format_table(rows, header)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="of torch; more than are free measures the machine")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = devices.resolve(options.device)
    cases = [(20_000, 64, 256)] if options.quick else [(200_000, 64, 256), (200_000, 64, 4096), (20_000, 3072, 256)]
    rounds, most = (1, 0.5) if options.quick else (4, 1.0)
    report = {
        "device": devices.model_name(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cases": [measure(*case, device, rounds, most) for case in cases],
    }
    print(show(report))
    save(options.out, report, show(report))


if __name__ == "__main__":
    main()
