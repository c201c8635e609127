"""Several functions in a chain, and what is made once per worker."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import brimful
from brimful import Batch, InputError
from brimful.core.runs.compiling import watch_compiling
from brimful.core.runs.events import Compiled, Events

X = torch.arange(100.0)
CALLS: list[torch.device] = []


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def pair(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"x": x, "y": x + 1}


def load(device: torch.device) -> torch.Tensor:
    CALLS.append(device)
    return torch.tensor(3.0, device=device)


def scale(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return x * by


def test_a_chain_runs_one_function_after_the_other(tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of TorchScript
        scripted = torch.jit.script(torch.nn.Identity())
    run: dict[str, Any] = {"device": "cpu", "progress": False, "out": tmp_path / "run"}
    result: Any = brimful.map([double, scripted, pair], X, **run)
    assert torch.equal(result.values["y"], 2 * X + 1)
    assert brimful.map([double, scripted, pair], X, **run).done == 0
    with pytest.raises(brimful.ChangedError):
        brimful.map([double, pair], X, **run)


def test_only_the_last_of_a_chain_may_flag_items():
    flagged = brimful.map([double, lambda x: Batch(x, status=(x > 100) * 3)], X, device="cpu", progress=False)
    assert int((~flagged.ok).sum()) == 49
    with pytest.raises(InputError, match="function 2 of the chain returned a Batch"):
        brimful.map([double, Batch, double], X, device="cpu", progress=False)
    with pytest.raises(InputError, match="at least one function"):
        brimful.map([], X, device="cpu", progress=False)


def test_setup_runs_once_and_its_result_is_given_to_every_batch():
    CALLS.clear()
    result = brimful.map(scale, X, setup=load, batch_size=7, device="cpu", progress=False)
    assert torch.equal(result.values, 3 * X) and [torch.device("cpu")] == CALLS  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="setup is a int; give a function of the device"):
        brimful.map(scale, X, setup=3, device="cpu", progress=False)  # pyright: ignore[reportArgumentType]


def test_setup_runs_in_every_worker():
    result = brimful.map(scale, X, setup=load, batch_size=10, device=["cpu", "cpu"], progress=False)
    assert result.ok.all() and torch.equal(result.values, 3 * X)  # pyright: ignore[reportArgumentType]


def test_a_loop_that_is_compiled_is_said_and_for_how_long(monkeypatch: pytest.MonkeyPatch):
    numba = pytest.importorskip("numba")
    monkeypatch.setattr("brimful.core.runs.compiling._SHORTEST", 0.0)
    seen: list[Any] = []
    loop = numba.njit(lambda x: x + 1)
    with watch_compiling(Events(seen.append)):
        assert loop(1) == 2
        assert loop(2) == 3
    assert [(type(event), event.loops) for event in seen] == [(Compiled, 0), (Compiled, 1)]
    assert seen[1].seconds > 0


def test_a_plan_has_a_short_repr_and_html():
    plan = brimful.plan_map(double, X, device="cpu", budget="1GB")
    assert repr(plan).startswith("Plan('map', ") and len(repr(plan)) < 120
    assert "predicted peak" in plan._repr_html_() and plan._repr_html_().startswith("<pre>")


def test_a_setup_that_fails_is_called_once_and_named():
    calls = []

    def setup(device: torch.device) -> Any:
        calls.append(device)
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model") as caught:
        brimful.map(lambda batch, made: batch, torch.ones(500), setup=setup, device="cpu", progress=False)
    assert len(calls) == 1
    assert "setup= failed" in " ".join(caught.value.__notes__)
