"""What padding costs: the same training with it computed (as on a GPU) and with real answers alone (as on a CPU), each
with students in random batches and sorted by length over a few batches (`bucket`, the default), on students of many
lengths.

    python benchmarks/gpcm_bucketing.py [--quick] [--data ../shared/data] [--students 4151] [--epochs 4] [--out RESULTS]

The data is ASSISTments 2009, where it is at hand, in segments of at most 200 answers: some of its students, drawn at
random, the same for all; with `--quick`, synthetic students. Runs take turns; the first epoch of each is not counted.
Times are processor time of one thread, validation included. The AUC and the cross-entropy are on the students of the
test file, after as many epochs with each.
"""

import argparse
import functools
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from brimful import data as loading
from brimful import gpcm
from brimful.core.base.formatting import format_seconds, format_table
from brimful.core.memory import devices
from brimful.core.runs.events import EpochDone
from brimful.gpcm.options import TrainConfig
from brimful.gpcm.training.datasets import load_dataset
from brimful.gpcm.training.fit import set_up, tensors
from saving import save

WAYS = {
    "padding computed, bucket=0": (True, 0),
    "padding computed, bucket=4": (True, 4),
    "real answers alone, bucket=0": (False, 0),
    "real answers alone, bucket=4": (False, 4),
}
"""Whether padding is computed, and over how many batches students are sorted."""


def drawn(folder: Path, students: int, into: Path) -> Path:
    """A copy of a folder of students with so many of them, at random, in the proportions of its files."""
    parts = {file.name: file.read_text().splitlines() for file in sorted(folder.glob("*.csv"))}
    share = students / (sum(map(len, parts.values())) / 3)
    rng = np.random.default_rng(0)
    for name, lines in parts.items():
        count = len(lines) // 3
        chosen = np.sort(rng.permutation(count)[: max(1, round(min(1.0, share) * count))])
        (into / name).write_text("".join(f"{line}\n" for one in chosen for line in lines[3 * one : 3 * one + 3]))
    return into


def padding(source: str, bucket: int) -> float:
    """The share of padding in the batches of an epoch."""
    config = TrainConfig(dataset=source, bucket=bucket, device="cpu")
    setup = set_up(load_dataset(source, config), config)
    settings = setup.settings["loader"] | {"transform": (), "device": "cpu"}
    batches = loading.loader(tensors(setup.train), batch_size=setup.settings["batch_size"], **settings)
    return batches.padding().share


def trained(source: str, way: str, epochs: int, seed: int) -> dict[str, Any]:
    ends: list[float] = []

    def note(event: Any) -> None:
        if isinstance(event, EpochDone):
            ends.append(time.process_time())

    forward = gpcm.DeepGPCM.forward
    padded, bucket = WAYS[way]
    if padded:  # another engine than "auto" is given all steps
        gpcm.DeepGPCM.forward = functools.partialmethod(forward, engine="native")  # pyright: ignore
    try:
        options: Any = {"bucket": bucket, "epochs": epochs, "seed": seed, "device": "cpu", "progress": False}
        result = gpcm.train(source, callbacks=note, **options)
    finally:
        gpcm.DeepGPCM.forward = forward
    assert isinstance(result, gpcm.GPCMResult)
    return {
        "epoch_seconds": np.diff(ends).tolist(),
        "auc": result.scores.auc,
        "cross_entropy": result.scores.cross_entropy,
    }


def measure(source: str, epochs: int, rounds: int) -> list[dict[str, Any]]:
    parts: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS}
    for seed in range(rounds):
        for name in WAYS:
            parts[name].append(trained(source, name, epochs, seed))
            print(name, parts[name][-1], flush=True)
    return [
        {
            "run": name,
            "bucket": bucket,
            "padding": padding(source, bucket),
            "epoch_seconds": float(np.median([second for one in parts[name] for second in one["epoch_seconds"]])),
            "auc": float(np.mean([one["auc"] for one in parts[name]])),
            "cross_entropy": float(np.mean([one["cross_entropy"] for one in parts[name]])),
        }
        for name, (_, bucket) in WAYS.items()
    ]


def show(report: dict[str, Any]) -> str:
    first = report["rows"][0]["epoch_seconds"]
    rows = [
        (row["run"], f"{row['padding']:.1%}", format_seconds(row["epoch_seconds"]),
         f"{first / row['epoch_seconds']:.2f}x", f"{row['auc']:.4f}", f"{row['cross_entropy']:.4f}")
        for row in report["rows"]
    ]  # fmt: skip
    head = (
        f"{report['device']}, torch {report['torch']}, {report['threads']} threads; {report['data']}, "
        f"{report['epochs']} epochs, {report['rounds']} seeds\n\n"
    )
    return head + format_table(rows, ("", "padding", "per epoch", "speedup", "AUC", "cross-entropy"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few synthetic students, to see that it runs")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--students", type=int, default=1000, help="drawn from the 4,151 of both files")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    assist = given.data / "assist2009"
    if not given.quick and not assist.is_dir():
        parser.error(f"{assist} is not there; give --data, or --quick")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        some = None if given.quick else drawn(assist, given.students, Path(folder))
        report = {
            "device": devices.model_name(torch.device("cpu")),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "data": "120_20_3" if some is None else f"{given.students:,} students of assist2009",
            "epochs": given.epochs,
            "rounds": given.rounds,
            "rows": measure("120_20_3" if some is None else str(some), given.epochs, given.rounds),
        }
    print(show(report))
    save(given.out, report, show(report))


if __name__ == "__main__":
    main()
