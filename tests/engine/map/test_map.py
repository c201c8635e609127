"""`brimful.map` as a user calls it."""

import itertools
import math
from collections.abc import Iterator
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
from brimful import Batch, ConfigError, Cost, InputError, MapResult, Status
from brimful.core.base.errors import BrimfulWarning, BudgetError, DeviceError
from brimful.core.memory.plan import Plan
from brimful.core.runs.events import BatchDone, Finished, MemoryMeasured, Planned, Started
from brimful.engine.map import plan_map

from ...helpers.memory import pages
from .mapping import EventLog, Recorded, double, rows, run, same, stamped, stream

# What the function gets, for items of every kind.


def test_a_tensor():
    result = run(double, rows(100))
    assert same(result.values, rows(100) * 2)
    assert result.status.tolist() == [0] * 100
    assert result.messages == {}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, np.bool_, np.complex64])
def test_an_array_of_any_dtype(dtype: Any):
    array = (np.arange(60).reshape(20, 3) % 2).astype(dtype)
    array.flags.writeable = False
    result = run(lambda x: x.clone(), array)
    assert result.values.numpy().dtype == array.dtype
    assert np.array_equal(result.values.numpy(), array)


def test_tuples_and_dicts_nested():
    x = rows(50)
    items = {"a": x, "b": (x.long(), [1.5] * 50)}
    result = run(lambda batch: (batch["a"] + batch["b"][1][:, None], {"n": batch["b"][0]}), items)
    assert same(result.values[0], x + torch.full((50, 1), 1.5, dtype=torch.float64))
    assert same(result.values[1]["n"], x.long())


def test_a_table_with_nulls_texts_and_lists():
    table = pa.table(
        {
            "name": [f"row {i}" for i in range(40)],
            "n": [None if i == 7 else i for i in range(40)],
            "v": pa.array([None if i == 9 else [i, i + 0.5] for i in range(40)], pa.list_(pa.float64(), 2)),
            "f": [None if i == 11 else i / 2 for i in range(40)],
        }
    )
    with pytest.warns(BrimfulWarning, match="name"):
        result = run(lambda batch: batch["n"] + batch["v"].sum(1) + batch["f"], table)
    assert {i: int(code) for i, code in enumerate(result.status) if code} == {7: 3, 9: 3, 11: 2}
    assert result.messages[7] == "column 'n' is null"
    good = [i for i in range(40) if i not in (7, 9, 11)]
    assert result.values[good].tolist() == [i + 2 * i + 0.5 + i / 2 for i in good]


@pytest.mark.parametrize("folder", [False, True])
def test_parquet(tmp_path: Path, folder: bool):
    x = rows(100, 1)[:, 0].numpy()
    if folder:
        for part_number in range(4):
            part = pa.table({"x": x[part_number * 25 : part_number * 25 + 25]})
            pq.write_table(part, tmp_path / f"{part_number}.parquet", row_group_size=7)
    else:
        pq.write_table(pa.table({"x": x}), tmp_path / "x.parquet", row_group_size=13)
    result = run(lambda batch: batch["x"] * 2, str(tmp_path if folder else tmp_path / "x.parquet"), batch_size=9)
    assert same(result.values, torch.from_numpy(x * 2))


def test_a_list_a_generator_and_numbers():
    assert same(run(double, list(rows(30))).values, rows(30) * 2)
    assert same(run(double, stream(300)).values, rows(300) * 2)
    assert run(double, [1.0, 2.0, 3.0]).values.tolist() == [2, 4, 6]
    assert run(double, (i for i in range(5))).values.tolist() == [0, 2, 4, 6, 8]
    assert run(lambda b: b["a"] + b["b"], ({"a": i, "b": 1} for i in range(5))).values.tolist() == [1, 2, 3, 4, 5]


def test_one_item_of_another_shape_in_a_stream_is_one_flagged_item():
    def ragged() -> Iterator[Any]:
        for i, x in enumerate(stream(200)):
            yield x[:2] if i == 77 else "text" if i == 150 else x

    result = run(double, ragged())
    assert np.flatnonzero(result.status).tolist() == [77, 150]
    assert "(2,)" in result.messages[77]
    good = [i for i in range(200) if i not in (77, 150)]
    assert same(result.values[good], rows(200)[good] * 2)
    assert result.values[77].isnan().all()


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("items", [lambda: rows(0), lambda: stream(0), list, lambda: {"a": np.zeros((0, 2))}])
def test_no_items(items: Any, out: bool, tmp_path: Path):
    result = run(double, items(), out=tmp_path / "run" if out else None)
    assert result.values is None
    assert len(result.status) == 0
    assert result.table().num_rows == 0
    assert result.summary()["items"] == 0


@pytest.mark.parametrize("items", [lambda: rows(1), lambda: stream(1), lambda: [rows(1)[0]]])
def test_one_item(items: Any):
    assert same(run(double, items()).values, rows(1) * 2)


def test_the_function_may_change_its_batch_without_harm_to_the_callers_data():
    items = {"x": rows(60), "n": np.arange(60)}

    def careless(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        batch["n"].zero_()
        return batch.pop("x").mul_(2)

    assert same(run(careless, items, batch_size=7).values, rows(60) * 2)
    assert same(items["x"], rows(60))
    assert items["n"].tolist() == list(range(60))


def test_a_module_and_gradients():
    model = torch.nn.Linear(3, 2)
    result = run(model, rows(80).requires_grad_())
    assert not result.values.requires_grad
    assert torch.allclose(result.values, model(rows(80)).detach(), rtol=1e-4)


# What is refused, and in what words.


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (5, "give a tensor"),
        ({"a": torch.zeros(3), "b": torch.zeros(4)}, "a: 3, b: 4"),
        (torch.tensor(1.0), "leading axis"),
        ({}, "no fields"),
        (np.array(["a", "b"]), "cannot become a tensor"),
        ("nowhere.parquet", "does not exist"),
    ],
)
def test_items_that_cannot_be_worked_on(items: Any, words: str):
    with pytest.raises(InputError, match=words):
        run(double, items)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batch_size": 0}, ConfigError, "batch_size is 0"),
        ({"batch_size": True}, ConfigError, "batch_size is True"),
        ({"batch_size": "large"}, ConfigError, "'large'.*'auto'"),
        ({"batch_size": 4, "weight": [1, 2, 3]}, ConfigError, "exclude each other"),
        ({"weight": [1, 2]}, InputError, "3 items"),
        ({"nonfinite": "drop"}, ConfigError, "'flag' or 'allow'"),
        ({"device": "tpu"}, DeviceError, "tpu"),
        ({"budget": "12"}, BudgetError, "12GB"),
        ({"fallback": 3}, InputError, "fallback is 3"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        run(double, rows(3), **options)


def test_a_function_that_is_none():
    with pytest.raises(InputError, match="must be a function"):
        run(rows(3), rows(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("out", [False, True])
def test_results_of_the_wrong_length_or_of_changing_form(out: bool, tmp_path: Path):
    folder = tmp_path / "run" if out else None
    with pytest.raises(InputError, match="got 5 items and returned 4 rows"):
        run(lambda x: x[1:], rows(10), batch_size=5, out=folder)
    with pytest.raises(InputError, match="must be the same in all"):
        result = run(
            lambda x: x if len(x) == 4 else x.double(), rows(7), batch_size=4, out=tmp_path / "2" if out else None
        )
        assert result.values is None


def test_a_stream_whose_results_change_form():
    with pytest.raises(InputError, match="must be the same in all"):
        _ = run(lambda x: x if len(x) == 5 else x.double(), stream(12), batch_size=5).values


def test_results_that_do_not_fit_the_budget_say_so_in_time():
    with pytest.raises(BudgetError, match=r"results of 1,000 items take 4\.0\d GB.*out="):
        run(lambda x: torch.zeros(len(x), 1_000_000), rows(1000), batch_size=2, budget="100MB")


# ItemSource that go wrong.


@settings(max_examples=25)
@given(st.integers(8, 90), st.integers(4, 20), st.data())
def test_any_bad_items_are_flagged_and_the_others_are_bit_equal(count: int, batch: int, data: st.DataObject):
    bad = data.draw(st.sets(st.integers(0, count - 1), max_size=count // 2))
    items = torch.arange(count, dtype=torch.float32)

    def function(x: torch.Tensor) -> torch.Tensor:
        failing = bad & set(x.int().tolist())
        if failing:
            raise ValueError(f"item {min(failing)}")
        return stamped(x)

    try:
        result = run(function, items, batch_size=batch)
    except ValueError as error:
        assert any("has not worked once" in note for note in error.__notes__)
        first = math.ceil(count / math.ceil(count / batch))
        assert bad >= set(range(first))
        return
    assert set(np.flatnonzero(result.status).tolist()) == bad
    assert result.messages == {item: f"ValueError: item {item}" for item in bad}
    without = run(stamped, items, batch_size=batch)
    good = [item for item in range(count) if item not in bad]
    assert same(result.values[good], without.values[good])
    assert result.values[sorted(bad)].isnan().all()


def test_nonfinite_results_are_flagged_or_allowed():
    items = torch.tensor([1.0, 0.0, -1.0, 4.0])
    flagged = run(torch.log, items)
    assert flagged.status.tolist() == [0, 2, 2, 0]
    assert flagged.ok.tolist() == [True, False, False, True]
    assert np.array_equal(flagged.values.numpy(), np.array([0, -np.inf, np.nan, np.log(4)], np.float32), equal_nan=True)
    allowed = run(torch.log, items, nonfinite="allow")
    assert allowed.status.tolist() == [0, 0, 0, 0]
    assert allowed.messages == {}


def test_a_functions_own_codes_and_messages_are_passed_through():
    def function(x: torch.Tensor) -> Batch:
        odd = x.long() % 2 == 1
        return Batch({"y": x}, odd.to(torch.int8) * 42, {int(i): f"odd {int(x[i])}" for i in odd.nonzero()})

    result = run(function, torch.arange(50.0), batch_size=7)
    assert result.status.tolist() == [0, 42] * 25
    assert result.messages == {i: f"odd {i}" for i in range(1, 50, 2)}
    assert result.values["y"].tolist() == list(range(50))


def test_a_function_that_is_simply_wrong_raises_what_it_raised():
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x @ torch.zeros(99, 99)

    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught:
        run(wrong, rows(500), batch_size=64)
    assert any("has not worked once" in note for note in caught.value.__notes__)


def test_items_that_fail_only_together_are_all_done():
    def function(x: torch.Tensor) -> torch.Tensor:
        if {10, 11} <= set(x.long().tolist()) or {40, 45} <= set(x.long().tolist()):
            raise ValueError("not together")
        return x

    result = run(function, torch.arange(64.0), batch_size=32)
    assert result.ok.all()
    assert result.values.tolist() == list(range(64))


def test_warnings_of_a_function_are_its_own():
    def loud(x: torch.Tensor) -> torch.Tensor:
        raise UserWarning("a warning made an error")

    with pytest.raises(UserWarning):
        run(loud, rows(10), batch_size=10)


# Weights, batches and the plan.


@settings(max_examples=20)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=80), st.booleans())
def test_weighed_items_come_back_in_the_callers_order(weights: list[int], as_stream: bool):
    items = torch.tensor(weights, dtype=torch.float32)
    how: dict[str, Any] = {"weight": lambda item: item} if as_stream else {"weight": weights}
    result = run(double, iter(weights) if as_stream else items, **how)
    assert result.values.tolist() == [2 * weight for weight in weights]
    assert result.ok.all()


def test_weighed_items_are_packed_to_equal_weight():
    weights = np.random.default_rng(0).integers(1, 100, 300_000)
    heavy: list[int] = []

    def function(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        heavy.append(int(batch["w"].sum()))
        return batch["w"]

    result = run(function, {"w": weights}, weight="w")
    assert result.values.tolist() == weights.tolist()
    for number, (before, after) in enumerate(itertools.pairwise(heavy[:-1]), 1):
        tried = any(abs(after - other) <= 200 for other in heavy[:number])
        assert tried or after >= 1.5 * before  # a size that was tried before, or the next one


def test_a_batch_size_of_the_users_own():
    recorded = Recorded(double)
    run(recorded, rows(100), batch_size=10)
    assert recorded.sizes == [10] * 10
    recorded.sizes.clear()
    run(recorded, stream(25), batch_size=10)
    assert recorded.sizes == [10, 10, 5]


def test_the_batch_grows_by_itself():
    recorded = Recorded(double)
    run(recorded, rows(20_000))
    assert len(recorded.sizes) < 200
    assert max(recorded.sizes) >= 8 * recorded.sizes[0]


def test_a_formula_keeps_the_plan_under_the_budget():
    plan = plan_map(double, rows(2000), cost=Cost(0, 1_000_000), budget="50MB")
    assert 40 <= plan.batch <= 45
    assert plan.budget == 50_000_000
    assert plan.cost.source == "formula"


def test_an_item_that_a_formula_says_is_too_big_is_flagged_and_not_tried():
    recorded = Recorded(double)
    weights = [10.0, 1.0, 1.0, 1.0] * 5
    result = run(recorded, rows(20), weight=weights, cost=Cost(0, 10_000_000), budget="50MB", batch_size="auto")
    assert result.status.tolist() == [Status.TOO_BIG, 0, 0, 0] * 5
    assert "does not fit" in result.messages[0]
    assert same(result.values[1:4], rows(20)[1:4] * 2)
    assert result.values[0].isnan().all()


def test_an_item_that_alone_is_over_the_budget_of_every_plan_is_refused_before_the_run():
    with pytest.raises(BudgetError):
        run(double, rows(20), cost=Cost(0, 1e9), budget="50MB")


def test_the_plan_and_what_was_measured():
    def function(x: torch.Tensor) -> torch.Tensor:
        block = pages(len(x) * 1_000_000)  # far more than the process grows by for other reasons
        return x + float(block[0])

    result = run(function, rows(1000), budget="400MB")
    assert isinstance(result.plan, Plan)
    assert result.plan.items == 1000
    assert result.plan.budget == 400_000_000
    assert result.plan.cost.source == "probe"
    assert result.predicted == result.plan.predicted
    assert 700_000 < result.plan.cost.per_unit < 1_300_000  # other tests leave memory that is used first
    assert result.observed <= 400_000_000
    assert 0.75 < result.observed / result.predicted < 1.3
    assert result.seconds > 0
    assert result.rate == pytest.approx(1000 / result.seconds)
    assert result.out is None


def test_what_was_measured_is_remembered():
    items = rows(5000)
    run(double, items, budget="200MB")
    again = plan_map(double, items, budget="200MB")
    assert again.cost.source == "remembered"
    assert plan_map(stamped, items, budget="200MB").cost.source == "guess"


def test_a_later_run_begins_with_the_size_that_an_earlier_one_came_to():
    def first_batch(items: int) -> int:
        log = EventLog()
        run(double, rows(items), budget="200MB", progress=log)
        sizes = [event.items for event in log.of(BatchDone)]
        assert sum(sizes) == items
        return sizes[0]

    assert first_batch(20_000) <= 64
    begun = first_batch(20_000)
    assert begun >= 1000
    assert first_batch(100) == 100
    assert first_batch(20_000) >= begun  # a short run tells nothing of larger batches
    assert first_batch(begun + begun // 2) == begun + begun // 2


@pytest.mark.parametrize(
    ("growing", "items", "first"),
    [(True, 4000, 4000), (True, 20_000, 20_000), (True, 40_000, 10_000), (False, 4000, 1500)],
)
def test_a_run_too_short_to_tell_the_best_size_is_followed_by_one_of_larger_batches(
    growing: bool, items: int, first: int
):
    """A run of 4,000 items that are probed and timed in batches of 1,500 has none left to try larger ones on: without
    this every later run would do the same."""
    from brimful.core.memory import cost_cache, devices
    from brimful.engine.map import _checked

    work = _checked(double, rows(items), "200MB", "cpu", "auto", None, None, "flag", None, "map")
    key = work._key(devices.model_name(torch.device("cpu")))
    cost_cache.remember(key, Cost(10**6, 1000, fastest=1500, growing=growing))
    log = EventLog()
    run(double, rows(items), budget="200MB", progress=log)
    assert log.of(BatchDone)[0].items == first


def test_bytes_an_item_are_not_taken_for_bytes_a_unit_of_weight():
    items = rows(5000)
    run(double, items, budget="200MB")
    heavy = np.linspace(1e6, 2e6, 5000)
    assert plan_map(double, items, budget="200MB", weight=heavy).cost.source == "guess"
    assert run(double, items, budget="200MB", weight=heavy).ok.all()
    assert plan_map(double, items, budget="200MB").cost.source == "remembered"


def test_a_plan_can_be_had_without_the_run():
    recorded = Recorded(double)
    plan = plan_map(recorded, rows(100), budget="100MB", batch_size=10)
    assert recorded.sizes == []
    assert (plan.items, plan.batch, plan.steps) == (100, 10, 10)
    probed = plan_map(recorded, rows(100), budget="100MB", probe=True)
    assert recorded.sizes
    assert probed.cost.source == "probe"


# What comes back, and what is emitted on the way.


def test_the_result_as_a_table_and_in_a_line():
    items = torch.tensor([1.0, -1.0, 4.0])
    result = run(lambda x: {"root": x.sqrt(), "pair": torch.stack([x, x], 1)}, items)
    table = result.table()
    assert table.column_names == ["item", "status", "message", "root", "pair"]
    assert table["item"].to_pylist() == [0, 1, 2]
    assert table["status"].to_pylist() == [0, 2, 0]
    assert table["message"].to_pylist() == [None, "the result is not finite", None]
    assert table["pair"].to_pylist() == [[1, 1], [-1, -1], [4, 4]]
    assert str(result).startswith("MapResult(items=3, flagged=1, ")
    assert isinstance(result, MapResult)


def test_the_table_of_a_run_on_disk_is_the_same(tmp_path: Path):
    items = torch.tensor([1.0, -1.0, 4.0] * 10)
    memory, disk = run(torch.sqrt, items, batch_size=4), run(torch.sqrt, items, batch_size=4, out=tmp_path / "run")
    assert disk.out == tmp_path / "run"
    assert disk.table().drop_columns("value").equals(memory.table().drop_columns("value"))
    assert same(disk.values, memory.values)
    assert disk.messages == memory.messages


def test_silence(capfd: pytest.CaptureFixture[str]):
    run(double, rows(100))
    assert capfd.readouterr() == ("", "")


def test_progress_is_shown_unless_forbidden(capfd: pytest.CaptureFixture[str]):
    brimful.map(double, rows(100), name="doubling")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "doubling: 100 items" in printed.err
    assert "doubling: finished, 100 items" in printed.err


def test_a_function_hears_typed_events():
    log = EventLog()
    items = rows(100)
    items[3] = float("nan")
    run(double, items, batch_size=25, progress=log, name="doubling", budget="100MB")
    started = log.of(Started)
    assert [(event.work, event.items, event.done, event.budget) for event in started] == [("doubling", 100, 0, 10**8)]
    batches = log.of(BatchDone)
    assert [(event.items, event.done, event.bad) for event in batches] == [
        (25, 25, 1),
        (25, 50, 0),
        (25, 75, 0),
        (25, 100, 0),
    ]
    ended = log.of(Finished)
    assert [(event.state, event.done, event.bad) for event in ended] == [("finished", 100, 1)]
    assert log[-1] is ended[0]
    assert log.of(Planned)
    assert Plan.from_dict(log.of(Planned)[0].plan).items == 100


def test_what_a_batch_carries_in_and_out_is_predicted_and_observed():
    log = EventLog()
    result = run(double, rows(4000), progress=log, budget="100MB")
    parts = log.of(MemoryMeasured)[-1].parts
    per_item = rows(1).nbytes
    assert parts["input of a batch"] == parts["results of a batch"]
    assert parts["input of a batch"] % per_item == 0 and 0 < parts["input of a batch"] <= 4000 * per_item
    planned = dict(result.plan.parts)
    assert planned["input of a batch"] == planned["results of a batch"] == result.plan.capacity * per_item
    assert planned["working memory"] == max(0, result.plan.predicted - 2 * planned["input of a batch"])
    assert log.of(Planned)[-1].plan["parts"]


def test_a_listener_that_breaks_does_not_break_the_run():
    def broken(event: Any) -> None:
        raise RuntimeError("no ears")

    with pytest.warns(BrimfulWarning, match="no ears"):
        assert run(double, rows(10), progress=broken).ok.all()


def test_a_function_may_return_the_same_memory_each_time():
    buffer = torch.empty(64, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        out = buffer[: len(x)]
        torch.mul(x, 2, out=out)
        return out

    x = torch.randn(2_000, 3)
    result = brimful.map(function, x, batch_size=64, progress=False)
    assert result.values is not None and torch.equal(result.values, x * 2)


def test_a_remembered_cost_by_which_nothing_fits_is_not_believed():
    from brimful.core.memory import cost_cache, devices
    from brimful.engine.map import _checked

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.randn(100, 3)
    run = _checked(function, x, "50MB", "cpu", "auto", None, None, "flag", None, "map")
    cost_cache.remember(run._key(devices.model_name(torch.device("cpu"))), brimful.Cost(10**9, 1))
    assert brimful.map(function, x, budget="50MB", progress=False).ok.all()


class Times:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


SCALE = torch.tensor(2.0)


def by_scale(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Times(2.0), Times(3.0)),
        (Times(2.0).method, Times(3.0).method),
        (
            torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU()),
            torch.nn.Sequential(torch.nn.Identity(), torch.nn.Tanh()),
        ),
    ],
    ids=["object", "method", "layers"],
)
def test_another_state_of_the_function_refuses_to_resume(tmp_path: Path, one: Any, other: Any):
    x = torch.randn(10, 2)
    brimful.map(one, x, out=tmp_path / "run", progress=False)
    with pytest.raises(brimful.ChangedError, match="fn was"):
        brimful.map(other, x, out=tmp_path / "run", progress=False)
    assert brimful.map(one, x, out=tmp_path / "run", progress=False).ok.all()


def test_another_tensor_in_the_functions_module_refuses_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(10, 2)
    brimful.map(by_scale, x, out=tmp_path / "run", progress=False)
    monkeypatch.setitem(globals(), "SCALE", torch.tensor(3.0))
    with pytest.raises(brimful.ChangedError, match="fn was"):
        brimful.map(by_scale, x, out=tmp_path / "run", progress=False)


def test_a_data_frame_is_a_table():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(50.0), "b": np.arange(50)})
    result = brimful.map(lambda batch: batch["a"] + batch["b"], frame, progress=False)
    assert result.values is not None and result.values.tolist() == [2.0 * i for i in range(50)]


def test_a_source_whose_length_is_wrong_gives_what_it_gives():
    class Liar:
        def __len__(self) -> int:
            return 10

        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter(torch.arange(5.0))

    result = brimful.map(lambda x: x + 1, Liar(), progress=False)
    assert result.values is not None and result.values.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(result.status) == 5


def test_an_exception_that_leads_back_to_itself_does_not_hang():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 3).any():
            error = ValueError("three")
            raise error from error
        return x

    result = brimful.map(function, torch.arange(10.0), batch_size=5, progress=False)
    assert result.messages == {3: "ValueError: three"}


def test_a_stream_that_gathers_more_than_the_budget_advises_writing_to_disk():
    items = (torch.zeros(1000) for _ in range(100_000))
    with pytest.raises(brimful.BudgetError, match="Pass out="):
        brimful.map(lambda x: x, items, budget="60MB", progress=False)


def test_a_wrong_fallback_leaves_nothing_behind(tmp_path: Path):
    import threading

    before = threading.active_count()
    with pytest.raises(brimful.InputError, match="fallback is 3"):
        brimful.map(lambda x: x, torch.ones(3), fallback=3, out=tmp_path / "run", progress=False)
    assert threading.active_count() == before
    assert not (tmp_path / "run").exists()


def test_an_error_of_a_map_inside_the_function_is_an_items_failure():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 3).any():
            brimful.map(lambda y: y, 5, progress=False)
        return x

    result = brimful.map(function, torch.arange(10.0), batch_size=5, progress=False)
    assert [int(item) for item in np.flatnonzero(~result.ok)] == [3]
