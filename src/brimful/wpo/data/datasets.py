"""What can be trained on: shapes by name, scikit-learn's digits, CIFAR-10 from a folder, any array in a .npy file.

Legend: N rows to train on, M held out, K centers, d dimensions.

Centers, training rows and held-out rows are kept apart. Equal rows of a file count once: a training row that lies on a
center has no lower bound to its loss.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...core.base.errors import ConfigError, InputError
from ...core.base.extras import require
from ..model.score_model import checked
from . import cifar
from .toys import TOYS, toy

_CENTERS = 1000
_SHAPES = 20_000  # rows drawn of a shape to train on


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows of one distribution, in three parts that share none.

    Attributes:
        name: where they come from.
        train_Nd, held_out_Md, centers_Kd: the parts.
        image: (colours, height, width) of a row that is an image.
        dropped: rows left out because they equal another.
    """

    name: str
    train_Nd: Float[Tensor, "N d"]
    held_out_Md: Float[Tensor, "M d"]
    centers_Kd: Float[Tensor, "K d"]
    image: tuple[int, int, int] | None = None
    dropped: int = 0

    @property
    def d(self) -> int:
        return self.centers_Kd.shape[1]

    def to(self, dtype: torch.dtype) -> "Data":
        parts = {name: getattr(self, name).to(dtype) for name in ("train_Nd", "held_out_Md", "centers_Kd")}
        return replace(self, **parts)


def dataset(
    source: Any,
    centers: int | None = None,
    *,
    samples: int | None = None,
    held_out: float = 0.1,
    folder: Path | None = None,
    seed: int = 0,
) -> Data:
    """The data that is meant, cut into its parts.

    Args:
        source: the name of a shape (`toys.TOYS`), "digits", "cifar10", a .npy file, or rows themselves.
        centers: how many; 1000 unless said, or a third of the rows where that is less.
        samples: rows to draw of a shape for training.
        held_out: the share of the rows that is held out; of shapes, as many as that in fresh draws. CIFAR-10 has its
            own test images.
        folder: where CIFAR-10 lies.
        seed: of the draws and of the cut.

    Whole numbers, as pixels are, get a uniform number below 1 added, so that they have a density at all; digits and
    CIFAR-10 are then scaled to lie between 0 and 1.
    """
    if not 0 < held_out < 1:
        raise ConfigError(f"held_out is {held_out}; give a share of the rows, between 0 and 1")
    if centers is not None and centers < 1:
        raise ConfigError(f"there are to be {centers} centers; give at least 1")
    if isinstance(source, str) and source in TOYS:
        count = _SHAPES if samples is None else samples
        parts = (count, max(2, round(held_out * count)), _CENTERS if centers is None else centers)
        train_Nd, held_out_Md, centers_Kd = (
            torch.from_numpy(toy(source, n, seed=3 * seed + place)) for place, n in enumerate(parts)
        )
        return Data(source, train_Nd, held_out_Md, centers_Kd)
    if isinstance(source, str) and source == "cifar10":
        train, test = cifar.read(Path("data") if folder is None else Path(folder))
        kept, other = _distinct(train), _distinct(test)
        chance = np.random.default_rng(seed)
        train, test = (_unround(rows, 256, chance) for rows in (train[kept], test[other]))
        parts = _cut(train, centers, None, chance)
        return Data("cifar10", parts[0], torch.from_numpy(test), parts[2], cifar.SHAPE, 60_000 - len(kept) - len(other))
    rows, name, levels, image = _rows(source)
    kept = _distinct(rows)
    chance = np.random.default_rng(seed)
    apart = rows[kept]
    if np.issubdtype(apart.dtype, np.integer):
        apart = _unround(apart, levels, chance)
    return Data(name, *_cut(apart, centers, held_out, chance), image, len(rows) - len(kept))


def _rows(source: Any) -> tuple[np.ndarray, str, int, tuple[int, int, int] | None]:
    """Rows of a finite set, its name, by what whole numbers are divided, and the shape of an image."""
    if isinstance(source, str) and source == "digits":
        bunch: Any = require("dev", "sklearn.datasets").load_digits()
        return bunch.data.astype(np.uint8), "digits", 17, (1, 8, 8)
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise InputError(
                f"there is no data {str(source)!r}: give {', '.join(TOYS)}, digits, cifar10, or a .npy file that exists"
            )
        try:
            found = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise InputError(f"{path} is no array that numpy.save wrote: {error}") from error
        if not isinstance(found, np.ndarray):
            raise InputError(f"{path} holds several arrays; save the one that is meant with numpy.save")
        name = path.stem
    else:
        found, name = np.asarray(source), "rows"
    if found.ndim > 2:
        found = found.reshape(len(found), -1)
    if np.issubdtype(found.dtype, np.integer) and found.ndim == 2 and found.size:
        return found, name, 1, None
    return checked(torch.from_numpy(np.ascontiguousarray(found)), name).numpy(), name, 1, None


def _cut(
    rows: np.ndarray, centers: int | None, held_out: float | None, chance: np.random.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Training rows, held-out rows and centers; without a share, none is held out."""
    total = len(rows)
    held = 0 if held_out is None else max(1, round(held_out * total))
    count = min(_CENTERS, total // 3) if centers is None else centers
    if total - held - count < 1 or count < 1:
        raise InputError(
            f"{total} different rows are too few for {count or 1} centers, {held} held out and some to train on; give "
            "fewer centers (--train-kernel-size), or more rows"
        )
    order = chance.permutation(total)
    parts = order[held + count :], order[:held], order[held : held + count]
    return tuple(torch.from_numpy(np.ascontiguousarray(rows[part])) for part in parts)  # pyright: ignore[reportReturnType]


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The places of the rows that equal no earlier one."""
    rows = np.ascontiguousarray(rows)
    if np.issubdtype(rows.dtype, np.floating):
        rows = rows + 0.0  # -0 is 0
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)
    return np.sort(np.unique(whole, return_index=True)[1])


def _unround(rows: np.ndarray, levels: int, chance: np.random.Generator) -> np.ndarray:
    """Whole numbers with what rounding took from them put back at random."""
    found = chance.random(rows.shape, dtype=np.float32)
    found *= 1 - 2.0**-12  # so that the sum does not round up to the next number
    found += rows
    found /= levels
    return found
