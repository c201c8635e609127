"""A training run for one process or many: `python train.py OUT`, or under torchrun on every node.

Each process finds out by its environment that it is a rank. All are given all of the data and take their part of every
batch; the first one writes checkpoints to OUT, which all nodes must see. Started again, it goes on where it was.
"""

import sys

import torch

import brimful


def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])


def main(out: str) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4096, 2, generator=generator)
    y = (6 * x).sin().prod(1, keepdim=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    result = brimful.train(
        model,
        loss,
        {"x": x, "y": y},
        epochs=20,
        batch_size=256,  # over all ranks
        lr=0.01,
        checkpoint_every=50,
        out=out,
    )
    if result.out is not None:  # on the first rank, or in the only process
        print(f"loss {result.history[-1]['train_loss']:.4f} after {result.steps} steps, in {result.out}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "run")
