"""Measured costs, remembered from one run to the next in the user's cache directory.

One small sealed file for each (workload signature, device, dtype, torch version). A file that is damaged, or
was written for another key, is passed over with a warning: the cost is then measured again.
"""

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
    path = (folder or cache_directory()) / key.filename
    try:
        if not path.exists():
            return None
        body = read_sealed(path, _KIND)
        if body["key"] != asdict(key):
            raise CorruptError(f"{path} was written for another key")
        cost = Cost(**body["cost"])
    except (CorruptError, OSError, KeyError, TypeError, ValueError) as error:
        warnings.warn(f"a remembered cost is ignored and will be measured again: {error}", BrimfulWarning, stacklevel=2)
        return None
    return replace(cost, source="remembered")


def remember(key: Key, cost: Cost, folder: Path | None = None) -> None:
    """Keeps a measured cost. A cache that cannot be written is no reason to stop: it only warns."""
    folder = folder or cache_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_sealed(folder / key.filename, _KIND, {"key": asdict(key), "cost": asdict(cost)})
    except (OSError, StorageError) as error:
        warnings.warn(f"a measured cost could not be remembered: {error}", BrimfulWarning, stacklevel=2)
