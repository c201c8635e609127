"""A result on disk: the run directory of its map, what was run, and the tables that people read.

model.json           the programs' sources, and how they were run
samples.parquet      what they were run on, as bytes
shard-*.parquet      what became of every sample (those of a run of `map`)
results.parquet      one row per program and sample
scores.parquet       one row per program and task
submission.json      the two best attempts for every test input
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..core.base.arguments import as_path
from ..core.memory.plan import Plan
from ..core.runs import model_store
from ..core.runs.files import write_atomic
from ..core.runs.rundir import MANIFEST, read_manifest
from ..engine.map.result import reopen
from .data.tasks import Sample
from .execution.encoding import decode, encode, tuple_header
from .executors.usage import RunUsage
from .loading import SourceText, reload
from .outcomes import outcomes_of_map
from .result import ProgramResult
from .table import SCHEMA, result_table

_KIND, _VERSION = "programs", 2
RESULTS, SCORES, SUBMISSION = "results.parquet", "scores.parquet", "submission.json"


def write_store(folder: Path, result: ProgramResult, on_error: str, pair_by_name: bool) -> None:
    """Writes what is to be read again, and the tables; the model last, without which there is no result."""
    write_atomic(folder / RESULTS, lambda path: _write_table(result, path))
    write_atomic(folder / SCORES, lambda path: pq.write_table(result.scores, path))
    write_atomic(folder / SUBMISSION, json.dumps(result.submission()).encode())
    meta: dict[str, Any] = {
        "sources": [
            [source.file, source.text, source.vocabulary, *([] if source.taken is None else [source.taken])]
            for source in result.programs.sources
        ],
        "on_error": on_error,
        "pair_by_name": pair_by_name,
        "merged": result.merged,
        "executor": result.executor,
        "usage": result.usage.to_dict(),
        "messages": {str(index): text for index, text in result.messages.items()},
        "plan": result.plan.to_dict(),
        "observed": result.observed,
        "seconds": result.seconds,
    }
    tables = {"samples": pa.table({"sample": pa.array(_encoded(result.samples), pa.binary())})}
    model_store.save(folder, kind=_KIND, version=_VERSION, meta=meta, tensors={}, tables=tables)


def _encoded(samples: Sequence[Sample]) -> list[bytes]:
    """Samples as tuples; demonstrations, which those of a task share, are encoded once."""
    shown, rows = dict[int, bytes](), list[bytes]()
    for sample in samples:
        if id(sample.S) not in shown:
            shown[id(sample.S)] = encode(sample.S)
        before, after = (sample.task, sample.kind, sample.index), (sample.I, sample.C, sample.problem)
        fields = [*map(encode, before), shown[id(sample.S)], *map(encode, after)]
        rows.append(tuple_header(len(fields)) + b"".join(fields))
    return rows


def _write_table(result: ProgramResult, path: Path) -> None:
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for part in result_table(result.outcomes):
            writer.write_table(part)


def load_result(path: str | Path) -> ProgramResult:
    """The result of a run of programs that has finished, from its folder."""
    folder = as_path(path, "give the folder of a run of programs")
    stored = model_store.load(folder, kind=_KIND, version=_VERSION, command="brimful programs run FILE --out DIR")
    meta, table = stored.meta, stored.table("samples")
    try:
        samples = [Sample(*decode(row)) for row in (table or pa.table({"sample": []}))["sample"].to_pylist()]
        programs = reload([SourceText(*source[:3], *map(tuple, source[3:])) for source in meta["sources"]])
        mapped = reopen(folder, read_manifest(folder))
        if mapped is None:
            raise stored.damaged(f"{MANIFEST} says that the run has not finished")
        return ProgramResult(
            outcomes=outcomes_of_map(programs, samples, mapped),
            messages={int(index): text for index, text in meta["messages"].items()},
            merged=meta["merged"],
            executor=meta["executor"],
            usage=RunUsage.from_dict(meta["usage"]),
            plan=Plan.from_dict(meta["plan"]),
            observed=meta["observed"],
            seconds=meta["seconds"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise stored.damaged(repr(error)) from error
