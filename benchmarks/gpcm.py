"""What the memory of `gpcm` costs by each of its engines, beside the plain loop over time, on one device.

    python benchmarks/gpcm.py [--quick] [--sweep] [--device cpu] [--pykt FILE] [--out benchmarks/results/gpcm.json]

With the path of pyKT's pykt/models/dkvmn.py, its DKVMN is measured too: the whole model, which has the same recurrence.

Times are medians, of a forward pass alone (without gradients) and of a forward and a backward pass. The floor is what a
forward pass would have to move if each step had rows of its own.
"""

import argparse
import gc
import importlib.util
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import psutil
import torch
from torch import Tensor

from brimful.core.base.formatting import format_bytes, format_seconds, format_table
from brimful.core.memory import devices
from brimful.gpcm.model import memory, memory_numba
from brimful.gpcm.model.memory_scan import chunk
from saving import save

Size = tuple[int, int, int, int]
SIZES = ((64, 100, 50, 200), (64, 500, 50, 200), (512, 200, 50, 200), (64, 200, 50, 128), (2, 8000, 50, 200))
QUICK = ((64, 200, 50, 128),)
QUESTIONS, CATEGORIES = 200, 4


def case(B: int, S: int, N: int, D: int, device: torch.device) -> tuple[list[Tensor], list[Tensor]]:
    """Tables with the start, and steps."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    rows = QUESTIONS * CATEGORIES
    tables = [normal(QUESTIONS, N).softmax(1), normal(rows, D).sigmoid(), normal(rows, D).tanh(), normal(1, N, D)]
    question_BS = torch.randint(QUESTIONS, (B, S), generator=generator)
    row_BS = question_BS * CATEGORIES + torch.randint(CATEGORIES, (B, S), generator=generator)
    steps = [question_BS, row_BS, torch.full((B,), S)]
    return [each.to(device).requires_grad_() for each in tables], [each.to(device) for each in steps]


def peak_bytes(engine: str, B: int, S: int, N: int, D: int, *, tile: int = 32, steps: int = 16) -> int:
    """Bytes that a forward and a backward pass hold at their peak in float32, the reads and their gradient included,
    the tables and theirs not; `tile` and `steps` are those of the fused kernels."""
    if engine == "native":
        tile, steps = memory_numba.TILE, memory_numba.STEPS
    one, tiles, segments = B * N * D, -(-D // tile), max(0, -(-S // steps) - 1)
    reads, gradients = 2 * B * S * D, B * S * (tiles * N + 2 * D) + one
    length = chunk(B, S, N, D)
    numbers = {
        # Of each step the memory, the gate and the gathered rows; in the backward pass, four gradients of that size.
        "loop": 2 * S * one + 4 * one + B * S * (N + 2 * D),
        "scan": -(-S // length) * one + 4 * B * length * N * D + B * S * (N + 3 * D),
        "native": gradients + segments * B * tiles * (-(-N // 4) * 4) * tile,
        "fused": gradients + segments * one + min(B * tiles, 1056) * (steps - 1) * N * tile,
    }
    return 4 * (reads + numbers[engine])


def floor_bytes(B: int, S: int, N: int, D: int) -> int:
    """Bytes that a forward pass must move where each step has rows of its own: it reads w, e and a, and writes r."""
    return 4 * B * S * (N + 3 * D)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(work: Callable[[], Any], device: torch.device, seconds: float) -> float:
    """The median time, over at least three runs after one that does not count."""
    work()
    wait(device)
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < seconds and len(taken) < 200):
        started = time.perf_counter()
        work()
        wait(device)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def measure(
    engine: Callable[..., tuple[Tensor, Tensor]],
    given,
    device: torch.device,
    seconds: float,
    grad: Tensor | None = None,
) -> dict:
    tables, steps = given
    grad_BSD = torch.ones(*steps[0].shape, tables[1].shape[1], device=device) if grad is None else grad

    def forward() -> None:
        with torch.no_grad():
            engine(*tables, *steps)

    def both() -> None:
        torch.autograd.grad(engine(*tables, *steps)[0], tables, grad_BSD)

    row: dict[str, Any] = {"forward": timed(forward, device, seconds), "both": timed(both, device, seconds)}
    if device.type == "cuda":
        gc.collect()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device) - grad_BSD.nbytes
        both()
        wait(device)
        row["peak"] = torch.cuda.max_memory_allocated(device) - before
    return row


def pykt(path: Path, size: Size, device: torch.device, seconds: float) -> dict:
    """The whole of pyKT's DKVMN, two categories."""
    spec = importlib.util.spec_from_file_location("pykt_dkvmn", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    B, S, N, D = size
    model = module.DKVMN(QUESTIONS, D, N, dropout=0.0).to(device)
    question_BS = torch.randint(QUESTIONS, (B, S), generator=torch.Generator().manual_seed(0)).to(device)
    right_BS = question_BS % 2

    def engine(*_: Any) -> tuple[Tensor, Tensor]:
        found_BS = model(question_BS, right_BS)
        return found_BS, found_BS

    given = [*model.parameters()], [question_BS]
    return measure(engine, given, device, seconds, torch.ones(B, S, device=device))


def engines(device: torch.device, sizes: Sequence[Size], seconds: float, peer: Path | None) -> list[dict]:
    names = ("loop", "scan", "fused") if device.type == "cuda" else ("loop", "scan", "native")
    room = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    report = []
    for size in sizes:
        given, plain = case(*size, device), None
        for name in names:
            predicted = peak_bytes(name, *size)
            if predicted > 0.6 * room:
                print(f"{name} at {size} left out: it would need {format_bytes(predicted)}", flush=True)
                continue
            row = measure(memory.find_engine(name, device), given, device, seconds)
            plain = row["both"] if name == "loop" else plain
            times = plain / row["both"] if plain else None
            row |= {"size": size, "engine": name, "predicted": predicted, "floor": floor_bytes(*size)}
            report.append(row | {"times": times})
            print(report[-1], flush=True)
        predicted = 3 * size[0] * size[1] * size[2] * size[3] * 4
        if peer is not None and predicted < 0.6 * room:
            row = pykt(peer, size, device, seconds)
            row |= {"size": size, "engine": "pyKT's DKVMN, whole", "predicted": predicted, "floor": 0, "times": None}
            report.append(row | {"times": plain / row["both"] if plain else None})
            print(report[-1], flush=True)
    return report


def sweep(device: torch.device, size: Size, seconds: float) -> list[dict]:
    """The fused kernels, cut in all sensible ways; the fastest first."""
    from brimful.gpcm.model.memory_triton import MemoryLaunch, fused

    given, report = case(*size, device), []
    slots = 1 << (size[2] - 1).bit_length()
    for tile, warps, steps in itertools.product((8, 16, 32, 64), (1, 2, 4, 8), (8, 16, 32)):
        if not 4 <= slots * tile // (32 * warps) <= 64:
            continue
        launch = MemoryLaunch(tile=tile, warps=warps, steps=steps)
        row = measure(lambda *a, launch=launch: fused(*a, launch=launch), given, device, seconds)
        report.append({"size": size, "tile": tile, "warps": warps, "steps": steps} | row)
        print(report[-1], flush=True)
    return sorted(report, key=lambda row: row["both"])


def show(report: dict) -> str:
    def peak(row: dict) -> str:
        return format_bytes(row["peak"]) if "peak" in row else "-"

    rows = [
        (
            " x ".join(map(str, row["size"])),
            row["engine"],
            format_seconds(row["forward"]),
            format_seconds(row["both"]),
            f"{row['times']:.1f}x" if row["times"] else "-",
            peak(row),
            format_bytes(row["predicted"]),
            format_bytes(row["floor"]) if row["floor"] else "",
            f"{row['floor'] / row['forward'] / 1e9:,.0f} GB/s" if row["floor"] else "",
        )
        for row in report["engines"]
    ]
    header = (
        "students x steps x slots x values", "engine", "forward", "and backward", "loop's", "peak", "predicted",
        "floor", "floor's rate",
    )  # fmt: skip
    text = f"{report['device']}, torch {report['torch']}, {report['threads']} threads\n\n" + format_table(rows, header)
    if report["sweep"]:
        lines = [
            (
                *(str(row[key]) for key in ("tile", "warps", "steps")),
                *(format_seconds(row[key]) for key in ("forward", "both")),
                peak(row),
            )
            for row in report["sweep"]
        ]
        size = " x ".join(map(str, report["sweep"][0]["size"]))
        text += f"\n\nfused at {size}, cut in other ways\n\n"
        text += format_table(lines, ("tile", "warps", "steps", "forward", "and backward", "peak"))
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sweep", action="store_true", help="the fused kernels with other tiles, warps and steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pykt", type=Path, help="pyKT's pykt/models/dkvmn.py, to measure beside")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    seconds = 0.3 if options.quick else 1.0
    report = {
        "device": devices.model_name(device),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "engines": engines(device, QUICK if options.quick else SIZES, seconds, options.pykt),
        "sweep": sweep(device, SIZES[1], 0.2) if options.sweep else [],
    }
    print(show(report))
    save(options.out, report, show(report))


if __name__ == "__main__":
    main()
