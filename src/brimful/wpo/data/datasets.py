"""The datasets: toy distributions by name, scikit-learn's digits, CIFAR-10 from a folder, any array
or table in a file.

Legend: N rows to train on, M held out, K centers, d dimensions.

Centers, training rows and held-out rows are disjoint, and duplicate rows are dropped: the loss of a training row that
equals a center has no lower bound.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch
from jaxtyping import Float
from torch import Tensor

from ...core.base.errors import ConfigError, InputError
from ...core.base.extras import require
from ...core.base.formatting import plural
from ...data.tables import as_table, is_table
from . import cifar
from .toys import TOYS, toy

_CENTERS = 1000
_TOY_SAMPLES = 20_000  # for training
_TABLES = (".parquet", ".csv")

ImageShape = tuple[int, int, int]
"""(channels, height, width)."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSplits:
    """Rows of one distribution in three disjoint parts.

    Attributes:
        name: of the dataset.
        train_Nd, held_out_Md, centers_Kd: the parts.
        image_shape: (channels, height, width) where a row is an image.
        duplicates: rows that were dropped because they equal another.
    """

    name: str
    train_Nd: Float[Tensor, "N d"]
    held_out_Md: Float[Tensor, "M d"]
    centers_Kd: Float[Tensor, "K d"]
    image_shape: ImageShape | None = None
    duplicates: int = 0

    def __repr__(self) -> str:
        sizes = f"{len(self.train_Nd):,} training, {len(self.held_out_Md):,} held out, {len(self.centers_Kd):,} centers"
        return f"DataSplits({self.name!r}: rows of {plural(self.train_Nd.shape[1], 'number')}: {sizes})"

    def to(self, dtype: torch.dtype) -> "DataSplits":
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
) -> DataSplits:
    """Loads or samples a dataset, and splits it.

    Args:
        source: the name of a toy distribution (`toys.TOYS`), "digits", "cifar10", a .npy, .parquet or .csv
            file, or rows themselves.
        centers: how many; by default 1000, or a third of the rows where that is less.
        samples: training rows to sample from a toy distribution.
        held_out: the fraction of the rows that is held out; of toy distributions, as many as that are sampled anew.
            CIFAR-10 has its own test images.
        folder: that CIFAR-10 is in.
        seed: of the samples and of the split.

    Integers, as pixels are, get uniform noise in [0, 1) added, since they have no density otherwise; digits and
    CIFAR-10 are then scaled to [0, 1).
    """
    if not 0 < held_out < 1:
        raise ConfigError(f"held_out is {held_out}; give a fraction of the rows, between 0 and 1")
    if centers is not None and centers < 1:
        raise ConfigError(f"centers is {centers}; give at least 1")
    if isinstance(source, str) and source in TOYS:
        count = _TOY_SAMPLES if samples is None else samples
        counts = (count, max(2, round(held_out * count)), _CENTERS if centers is None else centers)
        train_Nd, held_out_Md, centers_Kd = (
            torch.from_numpy(toy(source, n, seed=3 * seed + index)) for index, n in enumerate(counts)
        )
        return DataSplits(source, train_Nd, held_out_Md, centers_Kd)
    rng = np.random.default_rng(seed)
    if isinstance(source, str) and source == "cifar10":
        images = cifar.read(Path("data") if folder is None else Path(folder))
        train, test = (_dequantize(rows[_distinct(rows)], 256, rng) for rows in images)
        train_Nd, _, centers_Kd = _split(train, centers, None, rng)
        duplicates = sum(map(len, images)) - len(train) - len(test)
        return DataSplits("cifar10", train_Nd, torch.from_numpy(test), centers_Kd, cifar.SHAPE, duplicates)
    rows, name, levels, image_shape = _read_rows(source)
    distinct = rows[_distinct(rows)]
    if np.issubdtype(distinct.dtype, np.integer):
        distinct = _dequantize(distinct, levels, rng)
    return DataSplits(name, *_split(distinct, centers, held_out, rng), image_shape, len(rows) - len(distinct))


def _read_rows(source: Any) -> tuple[np.ndarray, str, int, ImageShape | None]:
    """The rows of a finite dataset, its name, the divisor of integers, and the shape of an image."""
    if isinstance(source, str) and source == "digits":
        bunch: Any = require("examples", "sklearn.datasets").load_digits()
        return bunch.data.astype(np.uint8), "digits", 17, (1, 8, 8)
    rows, name = source, "rows"
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise InputError(
                f"there is no data {str(source)!r}: give {', '.join(TOYS)}, digits, cifar10, or a .npy, .parquet or "
                ".csv file that exists"
            )
        try:
            rows = _read_table(path) if path.suffix in _TABLES else np.load(path, allow_pickle=False)
        except pa.ArrowException as error:
            raise InputError(f"{path} cannot be read as a table: {error}; is it the right file?") from error
        except (ValueError, OSError, EOFError) as error:
            reason = str(error).partition(".")[0]  # what follows advises to load it unsafely
            raise InputError(
                f"{path} is not an array that numpy.save wrote: {reason}; save it with numpy.save, as numbers"
            ) from error
        if not isinstance(rows, np.ndarray | pa.Table):
            raise InputError(f"{path} holds several arrays; save the one that is meant with numpy.save")
        name = path.stem
    try:
        rows = np.asarray(native(rows))
    except (TypeError, ValueError) as error:  # lists of different lengths, columns of texts
        raise InputError(f"{name} cannot be read as numbers: {error}; give an array of shape (rows, d)") from error
    if rows.ndim > 2:
        rows = rows.reshape(len(rows), -1)
    if not (np.issubdtype(rows.dtype, np.integer) and rows.ndim == 2 and rows.size):
        rows = check_rows(np.ascontiguousarray(rows), name).numpy()
    return rows, name, 1, None


def _read_table(path: Path) -> pa.Table:
    """A table of numbers; a column of lists of one length is as many columns."""
    table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column: Any = table[name].combine_chunks()
        if pa.types.is_fixed_size_list(column.type):
            parts = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
            columns |= {f"{name}[{index}]": part for index, part in enumerate(parts.T)}
        else:
            columns[name] = column
    return pa.table(columns)


def _split(
    rows: np.ndarray, centers: int | None, held_out: float | None, rng: np.random.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Training rows, held-out rows (none without a fraction) and centers."""
    total = len(rows)
    held = 0 if held_out is None else max(1, round(held_out * total))
    count = min(_CENTERS, total // 3) if centers is None else centers
    if total - held - count < 1 or count < 1:
        raise InputError(
            f"{total} different rows are too few for {count or 1} centers, {held} held out and some to train on; give "
            "fewer centers (--train-kernel-size), or more rows"
        )
    order = rng.permutation(total)
    parts = order[held + count :], order[:held], order[held : held + count]
    return tuple(torch.from_numpy(np.ascontiguousarray(rows[part])) for part in parts)  # pyright: ignore[reportReturnType]


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The indices of the rows that equal no earlier one."""
    rows = np.ascontiguousarray(rows)
    if np.issubdtype(rows.dtype, np.floating):
        rows = rows + 0.0  # -0 equals 0
    items = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)
    return np.sort(np.unique(items, return_index=True)[1])


def _dequantize(rows: np.ndarray, levels: int, rng: np.random.Generator) -> np.ndarray:
    """Integers with uniform noise added, divided by the number of levels."""
    noisy = rng.random(rows.shape, dtype=np.float32)
    noisy *= 1 - 2.0**-12  # so that the sum does not round up to the next integer
    noisy += rows
    noisy /= levels
    return noisy


def native(rows: Any) -> Any:
    """A frame's numbers, or an array of another machine's byte order in this one's; anything else as it is."""
    if is_table(rows):
        table = as_table(rows)
        try:
            columns = {name: table[name].to_numpy() for name in table.column_names}
            for name, column in columns.items():
                if column.dtype.kind not in "biufc":
                    raise TypeError(f"column {name!r} holds no numbers")
            rows = np.column_stack(list(columns.values()))
        except (ValueError, pa.ArrowException) as error:
            raise TypeError(f"its columns cannot be stacked: {error}") from error
    if isinstance(rows, np.ndarray) and not rows.dtype.isnative:
        return rows.astype(rows.dtype.newbyteorder("="))
    return rows


def check_rows(rows: Any, name: str, columns: int | None = None) -> Float[Tensor, "N d"]:
    """Rows of finite numbers as float32 or float64, with as many columns as the centers where these are given.

    Raises:
        InputError: they are anything else; the first row that is not finite is named.
    """
    try:
        tensor = torch.as_tensor(native(rows))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as numbers: {error}; give an array of shape (rows, d)") from error
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise InputError(f"{name} have the shape {tuple(tensor.shape)}; give (rows, d), at least one row and column")
    if columns is not None and tensor.shape[1] != columns:
        raise InputError(f"{name} have {tensor.shape[1]} columns and the centers {columns}; give as many")
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise InputError(f"{name} are {tensor.dtype}; give real numbers")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    bad = torch.nonzero(~tensor.isfinite().all(1)).flatten()
    if len(bad):
        raise InputError(
            f"{name} have {len(bad)} row(s) with NaN or infinity, the first is row {int(bad[0])}; leave these out"
        )
    return tensor.detach()
