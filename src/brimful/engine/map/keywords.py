"""The options of `map` as typed keywords, for editors and type checkers; `map` itself declares them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import torch

from ...core.memory.budget import BudgetLike
from ...core.memory.cost import Cost
from ...core.memory.devices import DeviceLike
from ...core.runs.events import Event


class MapKeywords(TypedDict, total=False):
    """Those that do not decide what `map` returns."""

    setup: Callable[[torch.device], Any] | None
    budget: BudgetLike
    device: DeviceLike
    batch_size: int | str
    weight: Any
    fallback: Any
    out: str | Path | None
    resume: bool
    fingerprint: str | None
    nonfinite: str
    seed: int
    grad: bool
    batch_invariant: bool
    retries: int
    timeout: float | None
    on_crash: str
    warm_up: Callable[[], None] | None
    progress: bool | Callable[[Event], None] | None
    cost: Cost | None
    name: str
    cancel: threading.Event | None
    cluster: str | None
