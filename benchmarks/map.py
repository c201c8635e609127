"""What `brimful.map` costs and gives, beside a bare loop and Accelerate's batch-size finder, on one device.

    python benchmarks/map.py [--quick] [--out benchmarks/results/map.json]

The function is the marginal likelihood of a Gaussian process (an RBF matrix, a Cholesky factor, a solve), batched
over tasks of 48 points with inputs of their own, from host arrays to host results. A smaller card is stood in for by
the allocator's per-process limit, for every contender alike.
"""

import argparse
import gc
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
os.environ["BRIMFUL_CACHE_DIR"] = tempfile.mkdtemp()

import torch

import brimful
from brimful.core.base.formatting import format_bytes, format_seconds, format_table
from brimful.core.memory import devices
from brimful.core.runs.events import BatchDone, Warned
from saving import save

POINTS = 48


def likelihood(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    x_TN, y_TN = batch["x"], batch["y"]
    K_TNN = torch.exp(-0.5 * (x_TN[:, :, None] - x_TN[:, None, :]) ** 2)
    K_TNN.diagonal(dim1=1, dim2=2).add_(0.1)
    L_TNN = torch.linalg.cholesky(K_TNN)
    alpha_TN = torch.cholesky_solve(y_TN[:, :, None], L_TNN)[:, :, 0]
    logdet_T = L_TNN.diagonal(dim1=1, dim2=2).log().sum(1)
    return {"nlml": 0.5 * (y_TN * alpha_TN).sum(1) + logdet_T, "alpha": alpha_TN}


def tasks(count: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, POINTS, generator=generator) * 10
    return {"x": x, "y": torch.sin(x) + 0.3 * torch.randn(count, POINTS, generator=generator)}


class Limit:
    """The stand-in for a smaller card."""

    def __init__(self, bytes: int | None) -> None:
        self.bytes = bytes

    def __enter__(self) -> None:
        fresh()
        if self.bytes:
            torch.cuda.set_per_process_memory_fraction(self.bytes / torch.cuda.mem_get_info()[1])

    def __exit__(self, *error: object) -> None:
        torch.cuda.set_per_process_memory_fraction(1.0)


def fresh() -> None:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def bare_loop(data, batch: int, device, worked=None):
    """What one writes by hand, with the batch size given."""
    count = len(data["x"])
    out = {"nlml": torch.empty(count), "alpha": torch.empty(count, POINTS)}
    for start in range(0, count, batch):
        part = {name: tensor[start : start + batch].to(device) for name, tensor in data.items()}
        for name, tensor in likelihood(part).items():
            out[name][start : start + batch] = tensor.cpu()
        if worked is not None:
            worked.append(min(batch, count - start))
    return out


def timed(run):
    fresh()
    torch.cuda.synchronize()
    started = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    return time.perf_counter() - started, result


def hand_tuned(data, limit: int, device) -> tuple[int, float, list]:
    """The best batch size that fits, by trying powers of two over all the data."""
    rows = []
    with Limit(limit):
        size = 8192
        while size <= len(data["x"]) * 2:
            try:
                seconds = timed(lambda size=size: bare_loop(data, size, device))[0]
                rows.append((size, seconds))
            except torch.OutOfMemoryError:
                break
            size *= 2
        best = min(rows, key=lambda row: row[1])[0]
        seconds = min(timed(lambda: bare_loop(data, best, device))[0] for _ in range(2))
    return best, min(seconds, min(row[1] for row in rows)), rows


def budgets(data, device, sizes) -> list[dict]:
    report = []
    for size in sizes:
        limit = int(size * 1e9)
        best, seconds, sweep = hand_tuned(data, limit, device)
        auto = []
        for _ in range(2):
            fresh()
            auto.append(brimful.map(likelihood, data, budget=limit, device=device, progress=False))
        again = min(auto, key=lambda result: result.seconds)
        fixed = min(
            (
                brimful.map(likelihood, data, budget=limit, device=device, batch_size=best, progress=False)
                for _ in range(2)
            ),
            key=lambda result: result.seconds,
        )
        reference = bare_loop(data, best, device)
        values: Any = fixed.values
        error = (values["nlml"] - reference["nlml"]).abs().max().item()
        report.append(
            {
                "budget": limit,
                "hand_batch": best,
                "hand_seconds": seconds,
                "hand_sweep": sweep,
                "first_seconds": auto[0].seconds,
                "auto_seconds": again.seconds,
                "auto_batch": again.plan.batch,
                "predicted": auto[0].predicted,
                "observed": auto[0].observed,
                "fixed_seconds": fixed.seconds,
                "difference": error,
            }
        )
        print(report[-1], flush=True)
    return report


def _grab(leave: int, wait: float | None, hold: float, ready, go) -> None:
    torch.ones(1, device="cuda")

    def take() -> torch.Tensor:
        return torch.empty(max(0, torch.cuda.mem_get_info()[0] - leave), dtype=torch.uint8, device="cuda")

    block = take() if wait is None else None
    ready.set()
    go.wait()
    if wait is not None:
        time.sleep(wait)
        block = take()
    time.sleep(hold)
    del block


def with_neighbor(run, leave: int, wait: float | None, hold: float):
    """Runs while another process takes the card's memory, all but `leave` bytes, for a while: from `wait` seconds
    after the start, or before it."""
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    fresh()
    process = context.Process(target=_grab, args=(leave, wait, hold, ready, go))
    process.start()
    ready.wait()
    try:
        go.set()
        started = time.perf_counter()
        outcome = run()
        return time.perf_counter() - started, outcome
    finally:
        process.join()


LEAVE, HOLD = int(1e9), 1.5
CASES = (("alone", None), ("early", 0.1), ("before", None))


def peers(data, device, limit: int) -> list[dict]:
    from accelerate.utils import find_executable_batch_size  # pyright: ignore[reportMissingImports]

    count = len(data["x"])
    rows = []

    def contender(name: str, run) -> None:
        row = {"name": name}
        with Limit(limit):
            for label, wait in CASES:
                worked: list[int] = []
                call = lambda worked=worked: run(worked)  # noqa: E731
                try:
                    seconds, _ = timed(call) if label == "alone" else with_neighbor(call, LEAVE, wait, HOLD)
                    row |= {label: seconds, f"{label}_redone": sum(worked) / count - 1}
                except RuntimeError as error:  # a library's own allocation fails with another error than torch's
                    if "out of memory" not in str(error):
                        raise
                    row |= {label: None, f"{label}_redone": None}
                fresh()
        rows.append(row)
        print(row, flush=True)

    def by_brimful(worked: list[int]) -> None:
        warned: list[str] = []

        def listen(event) -> None:
            if isinstance(event, BatchDone):
                worked.append(event.items)
            elif isinstance(event, Warned):
                warned.append(event.message)

        result = brimful.map(likelihood, data, budget=limit, device=device, progress=listen)
        print("   ", result, "; ".join(warned[:4]), flush=True)

    def by_accelerate(start: int):
        def call(worked: list[int]) -> None:
            @find_executable_batch_size(starting_batch_size=start)
            def run(batch_size: int):
                return bare_loop(data, batch_size, device, worked)

            run()  # pyright: ignore[reportCallIssue]

        return call

    contender("brimful.map, nothing known", by_brimful)
    contender("accelerate finder from 1,048,576", by_accelerate(1_048_576))
    contender("accelerate finder from 262,144", by_accelerate(262_144))
    contender("bare loop, guessed 4,096", lambda worked: bare_loop(data, 4096, device, worked))
    contender("bare loop, guessed 262,144", lambda worked: bare_loop(data, 262_144, device, worked))
    return rows


class FailingItems:
    """The likelihood, after some rounds of work, of tasks of which those whose first target is infinite raise."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if torch.isinf(batch["y"][:, 0]).any():
            raise ValueError("a task with an infinite target")
        for _ in range(self.rounds - 1):
            likelihood(batch)
        return likelihood(batch)


def failing_items(device, count: int, rounds: int, batches: int = 16, repeats: int = 5) -> dict:
    """Two raising items in different batches, beside the same map without them: the medians of several runs."""
    good = tasks(count)
    bad = {name: tensor.clone() for name, tensor in good.items()}
    bad["y"][[count // 4, 3 * count // 4], 0] = torch.inf
    size, fn = -(-count // batches), FailingItems(rounds)
    seconds: dict[str, list[float]] = {"good": [], "bad": []}
    for repeat in range(repeats + 1):  # the first is not counted
        for name, data in (("good", good), ("bad", bad)):
            result = brimful.map(fn, data, device=device, batch_size=size, progress=False)
            if int((~result.ok).sum()) != (2 if name == "bad" else 0):
                raise RuntimeError(f"{int((~result.ok).sum())} items were flagged of the {name} data")
            if repeat:
                seconds[name].append(result.seconds)
    good_seconds, bad_seconds = (sorted(values)[len(values) // 2] for values in seconds.values())
    return {
        "items": count,
        "batches": batches,
        "rounds": rounds,
        "good_seconds": good_seconds,
        "bad_seconds": bad_seconds,
        "ratio": bad_seconds / good_seconds,
    }


def show(report: dict) -> str:
    rows = []
    for each in report["budgets"]:
        rows.append(
            (
                format_bytes(each["budget"]),
                f"{each['hand_batch']:,}",
                format_seconds(each["hand_seconds"]),
                format_seconds(each["first_seconds"]),
                format_seconds(each["auto_seconds"]),
                f"{each['hand_seconds'] / each['first_seconds']:.0%}",
                f"{each['fixed_seconds'] / each['hand_seconds'] - 1:+.1%}",
                format_bytes(each["predicted"]),
                format_bytes(each["observed"]),
                f"{each['predicted'] / each['observed'] - 1:+.1%}",
            )
        )
    header = (
        "budget", "hand batch", "hand", "map, first", "map, again", "first/hand", "overhead", "predicted", "observed",
        "off",
    )  # fmt: skip
    text = f"{report['device']}, {report['tasks']:,} tasks of {POINTS} points\n\n" + format_table(rows, header)
    failing = report["failing"]
    text += (
        f"\n\ntwo raising items of {failing['items']:,}, in different ones of {failing['batches']} batches: "
        f"{format_seconds(failing['bad_seconds'])}, without them {format_seconds(failing['good_seconds'])} "
        f"({failing['ratio']:.2f}x)"
    )
    if report["peers"]:
        keys = ["name"] + [key for label, _ in CASES for key in (label, f"{label}_redone")]

        def cell(row: dict, key: str) -> str:
            if key == "name" or row[key] is None:
                return row[key] or "died"
            return f"{row[key]:.0%}" if key.endswith("redone") else format_seconds(row[key])

        text += (
            f"\n\nunder {format_bytes(report['peer_limit'])}; 'early': another process takes all but "
            f"{format_bytes(LEAVE)} of the card 0.1 s after the start, for {HOLD} s; "
            f"'before': it has done so already\n\n"
        )
        lines = [tuple(cell(row, key) for key in keys) for row in report["peers"]]
        text += format_table(lines, ("contender", "alone", "redone", "early", "redone", "before", "redone"))
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tasks", type=int, default=8_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device")
    device = torch.device("cuda", 0)
    count = 200_000 if options.quick else options.tasks
    data = tasks(count)
    likelihood({name: tensor[:64].to(device) for name, tensor in data.items()})
    limit = int(24e9)
    report = {
        "device": devices.model_name(device),
        "torch": torch.__version__,
        "tasks": count,
        "budgets": budgets(data, device, (1,) if options.quick else (1, 4, 8, 24)),
        # About 0.25 s of work on an H200; "good_seconds" says how much it was.
        "failing": failing_items(device, count=200_000, rounds=2 if options.quick else 20),
        "peer_limit": limit,
        "peers": [] if options.quick else peers(data, device, limit),
    }
    print(show(report))
    save(options.out, report, show(report))


if __name__ == "__main__":
    main()
