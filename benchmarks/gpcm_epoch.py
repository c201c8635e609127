"""One epoch of Deep-GPCM on 5,000 students and 200 questions: `brimful.train` beside the loop over time of its peers.

    python benchmarks/gpcm_epoch.py [--quick] [--device cpu] [--out benchmarks/results/gpcm-epoch.json]

All contenders train the same model with the same loss and optimizer on the same batches of 64, resident on the device.
"step by step" computes embeddings, attention, read, heads and write at each step, as the published models do; it is
timed on some of the batches and scaled. "bare" is a hand-written loop around the parallel model, with every
batch at hand: what `train` adds to it is its overhead.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

import brimful
from brimful import data as loading
from brimful.core.base.formatting import format_bytes, format_seconds, format_table
from brimful.core.memory import devices
from brimful.gpcm.options import TrainConfig
from brimful.gpcm.training.datasets import load_dataset
from brimful.gpcm.training.fit import TrainingSetup, add_dropout_seeds, batch_loss, set_up, tensors
from saving import save

BATCH = 64


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def setup_for(name: str, device: torch.device) -> TrainingSetup:
    config = TrainConfig(dataset=name, epochs=3, batch_size=BATCH, device=str(device))
    return set_up(load_dataset(name, config), config)


def by_hand(ready: TrainingSetup, parallel: bool, device: torch.device, steps: int) -> tuple[float, int]:
    """Seconds per step of a hand-written loop, and the peak of its memory; one step does not count."""
    model = ready.model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    loader = loading.loader(
        tensors(ready.train), batch_size=BATCH, device=device, transform=add_dropout_seeds, pad=-1, tier="device"
    )  # fmt: skip
    batches = [batch for _, batch in zip(range(steps + 1), loader.epoch(0), strict=False)]
    loss = ready.loss.keywords["loss"]

    def step(batch: Any) -> None:
        optimizer.zero_grad()
        value = batch_loss(model, batch, loss=loss, parallel=parallel)
        value.mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    model.train()
    step(batches[-1])
    wait(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    begin = time.perf_counter()
    for batch in batches[:steps]:
        step(batch)
    wait(device)
    took = time.perf_counter() - begin
    return took / min(steps, len(batches)), torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def by_train(ready: TrainingSetup, device: torch.device, **more: Any) -> tuple[float, int]:
    """Seconds per epoch of `brimful.train`, without the first, without validation."""
    settings = ready.settings | {"monitor": "train_loss", "mode": "min", "ema": None, "epochs": 4} | more
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    result = brimful.train(
        ready.model, ready.loss, tensors(ready.train), device=device, progress=False, tier="device", **settings
    )
    seconds = min(row["seconds"] for row in result.history[1:])
    return seconds, torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def measure(name: str, device: torch.device, few: int) -> dict[str, Any]:
    steps = -(-len(setup_for(name, device).train) // BATCH)
    rows: list[dict[str, Any]] = []

    def add(what: str, run: Callable[[], tuple[float, int]], times: int) -> None:
        seconds, peak = run()
        rows.append({"contender": what, "epoch": seconds * times, "step": seconds * times / steps, "peak": peak})
        print(rows[-1], flush=True)

    add("step by step, as in peers", lambda: by_hand(setup_for(name, device), False, device, few), steps)
    add("parallel, bare", lambda: by_hand(setup_for(name, device), True, device, steps), steps)
    if device.type == "cpu":
        add("brimful.train", lambda: by_train(setup_for(name, device), device), 1)
    if device.type == "cuda":
        for half in ("bf16", "float32"):
            for graph in (False, True):
                what = f"brimful.train, {half}" + (", graph" if graph else "")
                add(what, lambda: by_train(setup_for(name, device), device, precision=half, graph=graph), 1)  # noqa: B023
    return {"data": name, "steps": steps, "rows": rows}


def show(report: dict[str, Any]) -> str:
    first = report["rows"][0]["epoch"]
    rows = [
        (row["contender"], format_seconds(row["epoch"]), format_seconds(row["step"]), f"{first / row['epoch']:.1f}x",
         format_bytes(row["peak"]) if row["peak"] else "-")
        for row in report["rows"]
    ]  # fmt: skip
    head = (
        f"{report['device']}, torch {report['torch']}, {report['threads']} threads; {report['data']}, batches of 64\n\n"
    )
    return head + format_table(rows, ("contender", "per epoch", "per step", "speedup", "peak"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few students, to see that it runs")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    name, few = ("synthetic_OC_300_40_4", 2) if options.quick else ("synthetic_OC_5000_200_4", 12)
    about = {"device": devices.model_name(device), "torch": torch.__version__, "threads": torch.get_num_threads()}
    report = about | measure(name, device, few)
    print(show(report))
    save(options.out, report, show(report))


if __name__ == "__main__":
    main()
