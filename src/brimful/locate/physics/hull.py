"""Convex hulls of a few points each, for many sets of points at once.

Legend: N sets, R points, V = R corners at most; the last corner is repeated where a hull has fewer.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def convex_hull(points: Float[Tensor, "N R 2"], mask: Bool[Tensor, "N R"]) -> Float[Tensor, "N R 2"]:
    """The corners of each hull, counterclockwise, by gift wrapping. A set that lies on a line has a hull without area;
    one without points has NaN corners."""
    N, R, _ = points.shape
    x, y = (axis.T.contiguous() for axis in points.unbind(-1))  # (R, N): whole rows are what is computed with
    counts = mask.T.contiguous()
    lowest = torch.where(counts, y, math.inf).min(0).values
    start = torch.where(counts & (y <= lowest), x, math.inf).argmin(0)
    any_point = counts.int().argmax(0)

    def at(axis: Tensor, index: Tensor) -> Tensor:
        return axis.gather(0, index.unsqueeze(0)).squeeze(0)

    start_x, start_y = at(x, start), at(y, start)
    corner_x, corner_y = torch.empty_like(x), torch.empty_like(y)
    current, done = start, torch.zeros(N, dtype=torch.bool, device=points.device)
    for corner in range(R):
        here_x, here_y = at(x, current), at(y, current)
        corner_x[corner], corner_y[corner] = here_x, here_y
        from_x, from_y = x - here_x, y - here_y
        length = from_x.square() + from_y.square()
        best = any_point
        best_x, best_y, best_length = at(from_x, best), at(from_y, best), at(length, best)
        for candidate in range(R):  # the one that has all others to its left, and of several on a line the farthest
            turn = best_x * from_y[candidate] - best_y * from_x[candidate]
            takes = counts[candidate] & ((turn < 0) | ((turn == 0) & (length[candidate] > best_length)))
            best = torch.where(takes, candidate, best)
            best_x = torch.where(takes, from_x[candidate], best_x)
            best_y = torch.where(takes, from_y[candidate], best_y)
            best_length = torch.where(takes, length[candidate], best_length)
        done = done | ((at(x, best) == start_x) & (at(y, best) == start_y))
        current = torch.where(done, current, best)
    corners = torch.stack((corner_x.T, corner_y.T), -1)
    return torch.where(mask.any(1)[:, None, None], corners, math.nan)


def area(corners: Float[Tensor, "N V 2"]) -> Float[Tensor, " N"]:
    """The area of each hull."""
    return _triangles(corners).sum(1)


def inside(corners: Float[Tensor, "N V 2"], points: Float[Tensor, "N K 2"]) -> Bool[Tensor, "N K"]:
    """Whether points are in their set's hull, its edge included."""
    x, y = points.unbind(-1)
    result = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device)
    edges = torch.roll(corners, -1, 1) - corners
    for (corner_x, corner_y), (edge_x, edge_y) in zip(_axes(corners), _axes(edges), strict=True):
        # One edge at a time; an edge without length excludes nothing.
        result &= edge_x * (y - corner_y) >= edge_y * (x - corner_x)
    return result


def _axes(corners: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    for corner in corners.unbind(1):
        x, y = corner.unbind(-1)
        yield x[:, None], y[:, None]


def sample_inside(corners: Float[Tensor, "N V 2"], uniform: Float[Tensor, "N 3"]) -> Float[Tensor, "N 2"]:
    """A point of each hull, with equal density everywhere in it, from three numbers between 0 and 1."""
    triangles = _triangles(corners)
    ends = triangles.cumsum(1)
    chosen = torch.searchsorted(ends, uniform[:, :1] * ends[:, -1:], right=True).clamp(max=triangles.shape[1] - 1)
    rows = torch.arange(len(corners), device=corners.device)
    a, b, c = corners[:, 0], corners[rows, chosen[:, 0] + 1], corners[rows, chosen[:, 0] + 2]
    root = uniform[:, 1:2].sqrt()
    return (1 - root) * a + root * (1 - uniform[:, 2:]) * b + root * uniform[:, 2:] * c


def _triangles(corners: Tensor) -> Tensor:
    """The areas of the triangles between the first corner and each edge that does not touch it."""
    from_first = corners[:, 1:] - corners[:, :1]
    one, two = from_first[:, :-1], from_first[:, 1:]
    return (one[..., 0] * two[..., 1] - one[..., 1] * two[..., 0]).clamp(min=0) / 2
