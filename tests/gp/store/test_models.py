"""Optima models on disk: what comes back is what was written, and what is damaged is named."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from brimful import ConfigError, CorruptError, InputError, StorageError, gp
from brimful.core.runs import parquet
from brimful.gp import TaskStatus
from brimful.gp.data.sources import read
from brimful.gp.store import lazy
from brimful.gp.store import models as store

from ..helpers.small import equal_tables, fit, long, one_thread, rows, same

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
    observed = not one.model.known or (one.data is not None and one.data.noise is not None)
    for ask in (
        lambda value: value.predict(NEW),
        lambda value: value.predict(NEW, noise=observed),
        lambda value: value.loo()[:2],
        lambda value: (value.sample(NEW, 2),),
    ):
        for mine, theirs in zip(ask(one), ask(other), strict=True):
            scale = np.nanmax(np.abs(theirs))
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * scale)


def test_models_that_nobody_looks_at_are_not_read(tmp_path: Path):
    made = fit(X, Y, out=tmp_path / "store")
    wanted, asked = made.predict(NEW), []
    plain = lazy.ParquetRows.column

    def column(self: Any, name: str) -> pa.Array:
        asked.append(name)
        return plain(self, name)

    with patch.object(lazy.ParquetRows, "column", column):
        fitted = load(tmp_path / "store")
        same_mean, same_variance = fitted.predict(NEW)
        fitted.predict_to(tmp_path / "there", NEW, progress=False)
        assert set(asked) <= {"item", "status", "message"}
        assert len(fitted.nlml) == 9
        assert asked.pop() == "nlml"
    np.testing.assert_array_equal(same_mean, wanted[0])
    np.testing.assert_array_equal(same_variance, wanted[1])
    assert repr(fitted).startswith("Fit(tasks=9, kernel=rbf")


def test_a_fit_outlives_its_folder(tmp_path: Path):
    made = fit(X, Y, out=tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    assert np.isfinite(made.nlml).sum() == 8
    assert made.predict(NEW)[0].shape == (9, 5)


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
    fitted = fit(*data, **options)
    again = load(fitted.save(tmp_path / "models"))
    same(fitted, again)
    assert fitted.messages == again.messages
    assert fitted.ids.equals(again.ids)
    assert equal_tables(fitted.table(), again.table())
    assert again.method == "loaded"
    assert again.model.kernel == fitted.model.kernel
    assert (again.model.priors, again.model.bounds) == (fitted.model.priors, fitted.model.bounds)
    for mine, theirs in zip(again.predict(at(form)), fitted.predict(at(form)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_into_a_folder_is_the_fit_in_memory(form: str, tmp_path: Path):
    data, options = FORMS[form]
    memory = fit(*data, **options)
    written = fit(*data, **options, out=tmp_path / "models")
    again = load(tmp_path / "models")
    for value in (written, again):
        same(memory, value, rtol=1e-6)
        assert value.messages == memory.messages
        assert value.ids.equals(memory.ids)
    if len(memory) and form != "two dimensions":
        alike(written, again)
        alike(again, memory, rtol=1e-4)


def test_the_order_of_work_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lazy, "TASKS", 4)
    memory = fit(RAGGED)
    fit(RAGGED, out=tmp_path / "models", budget="10MB")
    assert len(list((tmp_path / "models" / "data").iterdir())) == 3
    again = load(tmp_path / "models")
    assert again.table()["points"].to_pylist() == COUNTS
    assert again.status[4] == TaskStatus.EMPTY
    same(memory, again, rtol=1e-6)
    alike(again, memory, rtol=1e-4)
    left = again.loo()[0]
    assert np.isfinite(left).sum(1).tolist() == [0 if count < 2 else count for count in COUNTS]


def test_a_disk_that_fills_while_the_data_is_written_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lazy, "TASKS", 4)
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
    fit(X, Y, out=tmp_path / "models", batch_size=2)
    shards = sorted((tmp_path / "models").glob("shard-*.parquet"))
    assert len(shards) == 5
    table = pa.concat_tables([pq.read_table(value) for value in shards])
    assert table.column_names[:6] == ["item", "status", "message", "variance", "lengthscale", "noise"]
    assert table["item"].to_pylist() == list(range(9))
    assert table["variance"].type == pa.float32()
    np.testing.assert_allclose(table["nlml"].to_numpy(), fit(X, Y).nlml, rtol=1e-5)
    alike(load(tmp_path / "models"), fit(X, Y), rtol=1e-4)


@pytest.mark.parametrize("known", [False, True])
def test_parameters_in_two_bytes(tmp_path: Path, known: bool):
    options = {"noise": 0.02} if known else {}
    exact = fit(X, Y, **options)
    written = fit(X, Y, **options, out=tmp_path / "models", storage="float16")
    shard = pq.read_table(next((tmp_path / "models").glob("shard-*")))
    assert shard["log_variance"].type == pa.float16()
    again = load(tmp_path / "models")
    assert list(again.params) == list(written.params) == list(exact.params)
    for name in ("variance", "lengthscale", "noise"):
        for value in (again, written):
            np.testing.assert_allclose(value.params[name], exact.params[name], rtol=5e-3)
    np.testing.assert_array_equal(again.predict(NEW)[0], written.predict(NEW)[0])
    np.testing.assert_allclose(again.predict(NEW)[0], exact.predict(NEW)[0], rtol=0.05, atol=0.02)
    same(load(written.save(tmp_path / "copy")), again)
    assert again.table().column_names == exact.table().column_names


def test_parameters_alone_need_the_data_again(tmp_path: Path):
    fitted = fit(X, Y, out=tmp_path / "models", keep="params")
    assert not (tmp_path / "models" / "data").exists()
    bare = load(tmp_path / "models")
    same(bare, fitted)
    for ask in (lambda: bare.predict(NEW), lambda: bare.sample(NEW), bare.loo, lambda: bare.save(tmp_path / "x")):
        with pytest.raises(
            InputError, match=r"kept its parameters and not its data.*gp\.load\(path, x=\.\.\., y=\.\.\.\)"
        ):
            ask()
    alike(load(tmp_path / "models", x=X, y=Y), fitted)
    alike(load(fitted.save(tmp_path / "saved", keep="params"), x=X, y=Y), fitted)


@pytest.mark.parametrize("form", ["shared", "ragged", "known noise"])
def test_the_data_may_come_again_in_any_form(tmp_path: Path, form: str):
    data, options = FORMS[form]
    fitted = fit(*data, **options, out=tmp_path / "models", keep="params")
    if form == "shared":
        again = load(tmp_path / "models", x=np.broadcast_to(X[0], X.shape), y=Y)
    elif form == "ragged":
        again = load(tmp_path / "models", x=RAGGED)
    else:
        with pytest.raises(InputError, match="known noise; pass it as noise="):
            load(tmp_path / "models", x=X, y=Y)
        again = load(tmp_path / "models", x=X, y=Y, noise=options["noise"])
    alike(again, fitted, rtol=1e-9)


def test_data_that_is_not_that_of_the_models_is_refused(tmp_path: Path):
    fit(X, Y, out=tmp_path / "models", keep="params")
    with pytest.raises(InputError, match="holds 9 models, and the data has 3 tasks"):
        load(tmp_path / "models", x=X[:3], y=Y[:3])
    with pytest.raises(InputError, match="models of 1 inputs, the data has 2"):
        load(tmp_path / "models", x=np.repeat(X, 2, axis=2), y=Y)


def frame(names: tuple[str, str, str] = ("unique_id", "ds", "y")) -> pd.DataFrame:
    """Three tasks, not in the order of their names."""
    x, y = rows(5, 3, 8)
    return pd.DataFrame(dict(zip(names, long(x, y, list("bca")).values(), strict=True)))


def test_a_table_given_back_in_another_order_is_put_right(tmp_path: Path):
    table, names = frame(("who", "when", "gold")), gp.ColumnNames(id="who", x="when", y="gold")
    fitted = fit(table, columns=names, out=tmp_path / "models", keep="params")
    for given in (table, table.sort_values("who"), table.sample(frac=1.0, random_state=0)):
        again = load(tmp_path / "models", x=given, columns=names)
        assert again.ids.to_pylist() == list("bca")
        for mine, theirs in zip(again.predict(NEW), fitted.predict(NEW), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    with pytest.raises(InputError, match="no task 'a', of which there is a model; give all that was fitted"):
        load(tmp_path / "models", x=table.replace({"who": {"a": "d"}}), columns=names)


@pytest.mark.parametrize("keep", ["params", "params+data", "predictions"])
def test_other_data_than_was_fitted_is_refused(tmp_path: Path, keep: str):
    fit(X, Y, out=tmp_path / "models", keep=keep, at=NEW if keep == "predictions" else None)
    one = Y.copy()
    one[3, 2] += 1e-9
    for other in (one, Y[::-1]):
        with pytest.raises(InputError, match=r"not what the models in .* were fitted to; give back the same"):
            load(tmp_path / "models", x=X, y=other)
    same(load(tmp_path / "models", x=X, y=Y), fit(X, Y), rtol=1e-6)


def test_a_digest_is_of_the_points_and_not_of_their_form():
    def digest(*data: Any, noise: Any = None) -> str:
        return store.digest(read(data[0], data[1] if len(data) > 1 else None, noise, None, None))

    shared, tiled = X[0], np.broadcast_to(X[0], X.shape)
    assert digest(shared, Y) == digest(tiled, Y) == digest([*zip(tiled, Y, strict=True)])
    assert digest(tiled[:, ::-1], Y[:, ::-1]) == digest(shared, Y)
    seen = [(x[~np.isnan(y)], y[~np.isnan(y)]) for x, y in zip(X, Y, strict=True)]
    assert digest(seen) == digest(X, Y)
    swapped = X.copy()
    swapped[0, [0, 1]] = X[0, [1, 0]]
    others = [digest(X, Y, noise=0.1), digest(X, Y, noise=0.2), digest(X, -Y), digest(X + 1, Y), digest(swapped, Y)]
    others += [digest(np.concatenate([X, X], 2), Y), digest(X[::-1], Y[::-1]), digest(X[:8], Y[:8])]
    assert len({digest(X, Y), *others}) == 9


@pytest.mark.parametrize("form", ["own", "ragged"])
def test_missing_targets_keep_their_places(tmp_path: Path, form: str):
    x, y = rows(4, 4, 10)
    y[0, 3], y[1, [0, 9]], y[2, 7:] = np.nan, np.nan, np.nan
    fitted = fit(x, y) if form == "own" else fit([(x[task, : 7 + task], y[task, : 7 + task]) for task in range(4)])
    once = load(fitted.save(tmp_path / "once"))
    twice = load(once.save(tmp_path / "twice"))
    for again in (once, twice):
        for mine, theirs in zip(again.loo(), fitted.loo(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    tree: Any = twice.data and twice.data.items.load(0, 4).tree
    assert tree["y"].shape == (4, 10)


@pytest.mark.parametrize("keep", ["memory", "params+data", "params"])
def test_an_observation_has_the_known_noise_where_it_is_one_for_all(tmp_path: Path, keep: str):
    def kept(noise: Any) -> gp.Fit:
        if keep == "memory":
            return fit(X, Y, noise=noise)
        out = tmp_path / f"models {np.ndim(noise)}"
        fit(X, Y, noise=noise, out=out, keep=keep)
        return load(out) if keep == "params+data" else load(out, x=X, y=Y, noise=noise)

    fitted = kept(0.3)
    plain, observed = fitted.predict(NEW)[1], fitted.predict(NEW, noise=True)[1]
    np.testing.assert_allclose(observed, plain + 0.3)
    values: Any = fitted.predict_to(tmp_path / "there", NEW, noise=True, progress=False).values
    np.testing.assert_array_equal(values["variance"].numpy(), observed)
    assert fitted.predict_task(0, NEW)[2] == 0.3
    with pytest.raises(ConfigError, match="add the noise of your new points to it"):
        kept(np.linspace(0.1, 0.2, 10)).predict(NEW, noise=True)


@pytest.mark.parametrize("form", ["own", "shared", "ragged"])
def test_predictions_can_be_all_that_is_kept(tmp_path: Path, form: str):
    data, options = FORMS[form]
    exact = fit(*data, **options)
    mean, variance = exact.predict(NEW)
    written = fit(*data, **options, out=tmp_path / "models", keep="predictions", at=NEW)
    again = load(tmp_path / "models")
    for value in (written, again):
        same(exact, value, rtol=1e-6)
        table = value.table()
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
        fitted = fit(X[:3], Y[:3], kernel=kernel, out=tmp_path / "models", mean="zero", steps=3, starts=1)
    with pytest.raises(InputError, match="a kernel of your own, wave; pass it as kernel="):
        load(tmp_path / "models")
    again = load(tmp_path / "models", kernel=kernel)
    same(fitted, again)
    alike(again, fitted)
    for other in (gp.custom(wave, height=1.0, length=0.5), gp.custom(wave, length=0.5)):
        with pytest.raises(InputError, match=r"has the parameters .*; the models have log_height, length"):
            load(tmp_path / "models", kernel=other)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Nine models in five shards, with their data."""
    fit(X, Y, out=tmp_path / "models", batch_size=2, task_ids=list("abcdefghi"))
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
    position = content.index(Y[0].tobytes()) if path.parent.name == "data" else 60
    content[position] ^= 16
    path.write_bytes(content)


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "model emptied": (lambda m: (m / "model.json").write_text(""), "model.json cannot be read as"),
    "model torn": (lambda m: halve(m / "model.json"), "model.json cannot be read as"),
    "model changed": (
        lambda m: rewrite(m / "model.json", lambda outer: outer["body"].update(mean="zero")),
        "model.json is damaged, or is not .*: its checksum",
    ),
    "first shard gone": (lambda m: sorted(m.glob("shard-*"))[0].unlink(), "lacks the models before shard-.*fit again"),
    "a shard gone": (lambda m: sorted(m.glob("shard-*"))[2].unlink(), "lacks the models before shard-.*fit again"),
    "last shard gone": (lambda m: sorted(m.glob("shard-*"))[-1].unlink(), "holds 8 models of 9: fit again"),
    "all shards gone": (lambda m: [value.unlink() for value in m.glob("shard-*")], "holds 0 models of 9"),
    "shard torn": (lambda m: halve(sorted(m.glob("shard-*"))[1]), "shard-.*is damaged: .*Delete it and fit again"),
    "shard emptied": (lambda m: sorted(m.glob("shard-*"))[1].write_bytes(b""), "shard-.*is damaged"),
    "shard rotten": (lambda m: flip(sorted(m.glob("shard-*"))[1]), "shard-.*is damaged: .*Delete it and fit again"),
    "data torn": (lambda m: halve(next((m / "data").iterdir())), "part-.*is damaged: .*Delete it and fit again"),
    "data gone": (lambda m: next((m / "data").iterdir()).unlink(), "data holds 0 tasks of 9: fit again"),
    "data rotten": (lambda m: flip(next((m / "data").iterdir())), "part-.*is damaged: .*Delete it and fit again"),
    "ids torn": (lambda m: halve(m / "ids.parquet"), "the checksum of ids.parquet does not match"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named_with_what_to_do(models: Path, case: str):
    harm, words = DAMAGE[case]
    harm(models)
    with pytest.raises(CorruptError, match=words):
        load(models).predict(NEW)


MENDED = ["a shard gone", "last shard gone", "data gone", "all shards gone", "data torn", "data rotten"]


@pytest.mark.parametrize("case", MENDED)
def test_fitting_again_into_the_folder_mends_it(models: Path, case: str):
    expected = load(shutil.copytree(models, models.with_name("copy")))
    DAMAGE[case][0](models)
    fit(X, Y, out=models, batch_size=2, task_ids=list("abcdefghi"))
    again = load(models)
    same(expected, again)
    alike(again, expected)


@pytest.mark.parametrize("pattern", ["shard-*", "data/part-*"])
@pytest.mark.parametrize("from_other", [False, True], ids=["of its neighbor", "of another store"])
def test_a_file_under_a_name_that_is_not_its_own_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, from_other: bool
):
    monkeypatch.setattr(lazy, "TASKS", 3)
    one, other = (fit(X, y).save(tmp_path / name) for y, name in ((Y, "one"), (Y + 1, "other")))
    same(load(one), load(fit(X, Y).save(tmp_path / "again")))
    files, others = (sorted(folder.glob(pattern)) for folder in (one, other))
    assert len(files) == len(others) == 3
    shutil.copy(others[1] if from_other else files[0], files[1])
    words = "it belongs to another run" if from_other else "it holds the items of another place"
    with pytest.raises(CorruptError, match=rf"{files[1].name} holds other .* than its name says: {words}\. Delete it"):
        load(one)


def test_a_folder_that_is_no_store(tmp_path: Path):
    with pytest.raises(InputError, match=r"nowhere holds no trained model \(check the path"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds no trained model"):
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
    with pytest.raises(InputError, match=r"model\.json is a file; choose a folder"):
        fit(X, Y).save(models / "model.json")
    with pytest.raises(StorageError, match="cannot write"):
        fit(X, Y).save(models / "model.json" / "deeper")


def test_a_save_that_failed_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(table: pa.Table, path: Path) -> None:
        if path.parent.name == "data":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, path)

    fitted, write = fit(X, Y), parquet.write
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "write", full)
        with pytest.raises(StorageError, match="the disk is full"):
            fitted.save(tmp_path / "models")
    same(fitted, load(fitted.save(tmp_path / "models")))


def test_names_of_an_earlier_fit_do_not_stay(models: Path):
    assert fit(X, Y, out=models, batch_size=2).ids.equals(load(models).ids)


def test_tasks_that_an_earlier_version_drew_are_not_drawn_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fit(gp.synthetic(9, 12), out=tmp_path / "models")
    monkeypatch.setattr(store, "DRAWN", "float64")
    with pytest.raises(InputError, match="keeps only the seed of its random tasks"):
        gp.load(tmp_path / "models")


def test_draws_from_a_store_follow_the_seed_of_the_fit(tmp_path: Path):
    fitted = fit(X, Y, seed=3, out=tmp_path / "models")
    np.testing.assert_array_equal(load(tmp_path / "models").sample(NEW), fitted.sample(NEW))
    assert not np.array_equal(fitted.sample(NEW), fitted.sample(NEW, seed=4), equal_nan=True)


def test_what_a_store_knows_is_not_asked_for(models: Path):
    with pytest.raises(ConfigError, match=r"kernel is a str; give gp.custom\(function, ...\) where .* nothing where"):
        load(models, kernel="rbf")
    with pytest.raises(InputError, match="noise= goes with x="):
        load(models, noise=0.1)


def test_a_store_can_be_moved(models: Path):
    expected = load(models).predict(NEW)[0]
    moved = shutil.move(models, models.parent / "elsewhere")
    np.testing.assert_array_equal(load(Path(moved)).predict(NEW)[0], expected)


def test_predictions_stream_to_a_folder(models: Path, tmp_path: Path):
    fitted = load(models)
    result = fitted.predict_to(tmp_path / "there", NEW, progress=False)
    values: Any = result.values
    np.testing.assert_array_equal(values["mean"].numpy(), fitted.predict(NEW)[0])
    table = pa.concat_tables([pq.read_table(value) for value in (tmp_path / "there").glob("shard-*")])
    assert sorted(table["item"].to_pylist()) == list(range(9))


def test_a_long_table_is_loaded_without_its_file(tmp_path: Path):
    x, y = rows(3, 4, 8)
    pq.write_table(pa.table(long(x, y, list("dcba"))), tmp_path / "long.parquet")
    fitted = fit(tmp_path / "long.parquet", out=tmp_path / "models")
    (tmp_path / "long.parquet").unlink()
    again = load(tmp_path / "models")
    assert again.ids.to_pylist() == list("dcba")
    alike(again, fitted)
