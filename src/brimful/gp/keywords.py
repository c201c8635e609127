"""The options of `gp.fit` as typed keywords, for editors and type checkers; `options` declares them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from ..core.memory.budget import BudgetLike
from ..core.memory.devices import DeviceLike
from .model.kernels import CustomKernel


class FitKeywords(TypedDict, total=False):
    """Those of `FitOptions`."""

    kernel: str | CustomKernel
    ard: bool
    mean: str
    priors: str | Mapping[str, Any] | None
    steps: int
    starts: int | None
    tolerance: float | None
    approximation: str
    inducing: int | None
    keep: str
    storage: str
    batch_size: int | None
    seed: int
    device: DeviceLike
    budget: BudgetLike
    cluster: str | None
    out: str | Path | None
