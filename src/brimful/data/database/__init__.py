"""Datasets in PostgreSQL: rows that are the truth, and chunks of them that are read at the speed of the server."""

from typing import TYPE_CHECKING

from ...core.base.lazy import lazy_names

if TYPE_CHECKING:
    from .datasets import (
        DatasetInfo,
        ReadRate,
        Verified,
        bench_dataset,
        build_dataset_chunks,
        delete_dataset,
        import_dataset,
        list_datasets,
        postgres,
        show_dataset,
        verify_dataset,
    )
    from .query import QueryDataset
    from .server import server_url, stop
    from .source import PostgresDataset
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "DatasetInfo",
    "PostgresDataset",
    "QueryDataset",
    "ReadRate",
    "Verified",
    "bench_dataset",
    "build_dataset_chunks",
    "delete_dataset",
    "import_dataset",
    "list_datasets",
    "postgres",
    "server_url",
    "show_dataset",
    "stop",
    "verify_dataset",
]
