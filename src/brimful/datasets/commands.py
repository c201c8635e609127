"""What the commands of `brimful data` do with their options."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..core.base.errors import ConfigError, InputError, StorageError
from ..core.base.formatting import format_bytes
from ..core.declare.config import at_fault
from ..core.declare.result import measured
from ..core.runs.context import RunContext
from ..core.runs.events import Warned
from ..data import database
from ..data.database import DatasetInfo
from ..data.database.catalogue import check_name
from .options import BenchConfig, ChunksConfig, DeleteConfig, ImportConfig, ListConfig, ShowConfig, VerifyConfig

_CPU = torch.device("cpu")


def _summary(info: DatasetInfo) -> dict[str, Any]:
    values = {("data_bytes" if key == "bytes" else key): value for key, value in asdict(info).items()}
    values |= {
        "created": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.created)),
        "fields": [f"{name}: {form}" for name, form in info.fields.items()],
        "state": "ready"
        if info.fresh
        else "rows are newer than the chunks; the next run builds them, or brimful data chunks",
    }
    return values


def check_import(config: ImportConfig) -> None:
    """Whether the new name is one, and the file is there."""
    with at_fault("dataset"):
        check_name(config.dataset)
    if len(config.source.split()) < 2 and not Path(config.source).exists():
        with at_fault("source"):
            raise InputError(
                f"there is no file {config.source!r}; name a .npy, .npz, .parquet or .csv file, or a query"
            )


def run_import(config: ImportConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        columns = None if config.columns is None else [name.strip() for name in config.columns.split(",")]
        info = database.import_dataset(config.source, config.dataset, config.url, columns=columns, context=context)
        summary |= _summary(info)
    return summary


def run_list(config: ListConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        summary["datasets"] = [
            {
                "name": info.name,
                "rows": info.rows,
                "data_bytes": info.bytes,
                "sample_bytes": info.sample_bytes,
                "disk_bytes": info.disk_bytes,
                "version": info.version,
                "state": "ready" if info.fresh else "stale",
            }
            for info in database.list_datasets(config.url)
        ]
    return summary


def run_show(config: ShowConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        summary |= _summary(database.show_dataset(config.name, config.url))
    return summary


def run_verify(config: VerifyConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        verified = database.verify_dataset(config.name, config.url, context=context)
        for fault in verified.faults:
            context.events.emit(Warned(message=fault))
        if verified.faults:
            raise StorageError(
                f"dataset {config.name!r} has {len(verified.faults)} faults, the first: {verified.faults[0]}. The rows "
                f"are the truth: brimful data chunks {config.name} --anew"
            )
        summary |= {"name": verified.name, "rows": verified.rows, "chunks": verified.chunks, "faults": 0}
    return summary


def run_chunks(config: ChunksConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        info = database.build_dataset_chunks(config.name, config.url, anew=config.anew, context=context)
        summary |= _summary(info)
    return summary


def run_bench(config: BenchConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        rate = database.bench_dataset(config.name, config.url, connections=config.connections)
        summary |= {
            "name": rate.name,
            "read_bytes": rate.bytes,
            "connections": rate.connections,
            "first_chunk_seconds": rate.first_seconds,
            "all_seconds": rate.seconds,
            "megabytes_per_second": rate.megabytes_per_second,
            "megabytes_per_second_again": rate.megabytes_per_second_again,
        }
    return summary


def run_delete(config: DeleteConfig, context: RunContext) -> Mapping[str, Any]:
    with measured(_CPU) as summary:
        if not config.yes:
            info = database.show_dataset(config.name, config.url)
            raise ConfigError(
                f"this deletes {info.rows:,} rows of {info.name!r}, {format_bytes(info.disk_bytes)} in the database; "
                "add --yes to do it"
            )
        info = database.delete_dataset(config.name, config.url)
        summary |= {"deleted": info.name, "rows": info.rows, "disk_bytes": info.disk_bytes}
    return summary
