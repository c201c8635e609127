"""`brimful.open`: the result of any run that has finished, from its folder alone, without writing anything."""

import builtins
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import brimful
from brimful import ConfigError, CorruptError, InputError, RunDirError, StorageError
from brimful.cli.app import app
from brimful.core.runs import model_store
from brimful.core.runs.rundir import LOG, MANIFEST

from ..engine.map.mapping import rows, run
from ..engine.train.training import network
from .small_runs import MADE, alike, made_nets, made_train, values

Made = dict[str, tuple[Path, Any]]
KINDS = list(MADE)


def contents(folder: Path) -> dict[str, tuple[bytes, float]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime) for path in files}


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_that_of_the_run(made: Made, kind: str):
    folder, result = made[kind]
    before = contents(folder)
    opened: Any = brimful.open(str(folder))
    assert type(opened) is type(result)
    assert alike(values(opened), values(result))
    assert (opened.plan, opened.observed) == (result.plan, result.observed)
    assert opened.seconds == result.seconds
    assert contents(folder) == before
    assert json.loads(json.dumps(opened.summary())).keys() == result.summary().keys()


def test_a_map_is_read_when_it_is_asked_for(made: Made):
    folder, result = made["map"]
    opened: Any = brimful.open(folder)
    assert opened.status.tolist() == result.status.tolist() and opened.messages == result.messages
    assert len(opened.messages) == 2
    assert (opened.out, opened.done, opened.rate) == (folder, 0, result.rate)
    assert repr(opened.table().to_pydict()) == repr(result.table().to_pydict())
    empty: Any = run(torch.square, rows(0), out=folder.parent / "empty")
    assert len(empty.status) == len(brimful.open(folder.parent / "empty").status) == 0  # pyright: ignore


def test_weights_go_into_a_model_or_come_under_their_names(made: Made):
    folder, result = made["train"]
    net: Any = network(0.2, seed=7)
    given: Any = brimful.open(folder, model=net)
    assert given.model is net and not net.training
    x = torch.ones(2, 3)
    assert torch.equal(net(x), result.model(x))
    opened: Any = brimful.open(folder)
    other = network(0.2, seed=8)
    other.load_state_dict(opened.model.state_dict())
    assert torch.equal(other.eval()(x), result.model(x))
    assert [name for name, _ in opened.model.named_parameters()] == [name for name, _ in net.named_parameters()]
    with pytest.raises(InputError, match="model=net"):
        opened.model(x)
    with pytest.raises(InputError, match="not those of this model"):
        brimful.open(folder, model=nn.Linear(3, 3))
    with pytest.raises(ConfigError, match=r"a run of train.*'x'"):
        brimful.open(folder, x=1)
    with pytest.raises(InputError, match="model is a int"):
        brimful.open(folder, model=3)


def test_the_last_weights_come_back_where_the_best_were_not_asked_for(tmp_path: Path):
    result = made_train(tmp_path / "run", best=False, ema=None)
    opened: Any = brimful.open(tmp_path / "run")
    assert alike(values(opened), values(result))


def test_a_saved_result_is_opened_as_one_that_a_run_left(made: Made, tmp_path: Path):
    for name, (folder, result) in made.items():
        if name == "gp":
            result.save(tmp_path / "gp")
        elif name in ("gpcm", "folds", "wpo"):
            module = brimful.wpo if name == "wpo" else brimful.gpcm  # pyright: ignore
            module.save(result, tmp_path / name)
        else:
            continue
        opened: Any = brimful.open(tmp_path / name)
        assert alike(values(opened), values(brimful.open(folder))), name
    assert brimful.open(made["gp"][0], budget="1GB").seconds == made["gp"][1].seconds


def test_nets_give_the_result_of_their_map(tmp_path: Path):
    summary = made_nets(tmp_path / "nets")
    opened: Any = brimful.open(tmp_path / "nets")
    assert opened.values["loss"].shape == (30,) and opened.seconds == summary["seconds"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_only_folder_is_enough(made: Made, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / kind
    shutil.copytree(made[kind][0], folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    real = {name: getattr(os, name) for name in ("open", "unlink", "rename", "replace", "mkdir")}

    def refusing(name: str) -> Any:
        def call(path: Any, *more: Any, **options: Any) -> Any:
            writes = name != "open" or more[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and Path(path).is_relative_to(folder):
                raise PermissionError(30, "Read-only file system", str(path))
            return real[name](path, *more, **options)

        return call

    def read_only_file(file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        assert not (set(mode) & set("wax+") and str(file).startswith(str(folder))), file
        return open_file(file, mode, *more, **options)

    open_file = builtins.open
    with monkeypatch.context() as patched:
        for name in real:
            patched.setattr(os, name, refusing(name))
        patched.setattr(builtins, "open", read_only_file)
        opened = values(brimful.open(folder))
    assert alike(opened, values(made[kind][1]))


@pytest.mark.parametrize("kind", ["map", "train"])
def test_the_same_command_in_a_read_only_folder_names_open(
    made: Made, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / kind
    shutil.copytree(made[kind][0], folder)
    handle = os.open

    def read_only(path: Any, flags: int, *more: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system", str(path))
        return handle(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(StorageError, match=r"brimful\.open\('.*'\)"):
        MADE[kind](folder)


# What cannot be opened, and why.


def test_what_is_no_run_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        brimful.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        brimful.open(tmp_path / "file")
    with pytest.raises(InputError, match="holds no run and no stored result"):
        brimful.open(tmp_path)


class Stop(Exception):
    pass


def stopped_map(out: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 20).any():
            raise KeyboardInterrupt
        return x

    with pytest.raises(KeyboardInterrupt):
        run(function, rows(40), batch_size=4, out=out)


def test_a_run_that_has_not_finished_says_how_much_is_done(tmp_path: Path, made: Made):
    stopped_map(tmp_path / "run")
    with pytest.raises(RunDirError, match=r"it was interrupted, 20 of 40 items are done. Run the same command again"):
        brimful.open(tmp_path / "run")
    with pytest.raises(RunDirError, match="is no run itself: it holds 1, of which 0 have finished"):
        brimful.open(tmp_path)
    folds = tmp_path / "folds"
    shutil.copytree(made["folds"][0], folds)
    (folds / "folds.json").unlink()
    with pytest.raises(RunDirError, match=r"it holds 2, of which 2 have finished.*run the same command again"):
        brimful.open(folds)


@pytest.mark.parametrize("kind", ["gp", "gpcm", "wpo"])
def test_a_run_whose_model_was_not_stored_has_not_finished(made: Made, kind: str, tmp_path: Path):
    folder = tmp_path / kind
    shutil.copytree(made[kind][0], folder)
    (folder / "model.json").unlink()
    with pytest.raises(RunDirError, match=r"has not finished.*its model has not been stored yet"):
        brimful.open(folder)


def test_a_run_that_is_extended_and_stopped_has_not_finished(tmp_path: Path):
    first = made_train(tmp_path / "run")
    checkpoints = tmp_path / "run" / "checkpoints"
    kept = {path: path.name for path in checkpoints.iterdir()}
    made_train(tmp_path / "run", epochs=5)
    newest = max(int(path.name) for path in checkpoints.iterdir() if path.is_dir())
    shutil.rmtree(checkpoints / f"{newest:07d}")  # as if it had been killed before its last checkpoint
    assert kept and first.steps == 18
    with pytest.raises(RunDirError, match=r"Run the same command again"):
        brimful.open(tmp_path / "run")


def test_a_damaged_run_is_named(made: Made, tmp_path: Path):
    folder = tmp_path / "map"
    shutil.copytree(made["map"][0], folder)
    shard = sorted(folder.glob("shard-*"))[1]
    shard.unlink()
    with pytest.raises(CorruptError, match=r"does not hold every item once.*Run the same command again"):
        brimful.open(folder)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(CorruptError, match="manifest"):
        brimful.open(folder)


def test_a_log_that_is_lost_costs_nothing(made: Made, tmp_path: Path):
    for kind in ("map", "train"):
        folder = tmp_path / kind
        shutil.copytree(made[kind][0], folder)
        (folder / LOG).unlink()
        assert brimful.open(folder).seconds == made[kind][1].seconds
        again = MADE[kind](folder)
        assert again.seconds == pytest.approx(made[kind][1].seconds)


def test_a_model_of_a_workload_that_is_not_here(tmp_path: Path):
    model_store.save(tmp_path / "model", kind="elsewhere", version=1, meta={}, tensors={})
    with pytest.raises(InputError, match="'elsewhere', a workload that is not installed here"):
        brimful.open(tmp_path / "model")
    model_store.save(tmp_path / "nets", kind="nets", version=1, meta={}, tensors={})
    with pytest.raises(InputError, match="declares no load"):
        brimful.open(tmp_path / "nets")


# The command.


def test_the_command_prints_the_summary(made: Made):
    shown = CliRunner().invoke(app, ["open", str(made["map"][0])])
    assert shown.exit_code == 0 and "items" in shown.output and "flagged" in shown.output
    read = CliRunner().invoke(app, ["open", str(made["train"][0]), "--json"])
    summary = json.loads(read.output)
    assert summary["steps"] == 18 and summary["seconds"] == made["train"][1].seconds
    wrong = CliRunner().invoke(app, ["open", str(made["map"][0].parent)])
    assert wrong.exit_code == 1 and "is no run itself" in wrong.stderr
    assert np.isfinite(summary["train_loss"])
