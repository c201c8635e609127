"""How sure is a regression? Refit it to 20,000 resamples of its data, all at once, and look at the spread."""

import torch

import brimful

POINTS = 200
generator = torch.Generator().manual_seed(0)
x = torch.randn(POINTS, generator=generator)
y = 2.0 * x - 1.0 + 0.5 * torch.randn(POINTS, generator=generator)


def refit(seeds: torch.Tensor) -> dict[str, torch.Tensor]:
    # A resample is drawn from its item's own number, so that it is the same whatever batch it lands in.
    place = torch.arange(POINTS, device=seeds.device)
    mixed = (seeds[:, None] * 6364136223846793005 + place * 1442695040888963407 + 1013904223) >> 20
    chosen = (mixed * 2862933555777941757 >> 33) % POINTS
    design = torch.stack([x.to(seeds.device)[chosen], torch.ones_like(chosen, dtype=torch.float32)], dim=2)
    target = y.to(seeds.device)[chosen]
    solution = torch.linalg.solve(design.mT @ design, (design.mT @ target[:, :, None])[:, :, 0])
    return {"slope": solution[:, 0], "intercept": solution[:, 1]}


def main(resamples: int = 20_000) -> brimful.MapResult:
    result = brimful.map(refit, torch.arange(resamples), budget="500MB")
    values = result.values
    assert values is not None
    for name, tensor in values.items():
        low, high = tensor.quantile(0.025).item(), tensor.quantile(0.975).item()
        print(f"{name}: {tensor.mean().item():.3f}, 95% of resamples between {low:.3f} and {high:.3f}")
    return result


if __name__ == "__main__":
    main()
