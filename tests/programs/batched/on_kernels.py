"""Has the kernels for a GPU run wherever there are tensors: interpreted where there is no GPU."""

import importlib
import os
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are defined

pytest.importorskip("triton")

from triton.runtime import interpreter

from brimful.programs import batched

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_MAKING = [(torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """They run on this device, and find memory that was used before: what they do not write is seen."""
    if DEVICE == "cpu":  # the interpreter takes numbers of one element for bounds of loops, which NumPy no longer does
        plain = interpreter._patch_lang_tensor

        def patched(tensor: Any, scope: Any) -> None:
            plain(tensor, scope)
            scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

        monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
    for name in modules():
        used = importlib.import_module(name)
        for decides, runs in (("has_kernels", True), ("usable", False)):
            if hasattr(used, decides):
                monkeypatch.setattr(used, decides, lambda tensor, runs=runs: runs)
    for owner, name in _MAKING:
        monkeypatch.setattr(owner, name, _used_before(getattr(owner, name)))


def modules() -> list[str]:
    """Those of the batched executor that choose between kernels and torch."""
    found = pkgutil.walk_packages(batched.__path__, f"{batched.__name__}.")
    return [batched.__name__ + ".gpu", *(module.name for module in found if ".gpu." not in module.name)]


def _used_before(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def made(*args: Any, **kwargs: Any) -> torch.Tensor:
        memory = make(*args, **kwargs)
        if memory.is_floating_point() or memory.dtype == torch.bool:
            return memory.fill_(1)
        return memory.fill_(torch.iinfo(memory.dtype).max // 5)

    return made
