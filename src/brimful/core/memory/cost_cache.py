"""Measured costs, remembered from one run to the next in the user's cache directory.

One small sealed file for each (workload signature, device, dtype, torch version). A file that is damaged, or
was written for another key, is passed over with a warning: the cost is then measured again. A cost that is as good as
what is remembered is not written: to wait for a disk takes longer than many a run.
"""

import contextlib
import hashlib
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from ..base.directories import cache_directory
from ..base.errors import BrimfulWarning, CorruptError, StorageError
from ..runs.files import read_sealed, write_sealed
from .cost import Cost

_KIND = "brimful.cost/1"
_ALIKE = 0.02  # of a number, that it may differ by and be as good


@dataclass(frozen=True, slots=True)
class Key:
    """What a measured cost depends on.

    Attributes:
        signature: the workload, its shapes and the options that change its memory.
        device: the device's product name.
        dtype: the number format that the work is done in.
        torch: torch's version; its allocator and kernels change what a step needs.
    """

    signature: str
    device: str
    dtype: str
    torch: str = torch.__version__

    @property
    def filename(self) -> str:
        text = "\n".join(asdict(self).values())
        return hashlib.sha256(text.encode()).hexdigest()[:32] + ".json"


def recall(key: Key, folder: Path | None = None) -> Cost | None:
    """The cost measured earlier for this key, or None."""
    try:
        cost = _read(key, folder or cache_directory())
    except (CorruptError, OSError, KeyError, TypeError, ValueError) as error:
        warnings.warn(f"a remembered cost is ignored and will be measured again: {error}", BrimfulWarning, stacklevel=2)
        return None
    return cost and replace(cost, source="remembered")


def _read(key: Key, folder: Path) -> Cost | None:
    path = folder / key.filename
    if not path.exists():
        return None
    body = read_sealed(path, _KIND)
    if body["key"] != asdict(key):
        raise CorruptError(f"{path} was written for another key")
    return Cost(**body["cost"])


def _alike(one: Cost, other: Cost) -> bool:
    pairs = ((getattr(one, name), getattr(other, name)) for name in ("fixed", "per_unit", "margin", "fastest"))
    return one.growing == other.growing and all(abs(a - b) <= _ALIKE * max(a, b) for a, b in pairs)


def remember(key: Key, cost: Cost, folder: Path | None = None, recalled: Cost | None = None) -> None:
    """Keeps a measured cost. A cache that cannot be written is no reason to stop: it only warns.

    Args:
        recalled: what `recall` gave for the key in this run; the file is not read again where that is as good.
    """
    if recalled is not None and _alike(recalled, cost):
        return
    folder = folder or cache_directory()
    with contextlib.suppress(CorruptError, OSError, KeyError, TypeError, ValueError):
        if (before := _read(key, folder)) is not None and _alike(before, cost):
            return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_sealed(folder / key.filename, _KIND, {"key": asdict(key), "cost": asdict(cost)})
    except (OSError, StorageError) as error:
        warnings.warn(f"a measured cost could not be remembered: {error}", BrimfulWarning, stacklevel=2)
