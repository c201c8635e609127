"""Fitted models on disk: what comes back is what was written, and what is damaged is named."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from small import equal_tables, fit, long, one_thread, rows, same

from brimful import ConfigError, CorruptError, InputError, StorageError, gp, parquet
from brimful.gp import Fate, store

X, Y = rows(0, 9, 10)
Y[4, 2:] = np.nan
Y[7] = np.nan
NEW = np.linspace(0, 3, 5)
COUNTS = [3, 10, 1, 7, 0, 10, 5, 8, 2]
RAGGED = [(x[:count], y[:count]) for x, y, count in zip(*rows(1, 9, 10), COUNTS, strict=True)]


def load(path: Path, **options: Any) -> gp.Fit:
    return gp.load(path, device="cpu", **options)


def alike(one: gp.Fit, other: gp.Fit, rtol: float = 0.0) -> None:
    """The same predictions, draws and left-out points, within a tolerance of the parameters' precision."""
    for ask in (
        lambda each: each.predict(NEW),
        lambda each: each.predict(NEW, noise=True),
        lambda each: each.loo()[:2],
        lambda each: (each.sample(NEW, 2),),
    ):
        for mine, theirs in zip(ask(one), ask(other), strict=True):
            scale = np.nanmax(np.abs(theirs))
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * scale)


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "own": ((X, Y), {}),
    "shared": ((X[0], Y), {}),
    "ragged": ((RAGGED,), {}),
    "two dimensions": (rows(2, 5, 9, 2), {"ard": True, "kernel": "matern32", "mean": "linear"}),
    "known noise": ((X, Y), {"noise": np.linspace(0.01, 0.2, 10)}),
    "ragged noise": (([(*pair, 0.05) for pair in RAGGED],), {}),
    "sum": ((X, Y), {"kernel": "linear + rbf", "bounds": {"noise": (1e-3, 1.0)}}),
    "own priors": ((X, Y), {"priors": {"noise": gp.LogNormal(0.1, 0.5)}, "mean": "zero"}),
    "synthetic": ((gp.synthetic(9, 12),), {}),
    "synthetic own": ((gp.synthetic(9, 12, shared=False),), {}),
    "not a number in x": ((np.where(np.arange(10)[:, None] == 3, np.nan, X), Y), {}),
    "infinite": ((np.where(np.arange(9)[:, None, None] == 3, np.inf, X), Y), {}),
    "float32": ((X.astype(np.float32), Y.astype(np.float32)), {}),
    "names": ((X, Y), {"task_ids": [f"t{task}" for task in range(9)]}),
    "none": (([],), {}),
}


def at(form: str) -> Any:
    return NEW if form != "two dimensions" else np.stack([NEW, NEW], 1)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_saved_is_what_is_loaded(form: str, tmp_path: Path):
    data, options = FORMS[form]
    found = fit(*data, **options)
    again = load(found.save(tmp_path / "models"))
    same(found, again)
    assert found.messages == again.messages
    assert found.ids.equals(again.ids)
    assert equal_tables(found.table(), again.table())
    assert again.way == "loaded"
    assert again.model.kernel == found.model.kernel
    assert (again.model.priors, again.model.bounds) == (found.model.priors, found.model.bounds)
    for mine, theirs in zip(again.predict(at(form)), found.predict(at(form)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_into_a_folder_is_the_fit_in_memory(form: str, tmp_path: Path):
    data, options = FORMS[form]
    memory = fit(*data, **options)
    written = fit(*data, **options, out=tmp_path / "models")
    again = load(tmp_path / "models")
    for each in (written, again):
        same(memory, each, rtol=1e-6)
        assert each.messages == memory.messages
        assert each.ids.equals(memory.ids)
    if len(memory) and form != "two dimensions":
        alike(written, again)
        alike(again, memory, rtol=1e-4)


def test_the_order_of_work_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "_TASKS", 4)
    memory = fit(RAGGED)
    fit(RAGGED, out=tmp_path / "models", budget="10MB")
    assert len(list((tmp_path / "models" / "data").iterdir())) == 3
    again = load(tmp_path / "models")
    assert again.table()["points"].to_pylist() == COUNTS
    assert again.status[4] == Fate.EMPTY
    same(memory, again, rtol=1e-6)
    alike(again, memory, rtol=1e-4)
    left = again.loo()[0]
    assert np.isfinite(left).sum(1).tolist() == [0 if count < 2 else count for count in COUNTS]


def test_a_disk_that_fills_while_the_data_is_written_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "_TASKS", 4)
    write = parquet.write

    def full(table: pa.Table, path: Path) -> None:
        if path.name.startswith("part-000000000004"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, path)

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "write", full)
        with pytest.raises(StorageError, match="the disk is full"):
            fit(RAGGED, out=tmp_path / "models")
    with pytest.raises(InputError, match="has not ended"):
        load(tmp_path / "models")
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "models").glob("shard-*")}
    fit(RAGGED, out=tmp_path / "models")
    assert shards and {path: path.stat().st_mtime_ns for path in (tmp_path / "models").glob("shard-*")} == shards
    alike(load(tmp_path / "models"), fit(RAGGED), rtol=1e-4)


def test_many_shards_are_one_table(tmp_path: Path):
    fit(X, Y, out=tmp_path / "models", batch=2)
    shards = sorted((tmp_path / "models").glob("shard-*.parquet"))
    assert len(shards) == 5
    table = pa.concat_tables([pq.read_table(each) for each in shards])
    assert table.column_names[:6] == ["item", "status", "message", "variance", "lengthscale", "noise"]
    assert table["item"].to_pylist() == list(range(9))
    assert table["variance"].type == pa.float32()
    np.testing.assert_allclose(table["nlml"].to_numpy(), fit(X, Y).nlml, rtol=1e-5)
    alike(load(tmp_path / "models"), fit(X, Y), rtol=1e-4)


@pytest.mark.parametrize("known", [False, True])
def test_parameters_in_two_bytes(tmp_path: Path, known: bool):
    options = {"noise": 0.02} if known else {}
    exact = fit(X, Y, **options)
    written = fit(X, Y, **options, out=tmp_path / "models", precision="float16")
    shard = pq.read_table(next((tmp_path / "models").glob("shard-*")))
    assert shard["log_variance"].type == pa.float16()
    again = load(tmp_path / "models")
    assert list(again.params) == list(written.params) == list(exact.params)
    for name in ("variance", "lengthscale", "noise"):
        for each in (again, written):
            np.testing.assert_allclose(each.params[name], exact.params[name], rtol=5e-3)
    np.testing.assert_array_equal(again.predict(NEW)[0], written.predict(NEW)[0])
    np.testing.assert_allclose(again.predict(NEW)[0], exact.predict(NEW)[0], rtol=0.05, atol=0.02)
    same(load(written.save(tmp_path / "copy")), again)
    assert again.table().column_names == exact.table().column_names


def test_parameters_alone_need_the_data_again(tmp_path: Path):
    found = fit(X, Y, out=tmp_path / "models", keep="params")
    assert not (tmp_path / "models" / "data").exists()
    bare = load(tmp_path / "models")
    same(bare, found)
    for ask in (lambda: bare.predict(NEW), lambda: bare.sample(NEW), bare.loo, lambda: bare.save(tmp_path / "x")):
        with pytest.raises(
            InputError, match=r"kept its parameters and not its data.*gp\.load\(path, x=\.\.\., y=\.\.\.\)"
        ):
            ask()
    alike(load(tmp_path / "models", x=X, y=Y), found)
    alike(load(found.save(tmp_path / "saved", keep="params"), x=X, y=Y), found)


@pytest.mark.parametrize("form", ["shared", "ragged", "known noise"])
def test_the_data_may_come_again_in_any_form(tmp_path: Path, form: str):
    data, options = FORMS[form]
    found = fit(*data, **options, out=tmp_path / "models", keep="params")
    if form == "shared":
        again = load(tmp_path / "models", x=np.broadcast_to(X[0], X.shape), y=Y)
    elif form == "ragged":
        again = load(tmp_path / "models", x=RAGGED)
    else:
        with pytest.raises(InputError, match="known noise; pass it as noise="):
            load(tmp_path / "models", x=X, y=Y)
        again = load(tmp_path / "models", x=X, y=Y, noise=options["noise"])
    alike(again, found, rtol=1e-9)


def test_data_that_is_not_that_of_the_models_is_refused(tmp_path: Path):
    fit(X, Y, out=tmp_path / "models", keep="params")
    with pytest.raises(InputError, match="holds 9 models, and the data has 3 tasks"):
        load(tmp_path / "models", x=X[:3], y=Y[:3])
    with pytest.raises(InputError, match="models of 1 inputs, the data has 2"):
        load(tmp_path / "models", x=np.repeat(X, 2, axis=2), y=Y)


@pytest.mark.parametrize("form", ["own", "shared", "ragged"])
def test_predictions_can_be_all_that_is_kept(tmp_path: Path, form: str):
    data, options = FORMS[form]
    exact = fit(*data, **options)
    mean, variance = exact.predict(NEW)
    written = fit(*data, **options, out=tmp_path / "models", keep="predictions", at=NEW)
    again = load(tmp_path / "models")
    for each in (written, again):
        same(exact, each, rtol=1e-6)
        table = each.table()
        for name, expected in (("predicted_mean", mean), ("predicted_variance", variance)):
            kept = np.stack(table[name].to_numpy())
            np.testing.assert_allclose(kept, expected, rtol=1e-5, atol=1e-5)
    assert not (tmp_path / "models" / "data").exists()
    with pytest.raises(InputError, match="not its data"):
        again.predict(NEW)


def wave(x1: torch.Tensor, x2: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
    apart = (x1[:, None, :] - x2[None, :, :]).square().sum(-1)
    return torch.exp(params["log_height"] - 0.5 * apart / params["length"].square())


def test_a_kernel_of_ones_own_is_asked_for(tmp_path: Path):
    kernel = gp.custom(wave, log_height=1.0, length=0.5)
    with one_thread():
        found = fit(X[:3], Y[:3], kernel=kernel, out=tmp_path / "models", mean="zero")
    with pytest.raises(InputError, match="a kernel of your own, wave; pass it as kernel="):
        load(tmp_path / "models")
    again = load(tmp_path / "models", kernel=kernel)
    same(found, again)
    alike(again, found)
    for other in (gp.custom(wave, height=1.0, length=0.5), gp.custom(wave, length=0.5)):
        with pytest.raises(InputError, match=r"has the parameters .*; the models have log_height, length"):
            load(tmp_path / "models", kernel=other)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Nine models in five shards, with their data."""
    fit(X, Y, out=tmp_path / "models", batch=2, task_ids=list("abcdefghi"))
    return tmp_path / "models"


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    outer = json.loads(path.read_text())
    change(outer)
    path.write_text(json.dumps(outer))


def halve(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = content.index(Y[0].tobytes()) if path.parent.name == "data" else 60
    content[place] ^= 16
    path.write_bytes(content)


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "model emptied": (lambda m: (m / "model.json").write_text(""), "model.json cannot be read as gp"),
    "model torn": (lambda m: halve(m / "model.json"), "model.json cannot be read as gp"),
    "model changed": (
        lambda m: rewrite(m / "model.json", lambda outer: outer["body"].update(mean="zero")),
        "model.json is damaged, or is not gp: its checksum",
    ),
    "first shard gone": (lambda m: sorted(m.glob("shard-*"))[0].unlink(), "lacks the models before shard-.*fit again"),
    "a shard gone": (lambda m: sorted(m.glob("shard-*"))[2].unlink(), "lacks the models before shard-.*fit again"),
    "last shard gone": (lambda m: sorted(m.glob("shard-*"))[-1].unlink(), "holds 8 models of 9: fit again"),
    "all shards gone": (lambda m: [each.unlink() for each in m.glob("shard-*")], "holds 0 models of 9"),
    "shard torn": (lambda m: halve(sorted(m.glob("shard-*"))[1]), "shard-.*is damaged: .*Delete it and fit again"),
    "shard emptied": (lambda m: sorted(m.glob("shard-*"))[1].write_bytes(b""), "shard-.*is damaged"),
    "shard rotten": (lambda m: flip(sorted(m.glob("shard-*"))[1]), "shard-.*is damaged: .*Delete it and fit again"),
    "data torn": (lambda m: halve(next((m / "data").iterdir())), "part-.*is damaged: .*Delete it and fit again"),
    "data gone": (lambda m: next((m / "data").iterdir()).unlink(), "data holds 0 tasks of 9: fit again"),
    "data rotten": (lambda m: flip(next((m / "data").iterdir())), "part-.*is damaged: .*Delete it and fit again"),
    "ids torn": (lambda m: halve(m / "ids.parquet"), "ids.parquet is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named_with_what_to_do(models: Path, case: str):
    harm, words = DAMAGE[case]
    harm(models)
    with pytest.raises(CorruptError, match=words):
        load(models).predict(NEW)


@pytest.mark.parametrize("case", ["a shard gone", "last shard gone", "data gone", "all shards gone"])
def test_fitting_again_into_the_folder_mends_it(models: Path, case: str):
    expected = load(models)
    DAMAGE[case][0](models)
    fit(X, Y, out=models, batch=2, task_ids=list("abcdefghi"))
    again = load(models)
    same(expected, again)
    alike(again, expected)


def test_a_folder_that_is_no_store(tmp_path: Path):
    with pytest.raises(InputError, match=r"nowhere holds no fitted models \(check the path\)"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds no fitted models"):
        load(tmp_path)


def test_a_fit_that_has_not_ended(models: Path):
    (models / "model.json").unlink()
    with pytest.raises(InputError, match=r"its fit has not ended: run the same command again"):
        load(models)


def test_nothing_is_saved_over_what_is_there(models: Path):
    before = {path.name: path.read_bytes() for path in models.iterdir() if path.is_file()}
    with pytest.raises(InputError, match="is not empty; choose another folder"):
        fit(X, Y).save(models)
    with pytest.raises(ConfigError, match=r"keep is 'all'; choose one of params, params\+data"):
        fit(X, Y).save(models.parent / "other", keep="all")
    assert {path.name: path.read_bytes() for path in models.iterdir() if path.is_file()} == before


def test_a_store_can_be_moved(models: Path):
    expected = load(models).predict(NEW)[0]
    moved = shutil.move(models, models.parent / "elsewhere")
    np.testing.assert_array_equal(load(Path(moved)).predict(NEW)[0], expected)


def test_predictions_stream_to_a_folder(models: Path, tmp_path: Path):
    found = load(models)
    result = found.predict_to(tmp_path / "there", NEW, progress=False)
    values: Any = result.values
    np.testing.assert_array_equal(values["mean"].numpy(), found.predict(NEW)[0])
    table = pa.concat_tables([pq.read_table(each) for each in (tmp_path / "there").glob("shard-*")])
    assert sorted(table["item"].to_pylist()) == list(range(9))


def test_a_long_table_is_loaded_without_its_file(tmp_path: Path):
    x, y = rows(3, 4, 8)
    pq.write_table(pa.table(long(x, y, list("dcba"))), tmp_path / "long.parquet")
    found = fit(tmp_path / "long.parquet", out=tmp_path / "models")
    (tmp_path / "long.parquet").unlink()
    again = load(tmp_path / "models")
    assert again.ids.to_pylist() == list("dcba")
    alike(again, found)
