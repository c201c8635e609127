"""What `brimful.train` adds to a bare training step, with the data at hand.

    python benchmarks/train.py [--quick] [--out benchmarks/results/train.json]

Both train the same model on the same resident tensors with fused AdamW and gradient clipping. The bare loop is what a
skilled user writes: randperm, indexing, forward, backward, clip, step, and nothing else; it logs nothing, checks
nothing and keeps nothing. `train` runs with its defaults: norms, the check for what is not finite, the record of
losses, events. Its time is that of the steps of its epochs after the first. Rounds alternate; the best of each counts.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import Tensor, nn

import brimful
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices


def network(width: int, hidden: int, depth: int) -> nn.Module:
    torch.manual_seed(0)
    sizes = [width, *[hidden] * depth]
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def bare(model: nn.Module, x: Tensor, y: Tensor, size: int, epochs: int, half: bool) -> float:
    """Seconds per step of a loop by hand, without its first epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    device, parameters = x.device, list(model.parameters())
    started, steps = 0.0, 0
    for epoch in range(epochs):
        if epoch == 1:
            wait(device)
            started, steps = time.perf_counter(), 0
        order = torch.randperm(len(x), device=device)
        for start in range(0, len(x), size):
            part = order[start : start + size]
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                found = loss(model, (x[part], y[part]))
            found.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            optimizer.step()
            steps += 1
    wait(device)
    return (time.perf_counter() - started) / steps


def ours(model: nn.Module, x: Tensor, y: Tensor, size: int, epochs: int, half: bool) -> float:
    """Seconds per step of `train`, likewise; `seconds` of an epoch is the time of its steps."""
    result = brimful.train(
        model,
        loss,
        (x, y),
        epochs=epochs,
        batch_size=size,
        grad_clip=1.0,
        device=x.device,
        precision="bf16" if half else "float32",
        progress=False,
        best=False,
    )
    rest = result.history[1:]
    return sum(row["seconds"] for row in rest) / (rest[-1]["step"] - result.history[0]["step"])


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(case: dict[str, int], device: torch.device, rounds: int, epochs: int) -> dict[str, Any]:
    half = device.type == "cuda"
    x = torch.randn(case["samples"], case["width"], device=device)
    y = torch.randint(10, (case["samples"],), device=device)
    best: dict[str, float] = {}
    ways: dict[str, Callable[..., float]] = {"bare": bare, "train": ours}
    for _ in range(rounds):
        for name, way in ways.items():
            model = network(case["width"], case["hidden"], case["depth"]).to(device)
            took = way(model, x, y, case["batch"], epochs, half)
            best[name] = min(best.get(name, took), took)
    return {**case, "bare_us": best["bare"] * 1e6, "train_us": best["train"] * 1e6}


CASES = [
    {"samples": 16_384, "width": 32, "hidden": 32, "depth": 1, "batch": 64},
    {"samples": 16_384, "width": 64, "hidden": 256, "depth": 3, "batch": 256},
    {"samples": 16_384, "width": 256, "hidden": 1024, "depth": 4, "batch": 1024},
]


def show(report: dict[str, Any]) -> str:
    rows = []
    for case in report["cases"]:
        added = case["train_us"] - case["bare_us"]
        rows.append(
            (
                f"{case['depth']} x {case['hidden']}, batch {case['batch']}",
                f"{1e6 / case['bare_us']:,.0f}",
                f"{1e6 / case['train_us']:,.0f}",
                f"{case['bare_us']:,.0f} us",
                f"{case['train_us']:,.0f} us",
                f"{added:+,.0f} us ({added / case['bare_us']:+.1%})",
            )
        )
    header = ("model", "bare, steps/s", "train, steps/s", "bare", "train", "added a step")
    return f"{report['device']}, torch {report['torch']}, {report['threads']} thread(s)\n" + format_table(rows, header)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, small models only")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = devices.resolve(arguments.device)
    rounds, epochs = (2, 3) if arguments.quick else (5, 5)
    cases = CASES if device.type == "cuda" else CASES[:2]
    report = {
        "device": devices.model_name(device),
        "torch": torch.__version__,
        "threads": arguments.threads,
        "cases": [measure(case, device, rounds, epochs) for case in cases[: 2 if arguments.quick else None]],
    }
    print(show(report))
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
