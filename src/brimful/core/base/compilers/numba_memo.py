"""Typing of what is built into numba, remembered while one of our functions is compiled.

By itself numba tries all known forms of an operator, lists, sets, text and dates among them, each time it comes across
one, and it comes across each several times until the types of a function are known. That is a third of what compiling
takes. Which form it is depends only on the types and the settings, so that it can be looked up.

By itself it also imports and looks through all its modules of built-in functions each time it comes across a function
for the first time. Once is enough: nothing is added to them meanwhile.

Nor is garbage collected meanwhile: what numba makes lasts until the end, and each look at it takes longer.

This uses numba's compiler from within. Where a version of numba has it otherwise, nothing is remembered.
"""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def remembered_typing() -> Iterator[None]:
    """Remembers the form that a built-in function has for some types while the block runs; in a block within another,
    the outer one does. Only the compiling thread may enter it: numba's lock keeps the others from compiling."""
    try:
        from numba.core import cpu, targetconfig
        from numba.core.types import functions

        kind: Any = functions.BaseFunction
        target: Any = cpu.CPUContext
        resolve, settings_now = kind.get_call_type, targetconfig.ConfigStack.top_or_none
        load_modules = target.load_additional_registries
    except (AttributeError, ImportError):
        yield
        return
    if hasattr(resolve, "remembers"):
        yield
        return
    known: dict[Any, Any] = {}
    settings: dict[int, tuple[Any, str]] = {}  # with what they are, so that no other one gets the same place

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        now: Any = settings_now()
        if id(now) not in settings:
            settings[id(now)] = now, repr(now)
        key = (self, context, tuple(args), tuple(kws.items()), settings[id(now)][1])
        if key not in known:  # what is not found raises, and is looked for again
            known[key] = resolve(self, context, args, kws)
        return known[key]

    loaded: list[Any] = []

    def load_additional_registries(self: Any) -> None:
        if self not in loaded:
            load_modules(self)
            loaded.append(self)

    get_call_type.remembers = True
    kind.get_call_type, collecting = get_call_type, gc.isenabled()
    target.load_additional_registries = load_additional_registries
    gc.disable()
    try:
        yield
    finally:
        kind.get_call_type, target.load_additional_registries = resolve, load_modules
        if collecting:
            gc.enable()
