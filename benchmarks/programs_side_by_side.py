"""Equal operations of a batt in one call, beside each by itself: calls of torch and of compiled loops, and time.

    python benchmarks/programs_side_by_side.py [--sizes N ...] [--device cuda] [--out results.json]

What is counted is what a GPU would be asked to launch (operations of torch that only look at memory in another way are
left out; a kernel of ours counts as one), and how often the host waits for a number. Times are of evaluating a batch:
on a CPU processor time of one thread, on a GPU seconds; the least of so many rounds, both ways in turns.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from brimful import programs
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.programs.batched import compiled
from brimful.programs.batched.evaluation import side_by_side
from brimful.programs.batched.evaluation.executor import Batched
from programs_baseline import arguments, chosen, read_samples
from saving import save

_VIEWS = (
    "view",
    "slice",
    "select",
    "detach",
    "split",
    "alias",
    "unsqueeze",
    "expand",
    "squeeze",
    "unbind",
    "t.default",
)
_WAITS = ("aten._local_scalar_dense.default", "aten.nonzero.default")


class _Calls(TorchDispatchMode):
    """Counts the operations of torch while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name = Counter[str]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function)
        if not any(view in name for view in _VIEWS):
            self.by_name[name] += 1
        return function(*args, **(kwargs or {}))


def measured(executor: Batched, samples: list[Any], rounds: int) -> dict[str, Any]:
    """Both ways, in turns."""
    limits = {"side by side": side_by_side._NUMBERS, "each by itself": (0, 0)}
    found: dict[str, Any] = {}
    for name, limit in limits.items():
        side_by_side._NUMBERS = limit
        executor.evaluate(samples)
        with _Calls() as calls:
            executor.evaluate(samples)
        found[name] = {
            "calls": calls.by_name.total(),
            "waits": sum(calls.by_name[of] for of in _WAITS),
            "seconds": float("inf"),
        }
    for _ in range(rounds):
        for name, limit in limits.items():
            side_by_side._NUMBERS = limit
            found[name]["seconds"] = min(found[name]["seconds"], spent(executor, samples))
    side_by_side._NUMBERS = limits["side by side"]
    return found


def spent(executor: Batched, samples: list[Any]) -> float:
    on_gpu = executor.device.type != "cpu"
    clock = time.perf_counter if on_gpu else time.process_time
    started = clock()
    executor.evaluate(samples)
    if on_gpu:
        torch.cuda.synchronize(executor.device)
    return clock() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10, 100, 1_000])
    parser.add_argument("--operations", type=int, default=1620)
    parser.add_argument("--tasks", default="arcagi")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    torch.set_num_threads(1)
    device = devices.resolve(options.device)
    graph = programs.loads(programs.generate(options.operations, options.seed)).merge()
    executor, samples = Batched(graph, device=device), read_samples(options.tasks)
    report: dict[str, Any] = {"operations": graph.merged, "device": devices.model_name(device), "sizes": {}}
    lines = list[tuple[str, ...]]()
    for size in options.sizes:
        few = [arguments(sample) for sample in chosen(samples, size, options.seed)]
        found = report["sizes"][str(size)] = measured(executor, few, options.rounds)
        for name, of in found.items():
            lines.append((f"{size:,}", name, f"{of['calls']:,}", f"{of['waits']:,}", f"{of['seconds']:.2f} s"))
            print(*lines[-1], sep="  ", flush=True)
    loops = "compiled loops" if compiled.usable(torch.zeros(1, device=device)) else "kernels"
    text = f"A batt of {graph.merged:,} operations on {report['device']}, with {loops}, one thread"
    table = format_table(lines, ("samples", "equal operations", "calls of torch", "waits", "time"))
    save(options.out, report, f"{text}\n\n{table}")
    print(f"\n{text}\n\n{table}")


if __name__ == "__main__":
    main()
