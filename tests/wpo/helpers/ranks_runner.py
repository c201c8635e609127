"""A script: ranks that split the centers of one model, against one process that has them all. One pool of forked
processes serves every number of ranks."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .oracle import gradients, losses, make_model, make_samples

K, B, D = 7, 6, 3
RANKS = (1, 2, 3)


def error(found: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest entry."""
    pairs = [(one.detach(), other.detach()) for one, other in zip(found, wanted, strict=True)]
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)


def compare(rank: int, ranks: int, factor: str) -> dict[str, float]:
    model, x = make_model(K, D, factor=factor, rank=2), make_samples(B, D)
    wanted = losses(model, x)
    wanted_gradients, density, score = gradients(model, wanted.sum()), model.log_prob(x), model.score(x)
    model.sharded, model.strategy, model.chunk_size = True, "model_parallel", 2
    own = slice(rank * B // ranks, (rank + 1) * B // ranks)
    found = model.losses(x[own])
    found_gradients = gradients(model, found.sum())
    for gradient in found_gradients:
        dist.all_reduce(gradient)
    return {
        "losses": error([found], [wanted[own]]),
        "gradients": error(found_gradients, wanted_gradients),
        "density": error([model.log_prob(x[own])], [density[own]]),
        "score": error([model.score(x[own])], [score[own]]),
    }


def run_rank(rank: int, folder: Path) -> None:
    errors: dict[str, dict[str, float]] = {}
    for ranks in range(max(rank + 1, RANKS[0]), RANKS[-1] + 1):
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{ranks}", rank=rank, world_size=ranks)
        for factor in ("triangle", "lowrank"):
            errors[f"{ranks} {factor}"] = compare(rank, ranks, factor)
        dist.barrier()
        dist.destroy_process_group()
    (folder / f"errors-{rank}").write_text(json.dumps(errors))


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder, children = Path(name), []
        for rank in range(RANKS[-1]):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    run_rank(rank, folder)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        assert all(os.waitpid(child, 0)[1] == 0 for child in children)
        print(json.dumps([json.loads((folder / f"errors-{rank}").read_text()) for rank in range(RANKS[-1])]))


if __name__ == "__main__":
    main()
