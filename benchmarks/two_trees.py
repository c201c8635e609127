"""Two versions of Brimful side by side on one machine: the same bits, and how long each takes.

    python benchmarks/two_trees.py OLD [NEW] [--device cuda] [--tasks 200000] [--out FILE]

OLD and NEW are checkouts, such as those that `git worktree add ../before REVISION` makes; NEW is this one by default.
Each runs the same calls, with the same seeds and fixed batch sizes, in processes of its own, in turns. On a CPU every
result must be the same to the bit; on a GPU, where batch sizes are found by measuring, times and their ratio are shown.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()


def timed(call: Any, device: str, times: int) -> float:
    """The least seconds of several calls, the first left out."""
    import time

    import torch

    seconds = []
    for _ in range(times + 1):
        begin = time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def first_accepted(call: Any, *spellings: dict[str, Any]) -> Any:
    """The call with the first keywords that its version knows."""
    from brimful import ConfigError

    for keywords in spellings[:-1]:
        try:
            return call(**keywords)
        except (TypeError, ConfigError) as error:
            if not any(name in str(error) for name in keywords):
                raise
    return call(**spellings[-1])


def bits(folder: Path) -> dict[str, Any]:
    """The results of every verb and workload, as arrays."""
    import numpy as np
    import torch
    from torch import nn

    import brimful
    from brimful import gp, gpcm, wpo

    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(1000, 6, 6, generator=generator)
    spd = matrices @ matrices.mT + 0.1 * torch.eye(6)
    spd[[3, 500]], spd[77] = -1.0, float("nan")
    options: dict[str, Any] = {"fallback": torch.float64, "progress": False, "device": "cpu"}
    call = functools.partial(brimful.map, torch.linalg.cholesky, spd, **options)
    mapped = first_accepted(call, {"batch_size": 64}, {"batch": 64})
    found |= {"map values": mapped.values, "map status": mapped.status}

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    x, y = torch.randn(500, 8, generator=generator), torch.randint(3, (500,), generator=generator)

    def loss(net: nn.Module, batch: dict[str, torch.Tensor]) -> brimful.Weighted:
        total = nn.functional.cross_entropy(net(batch["x"]), batch["y"], reduction="sum")
        return brimful.Weighted(total, torch.full_like(total, len(batch["y"])))

    data = ({"x": x[:400], "y": y[:400]}, {"x": x[400:], "y": y[400:]})
    keywords = {"epochs": 4, "batch_size": 64, "lr": 3e-3, "schedule": "cosine", "ema": 0.9, "seed": 3, "device": "cpu"}
    call = functools.partial(brimful.train, model, loss, data[0], valid=data[1], progress=False, **keywords)
    trained = first_accepted(call, {"accumulation_steps": 3}, {"accumulate": 3})
    found |= {f"train {name}": value for name, value in trained.model.state_dict().items()}
    found["train curve"] = trained.curve

    centers = torch.randn(50, 4, generator=generator, dtype=torch.float64).requires_grad_()
    at = torch.randn(30, 4, generator=generator, dtype=torch.float64)

    def term(chunk: torch.Tensor, x_Bd: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return -0.5 * (x_Bd[:, None] - chunk).square().sum(-1), chunk.expand(len(x_Bd), -1, -1)

    call = functools.partial(brimful.fold, term, centers, at, strategy="chunked")
    lse, mean = first_accepted(call, {"chunk_size": 7}, {"chunk": 7})
    (lse.sum() + mean.square().sum()).backward()
    found |= {"fold lse": lse, "fold mean": mean, "fold gradient": centers.grad}

    random = np.random.default_rng(0)
    own = np.sort(random.uniform(0, 10, (300, 25)), 1)
    values = np.sin(own + random.uniform(0, 6, (300, 1))) + 0.1 * random.normal(size=own.shape)
    values[random.uniform(size=values.shape) < 0.05] = np.nan
    at_new = np.linspace(0, 11, 9)
    plane = np.stack([own, own[:, ::-1]], -1)
    cases = [("own", own, "rbf"), ("shared", own[0], "rbf"), ("sum", own, "matern52 + linear")]
    for name, inputs, kernel in [*cases, ("periodic", own[:60], "periodic"), ("ard", plane, "rbf")]:
        fit = gp.fit(
            inputs, values[: len(inputs)] if name != "shared" else values, kernel=kernel, device="cpu", progress=False
        )
        predicted = fit.predict(at_new if name != "ard" else np.stack([at_new, at_new], -1))
        found |= {
            f"gp {name} nlml": fit.nlml,
            f"gp {name} status": fit.status,
            f"gp {name} loo": fit.loo()[0],
        }
        found |= {f"gp {name} {key}": value for key, value in fit.params.items()}
        found |= {f"gp {name} mean": predicted[0], f"gp {name} variance": predicted[1]}

    learned: Any = gpcm.train("synthetic_80_20_4", epochs=3, device="cpu", seed=1)
    found |= {f"gpcm {name}": value for name, value in learned.model.state_dict().items()}
    found["gpcm qwk"] = np.array([learned.scores.qwk, learned.scores.accuracy])
    table = learned.item_table()
    found |= {f"gpcm item {name}": table[name].to_numpy() for name in ("alpha", "beta_1")}

    rows = torch.randn(600, 3, generator=generator).mul_(torch.tensor([1.0, 0.3, 2.0]))
    for strategy in ("single", "chunked"):
        torch.manual_seed(0)
        score = wpo.ScoreModel(rows[:40], hidden=8, depth=2)
        done = wpo.train(
            score, rows[40:], steps=30, batch_size=64, strategy=strategy, device="cpu", seed=2, progress=False
        )
        found |= {f"wpo {strategy} {name}": value for name, value in done.model.state_dict().items()}
        found[f"wpo {strategy} log_prob"] = done.model.log_prob(rows[:50])
        found[f"wpo {strategy} score"] = done.model.score(rows[:50], t=0.5)

    arrays = {
        name: value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        for name, value in found.items()
    }
    np.savez(folder / "bits.npz", **{name.replace("/", "."): value for name, value in arrays.items()})  # pyright: ignore
    return {"arrays": len(arrays)}


def times(device: str, tasks: int) -> dict[str, float]:
    """Seconds of what users wait for."""
    import numpy as np
    import torch

    import brimful
    from brimful import gp, gpcm, wpo

    found: dict[str, float] = {}
    random = np.random.default_rng(0)
    few = max(1000, tasks // 20) if device == "cpu" else tasks
    own = np.sort(random.uniform(0, 10, (few, 40)), 1)
    values = np.sin(own + random.uniform(0, 6, (few, 1))) + 0.1 * random.normal(size=own.shape)
    for name, inputs in (("own", own), ("shared", own[0])):
        where = {"device": device, "progress": False}
        found[f"gp {name}, us per task"] = (
            1e6 * timed(lambda inputs=inputs, where=where: gp.fit(inputs, values, **where), device, 5) / few
        )

    matrices = torch.randn(few * 5, 16, 16).matmul(torch.eye(16))
    spd = matrices @ matrices.mT + torch.eye(16)
    where = {"device": device, "progress": False}
    found["map, us per item"] = (
        1e6 * timed(lambda: brimful.map(torch.linalg.cholesky, spd, **where), device, 3) / len(spd)
    )

    try:
        from brimful.gpcm.model import memory  # pyright: ignore
    except ImportError:
        from brimful.gpcm import memory  # pyright: ignore
    B, S, N, D, rows = 64, 200, 50, 128, 800
    normal = lambda *shape: torch.randn(*shape, device=device)  # noqa: E731
    tables = [normal(200, N).softmax(1), normal(rows, D).sigmoid(), normal(rows, D).tanh(), normal(1, N, D)]
    tables = [table.requires_grad_() for table in tables]
    steps = [
        torch.randint(200, (B, S), device=device),
        torch.randint(rows, (B, S), device=device),
        torch.full((B,), S, device=device),
    ]
    gradient = torch.ones(B, S, D, device=device)
    found["gpcm memory, ms"] = 1e3 * timed(
        lambda: torch.autograd.grad(memory.run(*tables, *steps)[0], tables, gradient), device, 30
    )

    students = "synthetic_5000_200_4" if device != "cpu" else "synthetic_400_50_4"
    learned: Any = gpcm.train(students, epochs=4, device=device, seed=1)
    found["gpcm epoch, s"] = min(row["seconds"] for row in learned.history[1:])

    d, K = (256, 200) if device != "cpu" else (16, 50)
    data = torch.randn(4096, d)
    count = 60
    for strategy in ("single", "chunked"):
        model = wpo.ScoreModel(data[:K], hidden=64)
        done = wpo.train(model, data[K:], steps=count, batch_size=256, strategy=strategy, device=device, progress=False)
        epochs = [row["seconds"] for row in done.history]
        found[f"wpo step {strategy}, ms"] = 1e3 * min(epochs[1:] or epochs) / (-(-(4096 - K) * 9 // 10 // 256))
    return found


def run(tree: Path, what: str, device: str, tasks: int) -> tuple[dict[str, Any], Path]:
    folder = Path(tempfile.mkdtemp(prefix="two-trees-"))
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "BRIMFUL_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, str(HERE), "--worker", what, str(folder), "--device", device, "--tasks", str(tasks)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}: {done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1]), folder


def compare(old: Path, new: Path) -> list[str]:
    """The arrays that differ, or are in one tree alone."""
    import numpy as np

    with np.load(old / "bits.npz") as before, np.load(new / "bits.npz") as after:
        missing = sorted({*before.files} ^ {*after.files})
        both = [name for name in before.files if name in after.files]
        differ = [
            name
            for name in both
            if not np.array_equal(before[name], after[name], equal_nan=before[name].dtype.kind == "f")
        ]
        print(f"{len(both)} arrays compared, {len(both) - len(differ)} equal to the bit")
        return [f"in one tree alone: {name}" for name in missing] + [f"differs: {name}" for name in differ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?", default=HERE.parents[1])
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", type=int, default=200_000)
    parser.add_argument("--only", choices=("bits", "times"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.worker:
        what, folder = given.worker
        print(json.dumps(bits(Path(folder)) if what == "bits" else times(given.device, given.tasks)))
        return
    if given.only != "times":
        folders = [run(tree, "bits", "cpu", 0)[1] for tree in (given.old, given.new)]
        for line in compare(*folders):
            print(line)
    if given.only != "bits":
        rounds = [
            [run(tree, "times", given.device, given.tasks)[0] for tree in (given.old, given.new)] for _ in range(2)
        ]
        before, after = (
            {name: min(pair[side][name] for pair in rounds) for name in rounds[0][side]} for side in (0, 1)
        )
        print(f"{'':28} {'old':>10} {'new':>10} {'ratio':>7}   the two rounds of each")
        for name in before:
            each = ", ".join(f"{pair[0][name]:.3g} {pair[1][name]:.3g}" for pair in rounds)
            print(f"{name:28} {before[name]:10.4g} {after[name]:10.4g} {after[name] / before[name]:7.3f}   {each}")
        if given.out:
            given.out.write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
