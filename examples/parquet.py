"""Score a Parquet file with a network and write the scores as Parquet, never holding either in memory."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import brimful

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def score(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    features = torch.stack([batch["age"], batch["height"], batch["weight"]], dim=1)
    with torch.no_grad():
        return {"score": network.to(features.device)(features)[:, 0]}


def main(folder: Path, rows: int = 300_000) -> brimful.MapResult:
    people = folder / "people.parquet"
    if not people.exists():
        draw = np.random.default_rng(0).normal(size=(3, rows)).astype(np.float32)
        names = ("age", "height", "weight")
        pq.write_table(pa.table(dict(zip(names, draw, strict=True))), people, row_group_size=50_000)

    # Stop this with Ctrl-C, or kill it, and run it again: it goes on where it was.
    result = brimful.map(score, people, budget="200MB", out=folder / "scores")
    table = pq.read_table(sorted((folder / "scores").glob("*.parquet")), columns=["item", "status", "score"])
    print(f"{table.num_rows:,} scores in {folder / 'scores'}")
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
