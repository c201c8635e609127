"""What a call held is freed with its result, and not at some later garbage collection: until then data and results
would stay on the device, beside those of the next call."""

import gc
import importlib
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import brimful
from brimful import gp, gpcm, locate, programs, wpo
from brimful.core.memory import garbage

QUIET: dict[str, Any] = {"progress": False, "device": "cpu"}
X = torch.rand(2000, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def no_collection() -> Iterator[None]:
    importlib.import_module("torch._dynamo")  # by torch's optimizers, in a first call, and it holds the frames it is in
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def held_in_cycles() -> list[str]:
    """What of ours, and which arrays, only a garbage collection would free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    ours = [f"{type(of).__module__}.{type(of).__qualname__}" for of in gc.garbage]
    arrays = [name for name, of in zip(ours, gc.garbage, strict=True) if isinstance(of, torch.Tensor | np.ndarray)]
    return sorted({*arrays, *(name for name in ours if name.startswith("brimful."))})


def some_fail(x: torch.Tensor) -> torch.Tensor:
    if (x[:, 0] < 0).any():
        raise ValueError("negative")
    return 2 * x


def few_at_a_time(x: torch.Tensor) -> torch.Tensor:
    if len(x) > 4:
        raise ValueError("too many")
    return 2 * x


def with_negative() -> torch.Tensor:
    x = X.clone()
    x[[5, 700], 0] = -1
    return x


def stream(path: Path) -> object:
    parts = brimful.map(torch.sin, X, stream=True, **QUIET)
    return list(parts), parts.result


def train(path: Path, **options: Any) -> object:
    model, data = nn.Linear(4, 1), {"x": X, "y": X.sum(1, keepdim=True)}

    def loss(model: Any, batch: Any) -> torch.Tensor:
        return nn.functional.mse_loss(model(batch["x"]), batch["y"])

    return brimful.train(model, loss, data, epochs=2, batch_size=256, **QUIET, **options)


MIRROR = "def solve_m(I):\n    O = vmirror(I)\n    return O"
SAMPLE = ("m", (), ((1, 2), (3, 4)), ((2, 1), (4, 3)))

CALLS: dict[str, Callable[[Path], object]] = {
    "map": lambda path: brimful.map(torch.sin, X, **QUIET),
    "map to disk": lambda path: brimful.map(torch.sin, X, out=path, resume=False, **QUIET),
    "map in two processes": lambda path: brimful.map(torch.sin, X, progress=False, device="cpu,cpu"),
    "map as a stream": stream,
    "map of items that fail": lambda path: brimful.map(some_fail, with_negative(), **QUIET),
    "map of items that fail, again": lambda path: brimful.map(some_fail, with_negative(), retries=2, **QUIET),
    "map of items that fail together": lambda path: brimful.map(few_at_a_time, X[:50], **QUIET),
    "train": train,
    "train with validation": lambda path: train(path, valid={"x": X, "y": X.sum(1, keepdim=True)}),
    "train to disk": lambda path: train(path, out=path, resume=False),
    "gp": lambda path: gp.fit(gp.synthetic(50), **QUIET),
    "gpcm": lambda path: gpcm.train(gpcm.synthetic(30, 10, 3), epochs=1, **QUIET),
    "wpo": lambda path: wpo.train(wpo.ScoreModel(torch.rand(32, 2)), X[:, :2], steps=5, **QUIET),
    "locate": lambda path: locate.train(locate.generate(64), epochs=1, batch_size=32, network="small", **QUIET),
    "programs": lambda path: programs.run(programs.loads(MIRROR), [SAMPLE] * 20, executor="sequential", **QUIET),
    "programs, batched": lambda path: programs.run(programs.loads(MIRROR), [SAMPLE] * 20, executor="batched", **QUIET),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_call_held_is_freed_with_its_result(name: str, no_collection: None, tmp_path: Path):
    CALLS[name](tmp_path / "run")
    assert held_in_cycles() == []


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if frozen:
        gc.freeze()


def test_a_frozen_heap_is_left_out_of_collections_but_not_of_ours(nothing_frozen: None, no_collection: None):
    def cycle() -> list[Any]:
        new: list[Any] = []
        new.append(new)
        return new

    class Watched:
        pass

    freed = list[str]()

    def watch(of: list[Any], name: str) -> None:
        watched = Watched()
        of.append(watched)
        weakref.finalize(watched, freed.append, name)

    before = cycle()
    watch(before, "before")
    del before
    with garbage.frozen_heap():
        meanwhile = cycle()
        watch(meanwhile, "meanwhile")
        del meanwhile
        with garbage.frozen_heap():
            gc.collect()
        assert freed == []  # both were there when the inner one began
        garbage.collect()
        assert sorted(freed) == ["before", "meanwhile"]
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_a_heap_that_the_program_froze_stays_frozen(nothing_frozen: None):
    gc.freeze()
    with garbage.frozen_heap():
        pass
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
