"""What is left to choose once precisions are learned: how wide all components are, and how far centers move together.

Legend: K centers, N rows that become centers too, M held out, d dimensions.

A mixture whose components sit on data points is wider than the data. Against that each center moves a part of the way
to the mean of those around it, as data are sharpened before a kernel density estimate. Three numbers are chosen, by the
likelihood of held-out rows: how far around a center that mean reaches, what part of the way a center moves, and one
factor on the width of all components. The network stays as it is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..model.score_model import ScoreModel

_GLANCED_AT, _LOOKED_AT = 256, 512  # held-out rows to begin with, and in the end
_REACHES, _PARTS, _WIDTHS = (1.0, 2.0, 3.0, 5.0), (0.3, 0.6), (1.0, 1.25)
_STEPS = ((1.25, 0.2), (1.12, 0.1), (1.05, 0.05))  # of the width, a factor, and of the part
_AT_ONCE = 2**24  # distances held at once


@dataclass(frozen=True, slots=True)
class Settled:
    """What was chosen.

    Attributes:
        reach: how far around a center others count, in the model's units; 0 where centers stay.
        part: of the way to their mean that a center moves.
        width: how many times as wide as it was learned every component is.
    """

    reach: float = 0.0
    part: float = 0.0
    width: float = 1.0

    def __str__(self) -> str:
        moved = f"centers moved by {self.part:.2g} within {self.reach:g}, " if self.part else ""
        return f"{moved}width {self.width:.3g}"


@torch.no_grad()
def settle(model: ScoreModel, held_out: Float[Tensor, "M d"], more: Float[Tensor, "N d"] | None = None) -> Settled:
    """Moves a model's centers, and changes the width of all components, to what makes held-out rows likeliest.

    Args:
        model: as it was trained.
        held_out: rows that were not trained on; 512 of them are looked at.
        more: rows that become centers too; the network has precisions for any. Not to be trained on from there on.
    """
    first_Kd = model.inner_Kd if more is None else torch.cat((model.inner_Kd, model.inside(more)))
    means = {0.0: first_Kd, **{reach: _means(first_Kd, reach) for reach in _REACHES}}
    network, unit_d = model.term.network, model.unit_d
    spread, stability = network.spread, model.config.stability

    def put(chosen: Settled) -> None:
        """The network gets the same numbers whatever the width is."""
        model.inner_Kd = torch.lerp(first_Kd, means[chosen.reach], chosen.part) / chosen.width
        model.unit_d, network.spread = unit_d * chosen.width, spread / chosen.width
        model.config = replace(model.config, stability=stability / chosen.width)
        model.remake()

    def likelihood(chosen: Settled, rows: int = _LOOKED_AT) -> float:
        put(chosen)
        found = float(torch.cat([model.log_prob(part) for part in held_out[:rows].split(_GLANCED_AT)]).mean())
        return found if math.isfinite(found) else -math.inf

    def climbed(chosen: Settled) -> tuple[float, Settled]:
        best = likelihood(chosen)
        for width, part in _STEPS:
            better = True
            while better:
                better = False
                for tried in _around(chosen, width, part):
                    if (found := likelihood(tried)) > best:
                        chosen, best, better = tried, found, True
                        break
        return best, chosen

    best, stay = climbed(Settled())
    moves = [Settled(reach, part, stay.width * width) for reach in _REACHES for part in _PARTS for width in _WIDTHS]
    moved, move = climbed(max(moves, key=lambda each: likelihood(each, _GLANCED_AT)))
    chosen = move if moved > best else stay
    put(chosen)
    return chosen


def _around(chosen: Settled, width: float, part: float) -> Iterator[Settled]:
    for factor in (width, 1 / width):
        yield replace(chosen, width=chosen.width * factor)
    for step in (part, -part) if chosen.reach else ():
        if 0 < chosen.part + step <= 1:
            yield replace(chosen, part=chosen.part + step)


def _means(rows_Kd: Float[Tensor, "K d"], reach: float) -> Float[Tensor, "K d"]:
    """Of the rows around each, those nearer counting more."""
    parts = rows_Kd.split(max(1, _AT_ONCE // len(rows_Kd)))
    return torch.cat([(torch.cdist(each, rows_Kd).square() / (-2 * reach**2)).softmax(1) @ rows_Kd for each in parts])
