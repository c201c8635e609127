"""What is trained and evaluated on: recordings of several datasets, without those that cannot be located."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..core.base.arguments import as_path
from ..core.base.errors import InputError
from .data.files import SUFFIXES, Dataset, from_long_table, read
from .data.recordings import MEANING, Fault, Recordings
from .physics.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Recordings that can be located and whose transmitter is known.

    Attributes:
        name: of the datasets.
        recordings: those that were not left out.
        scenario: that all of them come from; None where there are several, or none is known.
        left_out: why, and how many.
        seeds: of generated datasets.
    """

    name: str
    recordings: Recordings
    scenario: Scenario | None
    left_out: dict[str, int]
    seeds: tuple[int, ...] = ()


def load(sources: Any, url: str | None = None) -> list[Dataset]:
    """Datasets from paths, names or numbers in the database, `Dataset`s, `Recordings` or tables; one, or several.

    Args:
        url: of the database; by default the embedded one.

    Raises:
        InputError: there is none of that name.
    """
    many = sources if isinstance(sources, list | tuple) else [sources]
    if not many:
        raise InputError("dataset_ids is empty; name a file of `brimful locate generate`, or of your own recordings")
    return [_load(source, url) for source in many]


def _load(source: Any, url: str | None) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, Recordings):
        return Dataset("recordings", source)
    if hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        return Dataset("table", from_long_table(pa.table(source)))
    as_path(source, "give a .parquet or .csv file, a table, locate.Recordings, or the name of a stored dataset")
    if _is_file(source):
        return read(source)
    return _stored(source, url).read(str(source), url)


def check(sources: Sequence[str], url: str | None = None) -> None:
    """Raises `InputError` where a dataset of the database is not there; nothing of it is read."""
    for source in sources:
        if not _is_file(source):
            _stored(source, url).check(source, url)


def _is_file(source: Any) -> bool:
    return Path(source).suffix in SUFFIXES or Path(source).exists()


def _stored(source: Any, url: str | None) -> ModuleType:
    """The module of datasets in the database, where there is one."""
    if url is None and not _has_database():
        raise InputError(
            f"there is no dataset {str(source)!r}: it is no .parquet or .csv file, and there is no database; make one "
            f"with `brimful locate generate --name {source}`"
        )
    from .database import datasets as stored  # it needs the extra `postgres`

    return stored


def _has_database() -> bool:
    """Whether there is a database to look into; an embedded one is not made just for that."""
    from ..data.database.connection import Database

    database = Database.at()
    return database.home is None or (Path(database.home) / "data").exists()


def select(datasets: Sequence[Dataset], min_snr_db: float, max_gdop: float) -> Selected:
    """The recordings of datasets that can be located, are loud enough, and well placed."""
    recordings = Recordings.concatenate([dataset.recordings for dataset in datasets])
    known = recordings.transmitter.isfinite().all(1)
    faults = recordings.faults()
    reasons = {MEANING[fault]: faults == int(fault) for fault in Fault if fault is not Fault.NONE}
    reasons["the transmitter's position is not known"] = ~known
    reasons[f"the mean snr is below {min_snr_db} dB"] = ~(recordings.mean_snr_db >= min_snr_db)
    reasons[f"the GDOP is above {max_gdop}"] = ~(recordings.gdop <= max_gdop)
    left_out, keep = _first_reasons(reasons, len(recordings))
    name = ", ".join(dataset.name for dataset in datasets)
    if not bool(keep.any()):
        raise InputError(
            f"{name}: none of {len(recordings)} recordings can be used: "
            + "; ".join(f"{count} because {reason}" for reason, count in left_out.items())
            + ". Give others, or looser limits"
        )
    scenarios = {dataset.scenario for dataset in datasets}
    seeds = tuple(dataset.seed for dataset in datasets if dataset.seed is not None)
    scenario = scenarios.pop() if len(scenarios) == 1 else None
    return Selected(name, recordings.select(keep), scenario, left_out, seeds)


def _first_reasons(reasons: dict[str, Tensor], count: int) -> tuple[dict[str, int], Tensor]:
    """How many are left out for each reason, by the first that holds, and which are kept."""
    keep, left_out = torch.ones(count, dtype=torch.bool), {}
    for reason, wrong in reasons.items():
        if number := int((wrong & keep).sum()):
            left_out[reason] = number
        keep &= ~wrong
    return left_out, keep
