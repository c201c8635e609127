"""Results of unequal length: one sample per item, as the function gave it, whatever way it takes."""

import json
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful import Batch, BudgetError, InputError, Status
from brimful.core.runs.events import BatchDone
from brimful.data import Ragged

from ...core.base.samples import lists_of, ragged
from .mapping import Recorded, run, same


@dataclass(frozen=True)
class Lookup:
    """The sample that stands in a list, for each index."""

    samples: list[list[int]]
    dtype: torch.dtype = torch.uint8

    def __call__(self, index: torch.Tensor) -> Ragged:
        return ragged([self.samples[item] for item in index.tolist()], self.dtype)


def spelled(x: torch.Tensor) -> Ragged:
    """Each number as its decimal digits."""
    return Ragged.of([torch.tensor(list(str(int(number)).encode()), dtype=torch.uint8) for number in x])


def without_27(x: torch.Tensor) -> Ragged:
    if bool((x == 27).any()):
        raise ValueError("not this one")
    return spelled(x)


def numbers_of(texts: Ragged) -> list[int]:
    return [int(bytes(text.tolist())) for text in texts.samples()]


def repeated(x: torch.Tensor) -> dict[str, Any]:
    """Every number as many times as it says, in several forms."""
    offsets = torch.cat([x.new_zeros(1), x]).cumsum(0)
    times = x.repeat_interleave(x)
    return {"n": x, "parts": (Ragged(times, offsets), [Ragged(times[:, None].float() + torch.zeros(3), offsets)])}


def expect_repeated(values: dict[str, Any], x: torch.Tensor) -> None:
    assert values["n"].tolist() == x.tolist()
    plain, [shaped] = values["parts"]
    assert lists_of(plain) == [[number] * number for number in x.tolist()]
    assert lists_of(shaped) == [[[number] * 3] * number for number in x.tolist()]
    assert plain.values.dtype == torch.int64
    assert shaped.values.dtype == torch.float32


@settings(max_examples=12)
@given(
    st.lists(st.lists(st.integers(0, 255), max_size=5), min_size=1, max_size=30),
    st.integers(1, 31),
    st.sampled_from([torch.uint8, torch.int32, torch.bfloat16]),
    st.booleans(),
)
def test_any_samples_come_back_in_any_batch_size(
    samples: list[list[int]], batch_size: int, dtype: torch.dtype, weighed: bool
):
    fn, items = Lookup(samples, dtype), torch.arange(len(samples))
    options: dict[str, Any] = {"batch_size": batch_size}
    if weighed:
        options = {"weight": [1 + len(sample) for sample in samples]}
    assert lists_of(run(fn, items, **options).values) == samples
    with tempfile.TemporaryDirectory() as folder:
        run(fn, items, out=f"{folder}/run", **options)
        opened: Any = brimful.open(f"{folder}/run")
        assert lists_of(opened.values) == samples


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 255), max_size=5), min_size=1, max_size=30), st.integers(1, 31))
def test_any_samples_of_a_stream_come_back(samples: list[list[int]], batch_size: int):
    result = run(Lookup(samples), iter(torch.arange(len(samples))), batch_size=batch_size)
    assert lists_of(result.values) == samples
    assert lists_of(result.values) == samples  # and once more


@pytest.mark.parametrize("where", ["known", "stream", "disk"])
def test_samples_anywhere_in_a_result(where: str, tmp_path: Path):
    x = torch.randint(0, 7, (500,), generator=torch.Generator().manual_seed(0))
    options = {"out": tmp_path / "run"} if where == "disk" else {}
    result = run(repeated, iter(x) if where == "stream" else x, batch_size=9, **options)
    values = result.values
    if where == "disk":
        values["parts"] = (values["parts"][0], list(values["parts"][1]))
    expect_repeated(values, x)
    table = result.table()
    assert table["parts.0"].to_pylist() == [[number] * number for number in x.tolist()]
    assert table["n"].to_pylist() == x.tolist()


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
def test_workers_give_the_same_samples(disk: bool, tmp_path: Path):
    numbers = torch.arange(3000) ** 2
    result = run(spelled, numbers, device="cpu,cpu", batch_size=70, **({"out": tmp_path / "run"} if disk else {}))
    assert numbers_of(result.values) == numbers.tolist()


def test_workers_give_the_same_samples_by_weight_and_without_the_bad_ones():
    numbers = torch.arange(200) ** 3
    result = run(without_27, numbers, device="cpu,cpu", weight=1 + numbers % 11)
    texts = [bytes(text.tolist()).decode() for text in result.values.samples()]
    assert texts == ["" if number == 27 else str(number) for number in numbers.tolist()]
    assert np.flatnonzero(result.status).tolist() == [3]


@pytest.mark.soak
@settings(max_examples=20)
@given(st.lists(st.lists(st.integers(0, 255), max_size=5), min_size=1, max_size=60), st.integers(1, 31), st.booleans())
def test_any_samples_come_back_from_workers(samples: list[list[int]], batch_size: int, disk: bool):
    with tempfile.TemporaryDirectory() as folder:
        options = {"out": f"{folder}/run"} if disk else {}
        result = run(Lookup(samples), torch.arange(len(samples)), device="cpu,cpu", batch_size=batch_size, **options)
        assert lists_of(result.values) == samples


def test_texts_on_disk_are_bytes_for_every_reader(tmp_path: Path):
    polars = pytest.importorskip("polars")
    result = run(spelled, torch.arange(95, 105), batch_size=3, out=tmp_path / "run")
    expected = [str(number).encode() for number in range(95, 105)]
    shards = [*(tmp_path / "run").glob("shard-*.parquet")]
    table = pq.read_table(shards).sort_by("item")
    assert table["value"].to_pylist() == expected
    assert table.to_pandas()["value"].tolist() == expected
    assert polars.read_parquet(shards).sort("item")["value"].to_list() == expected
    assert result.table()["value"].type == pa.large_binary()


def test_many_small_shards_are_collected(tmp_path: Path):
    numbers = torch.arange(300)
    result = run(spelled, numbers, batch_size=2, out=tmp_path / "run")
    assert len([*(tmp_path / "run").glob("shard-*.parquet")]) < 50
    assert numbers_of(result.values) == numbers.tolist()


def test_a_resumed_run_has_the_same_samples(tmp_path: Path):
    numbers, cancel, first = torch.arange(400) * 37, threading.Event(), Recorded(spelled)

    def stop(event: Any) -> None:
        if isinstance(event, BatchDone) and event.done >= 120:
            cancel.set()

    with pytest.raises(brimful.CancelledError):
        run(first, numbers, batch_size=8, out=tmp_path / "run", fingerprint="it", cancel=cancel, progress=stop)
    again = Recorded(spelled)
    result = run(again, numbers, batch_size=8, out=tmp_path / "run", fingerprint="it")
    assert 0 < sum(again.sizes) <= 400 - 120
    whole = spelled(numbers)
    assert same(result.values.values, whole.values)
    assert same(result.values.offsets, whole.offsets)


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
def test_a_bad_item_is_an_empty_sample_and_its_neighbors_are_untouched(disk: bool, tmp_path: Path):
    def picky(x: torch.Tensor) -> Ragged:
        if bool(((x == 13) | (x >= 60)).any()):
            raise ValueError("not this one")
        return spelled(x)

    result = run(picky, torch.arange(70), batch_size=10, **({"out": tmp_path / "run"} if disk else {}))
    bad = [13, *range(60, 70)]  # one of a batch, and a whole batch
    assert np.flatnonzero(result.status == Status.FAILED).tolist() == bad
    texts = [bytes(text.tolist()).decode() for text in result.values.samples()]
    assert texts == ["" if number in bad else str(number) for number in range(70)]
    assert result.values.values.dtype == torch.uint8


def test_batches_that_fail_before_any_result_is_known_are_empty():
    def late(x: torch.Tensor) -> Ragged:
        if bool((x < 4).any()):
            raise ValueError("too early")
        return spelled(x)

    for items in (torch.arange(6), iter(torch.arange(6))):
        result = run(late, items, batch_size=2)
        assert [len(text) for text in result.values.samples()] == [0, 0, 0, 0, 1, 1]


def test_where_all_fail_there_are_no_values(tmp_path: Path):
    def wrong(x: torch.Tensor) -> Ragged:
        raise ValueError("never")

    for options in ({}, {"out": tmp_path / "run"}):
        result = run(wrong, torch.arange(2), **options)
        assert result.values is None
        assert (result.status == Status.FAILED).all()
        assert result.table().num_rows == 2


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("samples", [[[]], [[], [], []], [[7, 8]]], ids=str)
def test_samples_that_are_empty_and_a_single_one(samples: list[list[int]], disk: bool, tmp_path: Path):
    options = {"out": tmp_path / "run"} if disk else {}
    result = run(Lookup(samples), torch.arange(len(samples)), **options)
    assert lists_of(result.values) == samples
    assert result.table()["value"].to_pylist() == [bytes(sample) for sample in samples]


def test_no_items_at_all(tmp_path: Path):
    for options in ({}, {"out": tmp_path / "run"}):
        assert run(spelled, torch.zeros(0), **options).values is None


def lengthy(x: torch.Tensor) -> Ragged:
    """As many reciprocals of a number as it says."""
    counts = x.abs().long()
    return Ragged((1 / x).repeat_interleave(counts), torch.cat([counts.new_zeros(1), counts]).cumsum(0))


def test_samples_with_a_value_that_is_not_finite_are_flagged():
    def spoiled(x: torch.Tensor) -> dict[str, Any]:
        samples = lengthy(x)
        samples.values[samples.values == 1 / 3] = float("inf")
        return {"x": samples, "n": x}

    x = torch.tensor([2.0, 3.0, 0.0, 5.0, 3.0], dtype=torch.float64)
    result = run(spoiled, x, batch_size=2)
    assert result.status.tolist() == [0, Status.NONFINITE, 0, 0, Status.NONFINITE]  # an empty one is fine
    assert result.values["x"].lengths.tolist() == [2, 3, 0, 5, 3]
    assert run(spoiled, x, batch_size=2, nonfinite="allow").ok.all()


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
def test_the_fallbacks_samples_are_put_in_their_place(disk: bool, tmp_path: Path):
    def picky(x: torch.Tensor) -> tuple[Ragged, torch.Tensor]:
        if bool((x % 5 == 3).any()):
            raise ValueError("not this one")
        return lengthy(x), x

    def other(x: torch.Tensor) -> tuple[Ragged, torch.Tensor]:
        return lengthy(-x.double()), x.double()

    x = torch.arange(1.0, 31.0)
    result = run(picky, x, fallback=other, batch_size=7, **({"out": tmp_path / "run"} if disk else {}))
    rescued = x % 5 == 3
    assert (result.status == np.where(rescued, Status.RESCUED, Status.OK)).all()
    for number, saved, sample in zip(x, rescued, result.values[0].samples(), strict=True):
        assert same(sample, torch.full((int(number),), float((-1 if saved else 1) / number)))
    assert same(result.values[1], x)


def test_a_fallback_beyond_the_range_of_the_dtype_is_said():
    def picky(x: torch.Tensor) -> Ragged:
        if bool((x == 2).any()):
            raise ValueError("two")
        return lengthy(x)

    def huge(x: torch.Tensor) -> Ragged:
        return Ragged(torch.full((3,), 1e300, dtype=torch.float64), torch.tensor([0, 3]))

    result = run(picky, torch.arange(1.0, 6.0), fallback=huge, batch_size=5)
    assert "beyond the dtype's range" in result.messages[1]
    assert result.status[1] == Status.FAILED


def test_a_function_may_say_itself_what_went_wrong():
    def careful(x: torch.Tensor) -> Batch:
        return Batch(spelled(x), status=torch.where(x % 2 == 1, 17, 0), meaning={17: "odd"})

    result = run(careful, torch.arange(9), batch_size=4)
    assert numbers_of(result.values) == list(range(9))
    assert result.messages == dict.fromkeys(range(1, 9, 2), "odd")


def by_first(later: Any) -> Any:
    """A function that gives one thing for the first batch, and another for the next."""

    def function(x: torch.Tensor) -> Any:
        return Ragged(torch.zeros(4, 2), torch.tensor([0, 1, 4])) if x[0] == 0 else later

    return function


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize(
    "later",
    [
        Ragged(torch.zeros(4, 2, dtype=torch.float64), torch.tensor([0, 1, 4])),
        Ragged(torch.zeros(4, 3), torch.tensor([0, 1, 4])),
        Ragged(torch.zeros(4), torch.tensor([0, 1, 4])),
        torch.zeros(2, 2),
    ],
    ids=["dtype", "shape", "axes", "a tensor"],
)
def test_another_dtype_or_shape_is_refused(later: Any, disk: bool, tmp_path: Path):
    with pytest.raises(InputError, match="must be the same in all"):
        run(by_first(later), torch.arange(4), batch_size=2, **({"out": tmp_path / "run"} if disk else {}))


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (Ragged(torch.zeros(3), torch.tensor([0, 1, 2])), "offsets must rise from 0 to the number of values, 3"),
        (Ragged(torch.zeros(3), torch.tensor([0, 9, 3])), "offsets must rise"),
        (Ragged(torch.zeros(3), torch.tensor([0.0, 1.0, 3.0])), "a Ragged needs"),
        (Ragged(torch.zeros(3), torch.tensor([0, 3])), "2 items and returned 1 rows"),
        ({"x": Ragged(torch.zeros(3), torch.tensor([0, 3])), "y": torch.zeros(2)}, "x: 1, y: 2"),
    ],
)
def test_samples_that_are_none_are_refused(samples: Any, said: str):
    with pytest.raises(InputError, match=said):
        run(lambda x: samples, torch.arange(2), batch_size=2)


def test_results_beyond_the_budget_are_refused_once_they_are_there():
    """The first half is empty, so that nobody could know."""

    def growing(x: torch.Tensor) -> Ragged:
        counts = (x >= 500).long() * 20_000
        return Ragged(torch.zeros(int(counts.sum())), torch.cat([counts.new_zeros(1), counts]).cumsum(0))

    with pytest.raises(BudgetError, match="Pass out="):
        run(growing, torch.arange(2000), budget="60MB", device="cpu")


SCRIPT = """
import json, sys
import pandas
import torch
import brimful
from brimful.core.memory.devices import resident_bytes
from brimful.core.memory.monitor import Peak
from brimful.data import Ragged

count, mean, out, budget = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])

def function(x):
    counts = (2 * mean * x) // count
    return Ragged(torch.ones(int(counts.sum()), dtype=torch.uint8), torch.cat([counts.new_zeros(1), counts]).cumsum(0))

brimful.map(lambda x: x, torch.arange(2), progress=False, device="cpu")  # what a first call imports is no batch's
with Peak(torch.device("cpu"), resident_bytes()) as peak:
    result = brimful.map(function, torch.arange(count), budget=budget, out=out, progress=False, device="cpu")
again = brimful.map(function, torch.arange(count), budget=budget, out=out + "-again", progress=False, device="cpu")
batches = [len(list(open(folder + "/batches.jsonl"))) for folder in (out, out + "-again")]
ok = int((result.ok & again.ok).sum())
print(json.dumps({"peak": peak.bytes, "observed": result.observed, "ok": ok, "batches": batches}))
"""


def test_results_that_grow_longer_stay_inside_the_budget_on_disk(tmp_path: Path):
    """Two budgets of bytes, the last samples twice as long as the mean, and nothing tells so before. There is room for
    hundreds of items in a batch, and what the run remembers says no less to the next one."""
    count, mean, budget = 15_000, 10_000, 75_000_000
    command = [sys.executable, "-c", SCRIPT, str(count), str(mean), str(tmp_path / "run"), str(budget)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    measured = json.loads(ended.stdout)
    assert measured["ok"] == count
    assert measured["peak"] <= budget
    assert measured["observed"] <= budget
    assert max(measured["batches"]) < count / 20
