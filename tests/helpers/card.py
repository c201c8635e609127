"""A GPU that is not there: tensors that say they are on it, and hold their numbers on the CPU.

Code that mixes tensors of two devices, or reads one of a GPU as an array, works on a CPU and fails on a GPU. Here it
fails too: within `card` every function of torch runs on the CPU, once all its tensors are found to be on one device.
For a process of its own, since torch then knows one more kind of device.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

CARD = torch.device("privateuseone", 0)
_COPIES = (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)
_INDEXED = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default)  # a GPU takes indices of the CPU


class OnCard(Tensor):
    """A tensor on the card.

    Attributes:
        held: its numbers.
    """

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnCard":
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made = Tensor._make_wrapper_subclass(cls, held.size(), device=CARD, **layout)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def __repr__(self, **options: Any) -> str:
        return f"OnCard({self.held!r})"

    def tolist(self) -> Any:
        return self.held.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        assert force, "an array of a tensor on a GPU"
        return self.held.numpy(force=True)


class _Card(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _each(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """A function of the tensors among arguments."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)(_each(one, function) for one in value)
    return value


def held(tensor: Tensor) -> Tensor:
    return tensor.held if isinstance(tensor, OnCard) else tensor


def _run(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    given: list[Tensor] = []
    _each((*args, *kwargs.values()), lambda tensor: given.append(tensor))
    on_card = [tensor for tensor in given if isinstance(tensor, OnCard)]
    if on_card and func not in _COPIES:
        for tensor in given:
            mixed = not isinstance(tensor, OnCard) and tensor.dim() > 0
            assert not mixed or func in _INDEXED, f"{func}: tensors of two devices"
    there = bool(on_card)
    if func is torch.ops.aten.copy_.default:
        there = isinstance(args[0], OnCard)
    elif kwargs.get("device") is not None:
        there = torch.device(kwargs["device"]) == CARD
        kwargs = {**kwargs, "device": torch.device("cpu")}
    result = func(*_each(args, held), **{name: _each(value, held) for name, value in kwargs.items()})
    if not there:
        return result
    known = {id(tensor.held): tensor for tensor in on_card}  # what was changed in place is what was given
    return _each(result, lambda tensor: known[id(tensor)] if id(tensor) in known else OnCard(tensor))


@contextmanager
def card() -> Iterator[torch.device]:
    """A machine with a GPU, on which Triton's kernels are interpreted where the environment says so."""
    _setup_privateuseone_for_python_backend()
    torch._C._set_only_lift_cpu_tensors(True)  # `torch.tensor` copies to the card as `to` does
    if "TRITON_INTERPRET" in os.environ:
        _launch_on_the_card()
    with _Card():
        yield CARD


def _launch_on_the_card() -> None:
    from triton.runtime import interpreter

    launch, patch = interpreter.GridExecutor.__call__, interpreter._patch_lang_tensor

    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        _each((*args, *kwargs.values()), lambda tensor: _expect_on_card(self.fn.__name__, tensor))
        launch(self, *_each(args, held), **{name: _each(value, held) for name, value in kwargs.items()})

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)  # it takes numbers of one element for bounds of loops, which NumPy no longer does
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter.GridExecutor.__call__, interpreter._patch_lang_tensor = checked, patched


def _expect_on_card(kernel: str, tensor: Tensor) -> None:
    assert isinstance(tensor, OnCard), f"{kernel}: a tensor that is not on the GPU"
