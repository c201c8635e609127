"""The number format that a model computes in, and the loss scale that keeps half precision from underflowing."""

import contextlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from ....core.base import foreach
from ....core.base.errors import ConfigError

NAMES = {
    "float64": "float64",
    "fp64": "float64",
    "float32": "float32",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
}
_GROW_AFTER = 2000  # steps without overflow, as torch's GradScaler


@dataclass(frozen=True, slots=True)
class Precision:
    """The format that forward and backward compute in; weights and optimizer state keep their own.

    Attributes:
        name: "float32" and so on.
        reason: in words, for the plan.
        autocast: the dtype for torch.autocast; None computes in the weights' dtype.
        device: the kind of device.
    """

    name: str
    reason: str
    autocast: torch.dtype | None
    device: str

    @property
    def scaled(self) -> bool:
        return self.autocast == torch.float16

    def context(self) -> AbstractContextManager[object]:
        """What the forward pass runs in."""
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device, self.autocast)


def resolve(
    spec: str,
    device: torch.device,
    dtypes: Iterable[torch.dtype],
    bfloat16: Callable[[], bool] = lambda: torch.cuda.is_bf16_supported(including_emulation=False),
) -> Precision:
    """What a `precision=` argument means on a device, for weights of these dtypes."""
    held = set(dtypes)
    own = str(next(iter(held))).removeprefix("torch.") if len(held) == 1 else "mixed"
    single = held == {torch.float32}
    if spec == "auto":
        if not single:
            return Precision(own, "the dtype of the weights", None, device.type)
        if device.type == "cpu":
            return Precision("float32", "a CPU gains nothing from less", None, "cpu")
        if bfloat16():
            return Precision("bfloat16", "supported by this GPU", torch.bfloat16, device.type)
        return Precision("float16", "this GPU has no bfloat16", torch.float16, device.type)
    name = NAMES.get(spec) if isinstance(spec, str) else None
    if name is None:
        raise ConfigError(f"precision is {spec!r}; choose auto, float32, bf16, fp16 or float64")
    if name in ("bfloat16", "float16") and own != name:
        if not single:
            raise ConfigError(f"precision is {spec!r} and the weights are {own}; convert the model: model.float()")
        return Precision(name, "as requested", getattr(torch, name), device.type)
    if own != name:
        raise ConfigError(f"precision is {spec!r} and the weights are {own}; convert the model first: model.to(dtype)")
    return Precision(name, "as requested", None, device.type)


class LossScale:
    """A dynamic loss scale on the device: halved after an overflow, doubled after 2,000 steps without.

    Losses are sums over a batch, not means, so it begins lower than torch's GradScaler by about the batch's size.
    """

    def __init__(self, device: torch.device, samples: int) -> None:
        first = 2.0 ** max(0, 16 - max(1, samples).bit_length())
        self.value = torch.full((), first, dtype=torch.float32, device=device)
        self.steps = torch.zeros((), dtype=torch.int32, device=device)

    def update(self, bad: Tensor) -> None:
        """After a step; `bad` is 1.0 where it overflowed."""
        foreach.update_scale(self.value, self.steps, bad, _GROW_AFTER)

    def state(self) -> dict[str, Tensor]:
        return {"value": self.value, "steps": self.steps}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.value.copy_(state["value"])
        self.steps.copy_(state["steps"])
