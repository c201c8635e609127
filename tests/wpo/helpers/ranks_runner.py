"""A script: ranks that share the centers of one model, forked from here, against one process that has them all."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .oracle import gradients, losses, made, samples

K, B, D = 7, 6, 3


def off(found: Any, wanted: Any) -> float:
    """The largest difference, against the largest entry."""
    pairs = [(one.detach(), other.detach()) for one, other in zip(found, wanted, strict=True)]
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)


def rank(place: int, ranks: int, factor: str, folder: Path) -> None:
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=place, world_size=ranks)
    model, x = made(K, D, factor=factor, rank=2), samples(B, D)
    wanted = losses(model, x)
    wanted_gradients, density, score = gradients(model, wanted.sum()), model.log_prob(x), model.score(x)
    model.sharded, model.strategy, model.chunk = True, "model_parallel", 2
    mine = slice(place * B // ranks, (place + 1) * B // ranks)
    found = model.losses(x[mine])
    ours = gradients(model, found.sum())
    if ranks > 1:
        for each in ours:
            dist.all_reduce(each)
    said = {
        "losses": off([found], [wanted[mine]]),
        "gradients": off(ours, wanted_gradients),
        "density": off([model.log_prob(x[mine])], [density[mine]]),
        "score": off([model.score(x[mine])], [score[mine]]),
    }
    (folder / f"said-{place}").write_text(json.dumps(said))
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


def run(ranks: int, factor: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder, children = Path(name), []
        for place in range(ranks):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    torch.set_num_threads(1)
                    rank(place, ranks, factor, folder)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        assert all(os.waitpid(child, 0)[1] == 0 for child in children)
        said = [json.loads((folder / f"said-{place}").read_text()) for place in range(ranks)]
        return {"ranks": ranks, "off": {key: max(each[key] for each in said) for key in said[0]}}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps([run(ranks, factor) for ranks in (1, 2, 3, 4) for factor in ("triangle", "lowrank")]))
