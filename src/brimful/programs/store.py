"""A result on disk: the run directory of its map, what was run, and the tables that people read.

model.json           the programs' sources, and how they were run
samples.parquet      what they were run on, grids as bytes
shard-*.parquet      what became of every sample (those of a run of `map`)
results.parquet      one row per program and sample
scores.parquet       one row per program and task
submission.json      the two best attempts for every test input
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..core.base.arguments import as_path
from ..core.memory.plan import Plan
from ..core.runs import model_store
from ..core.runs.files import write_atomic
from ..core.runs.parquet import write_tables
from ..core.runs.rundir import MANIFEST, read_manifest
from ..engine.map.result import reopen
from .data.tasks import Sample
from .execution.encoding import decode, encode
from .executors.usage import RunUsage
from .loading import SourceText, reload
from .outcomes import Outcomes, outcomes_of_map
from .result import ProgramResult
from .scoring import attempts_by_task, score_tables
from .table import result_table

_KIND, _VERSION = "programs", 3
_AT_ONCE = 4096  # samples of a part of their table
RESULTS, SCORES, SUBMISSION = "results.parquet", "scores.parquet", "submission.json"


def write_store(folder: Path, result: ProgramResult, on_error: str, pair_by_name: bool) -> None:
    """Writes what is to be read again, and the tables; the model last, without which there is no result."""
    outcomes = result.outcomes
    write_atomic(folder / RESULTS, lambda path: write_tables(result_table(outcomes), path, "zstd"))
    write_atomic(folder / SCORES, lambda path: write_tables(score_tables(outcomes), path))
    write_atomic(folder / SUBMISSION, lambda path: _write_submission(outcomes, path))
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
    tables = {"samples": _sample_tables(result.samples)}
    model_store.save(folder, kind=_KIND, version=_VERSION, meta=meta, tensors={}, tables=tables)


def _sample_tables(samples: Sequence[Sample]) -> Iterator[pa.Table]:
    """The samples, in parts."""
    for first in range(0, max(1, len(samples)), _AT_ONCE):
        yield _sample_table(samples[first : first + _AT_ONCE])


def _sample_table(samples: Sequence[Sample]) -> pa.Table:
    """Samples, their grids as bytes; demonstrations, which those of a task share, are there once."""
    shown, number = dict[int, int](), list[int]()  # by identity, and then by sample
    distinct = list[bytes]()
    for sample in samples:
        if id(sample.S) not in shown:
            shown[id(sample.S)] = len(distinct)
            distinct.append(encode(sample.S))
        number.append(shown[id(sample.S)])
    demonstrations = pa.DictionaryArray.from_arrays(pa.array(number, pa.int32()), pa.array(distinct, pa.binary()))
    return pa.table(
        {
            "task": pa.array([sample.task for sample in samples], pa.string()),
            "kind": pa.array([sample.kind for sample in samples], pa.string()),
            "pair": pa.array([sample.index for sample in samples], pa.int64()),
            "demonstrations": demonstrations,
            "input": pa.array([encode(sample.I) for sample in samples], pa.binary()),
            "target": pa.array([encode(sample.C) for sample in samples], pa.binary()),
            "problem": pa.array([sample.problem for sample in samples], pa.string()),
        }
    )


def _samples_of(table: pa.Table) -> list[Sample]:
    """The samples of a table."""
    if table.column_names == ["sample"]:  # of the second version: tuples
        return [Sample(*decode(row)) for row in table["sample"].to_pylist()]
    known, samples = dict[bytes, Any](), list[Sample]()
    for task, kind, pair, shown, grid, target, problem in zip(*table.to_pydict().values(), strict=True):
        if shown not in known:
            known[shown] = decode(shown)
        samples.append(Sample(task, kind, pair, known[shown], decode(grid), decode(target), problem))
    return samples


def _write_submission(outcomes: Outcomes, path: Path) -> None:
    with path.open("w") as file:
        file.write("{")
        for number, (task, attempts) in enumerate(attempts_by_task(outcomes)):
            file.write(f"{', ' if number else ''}{json.dumps(task)}: {json.dumps(attempts)}")
        file.write("}")


def load_result(path: str | Path) -> ProgramResult:
    """The result of a run of programs that has finished, from its folder."""
    folder = as_path(path, "give the folder of a run of programs")
    command = "brimful programs run FILE"
    stored = model_store.load(folder, kind=_KIND, version=_VERSION, command=command, what="run of programs")
    meta, table = stored.meta, stored.table("samples")
    try:
        samples = [] if table is None else _samples_of(table)
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
