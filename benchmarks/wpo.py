"""The cost of score models over many centers by `fold` with fused triangles, and of the materialized computation.

    python benchmarks/wpo.py [--quick] [--part steps] [--device cpu] [--out benchmarks/results/wpo.json]

"factors": loss and gradient with respect to the factors of all K centers, which are given. The materialized computation
forms P = L L^T of every center and lets autograd keep what it needs, as the public reference does. Its formula is the
right one (the reference's is not, see docs/wpo.md), so that both give the same number, and it is spared the determinant
of P, which it may take from L. Memory is the peak less the factors and their gradient.

"products": the triangular products alone, as shares of the card's peak, beside a dense product of the same shape.

"steps": whole optimizer steps with the network that makes the factors, by `wpo.train`, under a budget that all is in.
The peak is that of training; what comes after it, scores and draws, fills the budget with larger chunks.

"derivatives": the memory of the first derivative of a fold in chunks, and of its second (the gradient of a squared
gradient), for three terms and two numbers of components: bytes of live tensors, on either kind of device.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch
from torch import Tensor

import brimful
from brimful import wpo
from brimful.core.base.formatting import format_bytes, format_seconds, format_table
from brimful.core.memory import devices
from brimful.core.memory.probe import peak_bytes
from brimful.wpo.model import packed_triangle
from brimful.wpo.model.triangular import TriangleProducts
from saving import save

FACTORS = ((100, 3072, 128), (500, 3072, 128), (1000, 784, 128))
STEPS = ((1000, 3072, 64, "8GB"), (5000, 3072, 64, "24GB"), (20_000, 784, 128, "8GB"))
QUICK = ((6, 96, 16),), ((40, 48, 16, "1GB"),)
CHUNK = 24 * packed_triangle.size(3072)  # numbers of a chunk
COMPARED = 8  # centers whose gradients are compared
PEAK = {"NVIDIA H200": (67e12, 494e12)}  # FLOP/s in single precision, and in TF32, by the data sheet


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(work: Callable[[], Any], device: torch.device, times: int) -> tuple[float, int]:
    """The median seconds after a run that does not count, and the peak of the bytes in use beyond those before."""
    work()
    wait(device)
    gc.collect()
    before = 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        wait(device)
        taken.append(time.perf_counter() - started)
    peak = torch.cuda.max_memory_allocated(device) - before if device.type == "cuda" else 0
    return statistics.median(taken), peak


def case(K: int, d: int, B: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Centers, packed factors and samples."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    packed_KP = normal(K, packed_triangle.size(d)).mul_(0.3 / d**0.5)
    packed_KP[:, packed_triangle.diagonal_indices(d, device)] += 1
    return normal(K, d), packed_KP, normal(B, d)


def materialized(c_Kd: Tensor, L_Kdd: Tensor, x_Bd: Tensor) -> Tensor:
    """Every precision formed."""
    P_Kdd = L_Kdd @ L_Kdd.mT
    r_KBd = x_Bd - c_Kd[:, None]
    u_KBd = r_KBd @ P_Kdd
    half_logdet_K = L_Kdd.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    w_KB = (half_logdet_K[:, None] - 0.5 * (r_KBd * u_KBd).sum(-1)).softmax(0)
    s_Bd = -(w_KB[..., None] * u_KBd).sum(0)
    trace_K = P_Kdd.diagonal(dim1=-2, dim2=-1).sum(-1)
    A_B = (w_KB * (u_KBd.square().sum(-1) - trace_K[:, None])).sum(0)
    return (2 * A_B - s_Bd.square().sum(-1)).mean()


class TriangleTerm:
    """The term of given triangles, for `fold`: centers and triangles are its components."""

    def __call__(self, chunk: tuple[Tensor, Tensor], x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        return TriangleProducts.compute(chunk[1], x_Bd - chunk[0][:, None]).outputs()

    def parameters(self) -> list[Tensor]:
        return []

    def vjp(self, chunk: tuple[Tensor, Tensor], x_Bd: Tensor, grads: dict[Tensor, Tensor]) -> Any:
        products = TriangleProducts.compute(chunk[1], x_Bd - chunk[0][:, None])

        def vjp_fn(grad_logit_Bk: Tensor, grad_value_BkV: Tensor) -> Any:
            return (None, products.vjp(grad_logit_Bk, grad_value_BkV, False)[0]), None

        return *products.outputs(), vjp_fn


def folded(c_Kd: Tensor, packed_KP: Tensor, x_Bd: Tensor) -> Tensor:
    chunk = max(1, CHUNK // packed_KP.shape[1])
    _, mean_BV = brimful.fold(TriangleTerm(), (c_Kd, packed_KP), x_Bd, chunk_size=chunk, strategy="chunked")
    return (2 * mean_BV[:, -1] - mean_BV[:, :-1].square().sum(-1)).mean()


def factors(K: int, d: int, B: int, device: torch.device) -> dict[str, Any]:
    c_Kd, packed_KP, x_Bd = case(K, d, B, device)
    row: dict[str, Any] = {"K": K, "d": d, "B": B}
    packed_KP.requires_grad_()
    ours = torch.zeros(())

    def fused() -> None:
        nonlocal ours
        packed_KP.grad = None
        ours = folded(c_Kd, packed_KP, x_Bd)
        ours.backward()

    row["fused"], row["fused_peak"] = timed(fused, device, 5)
    assert packed_KP.grad is not None
    gradient, row["fused_loss"] = packed_KP.grad[:COMPARED].clone(), ours.item()
    packed_KP.grad, ours = None, torch.zeros(())
    L_Kdd = packed_KP.new_zeros(K, d, d)
    for k in range(K):
        L_Kdd[k] = packed_triangle.unpack(packed_KP[k : k + 1].detach(), d)[0]
    del packed_KP
    L_Kdd.requires_grad_()
    theirs = torch.zeros(())

    def plain() -> None:
        nonlocal theirs
        L_Kdd.grad = None
        theirs = materialized(c_Kd, L_Kdd, x_Bd)
        theirs.backward()

    try:
        row["plain"], row["plain_peak"] = timed(plain, device, 3)
    except torch.OutOfMemoryError:
        row["plain"] = None
        return row
    assert L_Kdd.grad is not None
    row["plain_loss"] = theirs.item()
    rows, columns = torch.tril_indices(d, d)
    wanted = L_Kdd.grad[:COMPARED, rows, columns]
    row["gap"] = float((gradient - wanted).norm() / wanted.norm())
    row["times"] = row["plain"] / row["fused"]
    return row


def products(device: torch.device, K: int, d: int, B: int) -> list[dict[str, Any]]:
    c_Kd, packed_KP, x_Bd = case(K, d, B, device)
    v_KBd = (x_Bd - c_Kd[:, None]).contiguous()
    half = K * B * d * (d + 1)  # of a triangular product
    dense_Kdd = torch.randn(K, d, d, device=device)
    ones = torch.ones(K, device=device)
    ways: dict[str, tuple[Callable[[], Any], int, int]] = {
        "dense, L v": (lambda: v_KBd @ dense_Kdd.mT, half, 2 * half),
        "L v": (lambda: packed_triangle.product(packed_KP, v_KBd), half, half),
        "L^T v": (lambda: packed_triangle.product(packed_KP, v_KBd, transposed=True), half, half),
        "dense, sum of v w^T": (lambda: v_KBd.mT @ v_KBd, half, 2 * half),
        "sum of v w^T, two pairs": (
            lambda: packed_triangle.outer_(packed_KP, ones, [(v_KBd, v_KBd), (v_KBd, v_KBd)]), 2 * half, 2 * half,
        ),
    }  # fmt: skip
    rows = []
    for name, (work, useful, done) in ways.items():
        seconds, _ = timed(work, device, 20)
        rows.append({"product": name, "seconds": seconds, "useful": useful / seconds, "done": done / seconds})
    return rows


def steps(K: int, d: int, B: int, budget: str, device: torch.device, count: int) -> dict[str, Any]:
    """Optimizer steps of a model of random centers: what is learned does not matter here, and time does not depend on
    it."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(K + 3 * B, d, generator=generator)
    model = wpo.ScoreModel(rows[:K])
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    found = wpo.train(
        model,
        rows[K : K + 2 * B],
        held_out=rows[K + 2 * B :],
        steps=count,
        batch_size=B,
        budget=budget,
        device=device,
        ema_span=0,
        progress=False,
        best=False,
    )
    reserved = torch.cuda.max_memory_reserved(device) if device.type == "cuda" else found.observed
    seconds = min(row["seconds"] / 2 for row in found.history[1:])
    plan = found.plan
    return {
        "K": K, "d": d, "B": B, "budget": budget, "strategy": plan.strategy, "chunk": plan.batch, "step": seconds,
        "parameters": sum(each.numel() for each in model.parameters()), "predicted": plan.predicted,
        "observed": found.observed, "reserved": reserved,
    }  # fmt: skip


def derivatives(device: torch.device, components: int, samples: int = 64, chunk: int = 500, d: int = 16) -> list[dict]:
    """Peak bytes of the first and of the second derivative of a fold over components that are points."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(d, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1 + d)).to(device)

    def gaussian(part: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        difference = x[:, None] - part
        return -0.5 * difference.square().sum(-1), difference

    def exponential(part: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        decay = torch.exp(-(x[:, None] - part).abs())
        return decay.sum(-1), decay * x[:, None]

    def network(part: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        output = net(x[:, None] - part)
        return output[..., 0], output[..., 1:]

    rows = []
    for term in (gaussian, exponential, network):
        centers = torch.randn(components, d, device=device, requires_grad=True)
        x = torch.randn(samples, d, device=device, requires_grad=True)

        def differentiate(twice: bool, term: Any = term, centers: Tensor = centers, x: Tensor = x) -> None:
            lse, mean = brimful.fold(term, centers, x, chunk_size=chunk)
            (gradient,) = torch.autograd.grad(lse.sum() + mean.square().sum(), x, create_graph=twice)
            if twice:
                torch.autograd.grad(gradient.square().sum(), (x, centers))

        first, second = (peak_bytes(lambda twice=twice: differentiate(twice), device) for twice in (False, True))
        rows.append({"term": term.__name__, "K": components, "chunk": chunk, "first": first, "second": second})
    return rows


def show(report: dict[str, Any]) -> str:
    peaks = PEAK.get(report["device"])
    lines = [
        (
            f"K = {row['K']:,}, d = {row['d']:,}, B = {row['B']}",
            format_seconds(row["plain"]) if row["plain"] else "out of memory",
            format_bytes(row["plain_peak"]) if row["plain"] else "",
            format_seconds(row["fused"]),
            format_bytes(row["fused_peak"]),
            f"{row['times']:.1f}x" if row["plain"] else "",
            f"1/{row['plain_peak'] / max(1, row['fused_peak']):.0f}" if row["plain"] and row["fused_peak"] else "",
            f"{row['gap']:.0e}" if row["plain"] else "",
        )
        for row in report["factors"]
    ]
    header = ("loss and gradient of factors", "materialized", "memory", "fold", "memory", "faster", "of it", "gap")
    text = f"{report['device']}, torch {report['torch']}\n\n" + format_table(lines, header)
    if report["products"]:
        lines = [
            (
                row["product"],
                format_seconds(row["seconds"]),
                f"{row['useful'] / 1e12:.1f}",
                *((f"{row['useful'] / peaks[0]:.0%}", f"{3 * row['done'] / peaks[1]:.0%}") if peaks else ("", "")),
            )
            for row in report["products"]
        ]
        names = ("product", "time", "useful TFLOP/s", "of float32's peak", "of TF32's, by 3 products for one")
        text += "\n\n" + format_table(lines, names)
    lines = [
        (
            f"K = {row['K']:,}, d = {row['d']:,}, B = {row['B']}",
            row["budget"],
            f"{row['parameters'] / 1e6:,.0f} M",
            f"{row['strategy']}, {row['chunk']}",
            format_seconds(row["step"]),
            format_bytes(row["predicted"]),
            format_bytes(row["observed"]),
            format_bytes(row["reserved"]),
        )
        for row in report["steps"]
    ]
    names = ("a whole step", "budget", "parameters", "strategy, chunk", "time", "predicted", "peak", "and after it")
    text += "\n\n" + format_table(lines, names)
    lines = [
        (row["term"], f"{row['K']:,}", format_bytes(row["first"]), format_bytes(row["second"]),
         f"{row['second'] / row['first']:.1f}x")
        for row in report["derivatives"]
    ]  # fmt: skip
    return text + "\n\n" + format_table(lines, ("term", "components", "first derivative", "second", "times"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--part", choices=("factors", "products", "steps", "derivatives"), help="all by default")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = devices.resolve(options.device)
    given, whole = QUICK if options.quick else (FACTORS, STEPS)
    report: dict[str, Any] = {"device": devices.model_name(device), "torch": torch.__version__, "steps": []}
    report["factors"], report["products"], report["derivatives"] = [], [], []
    for size in given if options.part in (None, "factors") else ():
        report["factors"].append(factors(*size, device))
        print(report["factors"][-1], flush=True)
        gc.collect()
    if options.part in (None, "products"):
        report["products"] = products(device, 4, 96, 16) if options.quick else products(device, 32, 3072, 128)
    for size in whole if options.part in (None, "steps") else ():
        report["steps"].append(steps(*size, device, 6))
        print(report["steps"][-1], flush=True)
        gc.collect()
    for components in (4000, 16_000) if options.part in (None, "derivatives") else ():
        report["derivatives"] += derivatives(device, components)
    print(show(report))
    save(options.out, report, show(report))


if __name__ == "__main__":
    main()
