"""Soft attention over a codebook that does not fit: all entries at once would take many times the budget.

A vector is looked up by the keys of all entries at once, and comes back as the mean of their contents, weighted by how
well the keys match. Keys and contents are trained so that vectors come back as they went in.
"""

import sys

import torch
from torch import Tensor, nn

import brimful


class Codebook(nn.Module):
    """Entries of a key and a content; looking something up is a fold over all of them."""

    def __init__(self, entries: int, width: int, budget: str) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(entries, width))
        self.contents = nn.Parameter(torch.randn(entries, width))
        self.budget = budget

    def term(self, entry: dict[str, Tensor], x_BV: Tensor) -> tuple[Tensor, Tensor]:
        logit_Bk = x_BV @ entry["key"].T
        return logit_Bk, entry["content"].expand(len(x_BV), -1, -1)

    def forward(self, x_BV: Tensor) -> Tensor:
        entries = {"key": self.keys, "content": self.contents}
        return brimful.fold(self.term, entries, x_BV, budget=self.budget)[1]


def main(entries: int = 20_000, steps: int = 20, batch: int = 64, width: int = 32) -> list[float]:
    torch.manual_seed(0)
    book = Codebook(entries, width, budget="20MB")
    some = torch.randn(batch, width)
    print(
        brimful.plan_fold(book.term, {"key": book.keys, "content": book.contents}, some, budget=book.budget).explain()
    )

    optimizer = torch.optim.Adam(book.parameters(), lr=0.05)
    lost = []
    for step in range(steps):
        x_BV = nn.functional.normalize(torch.randn(batch, width)) * 3
        loss = (book(x_BV) - x_BV).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lost.append(float(loss.detach()))
        if step % 5 == 0 or step == steps - 1:
            print(f"step {step:3}  mean square error {lost[-1]:.4f}")
    return lost


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
