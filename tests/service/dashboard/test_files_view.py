"""Which files of a job are its results."""

from brimful.service.dashboard.parts.job.files_view import kind_of, split
from brimful.service.jobs.job import Artifact


def names(*given: str) -> tuple[list[str], list[str]]:
    results, kept = split([Artifact(name=name, bytes=1, modified=0.0, media_type="") for name in given])
    return [one.name for one in results], [one.name for one in kept]


def test_results_come_first_and_what_a_run_keeps_is_apart():
    run = ["checkpoints/0000020/state.json", "checkpoints/best", "events.jsonl", "lock", "manifest.json"]
    results = ["wpo.png", "history.parquet", "weights.safetensors", "model.json", "notes.bin"]
    assert names(*sorted(run + results)) == (results, run)


def test_parts_of_a_table_are_results_where_there_is_no_whole():
    shard = "shard-000000000000-000000000002.parquet"
    assert names("batches.jsonl", shard) == ([shard], ["batches.jsonl"])
    assert names("results.parquet", shard) == (["results.parquet"], [shard])


def test_kinds_are_plain_words():
    kinds = {"a.PNG": "picture", "a/b.parquet": "table (Parquet)", "x.json": "JSON", "best": "other"}
    assert {name: kind_of(name) for name in kinds} == kinds
