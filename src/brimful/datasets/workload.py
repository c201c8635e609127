"""`brimful data`: the registration."""

from ..core.declare.registry import Command, Workload
from .commands import check_import, run_bench, run_chunks, run_delete, run_import, run_list, run_show, run_verify
from .options import BenchConfig, ChunksConfig, DeleteConfig, ImportConfig, ListConfig, ShowConfig, VerifyConfig

WORKLOAD = Workload(
    name="data",
    help="Datasets in PostgreSQL, read at the speed of the server: import one, then data.postgres(NAME) in Python.",
    commands=(
        Command(
            name="import",
            help="Make a dataset from a file or a query: a table of its rows, in typed columns, and chunks of them, "
            "which are what training reads. It can be read as data.postgres(NAME) by data.loader, train and map. The "
            "rows are in the table brimful_data.NAME; change them with SQL as you like, the chunks are built again.",
            config=ImportConfig,
            run=run_import,
            job=True,
            check=check_import,
        ),
        Command(name="list", help="The datasets there are, with their sizes.", config=ListConfig, run=run_list),
        Command(
            name="show", help="One dataset: fields, rows, bytes, version, chunks.", config=ShowConfig, run=run_show
        ),
        Command(
            name="verify",
            help="Read all rows and all chunks and compare them: tells damage, and changes made without triggers.",
            config=VerifyConfig,
            run=run_verify,
            job=True,
        ),
        Command(
            name="chunks",
            help="Build the chunks of a dataset whose rows have changed. A run that opens the dataset does so itself.",
            config=ChunksConfig,
            run=run_chunks,
            job=True,
        ),
        Command(
            name="bench",
            help="Read a dataset into host memory, twice, and tell the rates.",
            config=BenchConfig,
            run=run_bench,
        ),
        Command(name="delete", help="Remove a dataset, its rows and its chunks.", config=DeleteConfig, run=run_delete),
    ),
)
