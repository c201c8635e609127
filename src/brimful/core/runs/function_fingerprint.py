"""A digest of what a function does: equal for the same function in another process, different when anything that can
decide its results differs.

A function is its code, its defaults, what it closes over and the globals it names; an object is its class and its
state; a network is all of that, hooks and buffers included. The walk follows every reference into the user's own code
and stops at code of installed packages, of which it takes name and version. A value that cannot be known again in
another process (an open file, a generator) has no digest, and the error says which it was. Files that a function
reads, the environment and the clock are not looked at. An object that holds more than what decides its results says
itself what does, by a method `__fingerprint__(exact)`; where `exact` is false, what decides the memory that it takes.
"""

import dis
import functools
import importlib.util
import io
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..base.errors import InputError
from . import fingerprint

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PACKAGES = {"site-packages", "dist-packages"}
_OURS = __name__.partition(".")[0]
_PLAIN = {type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range}
_CONTAINERS = {list, tuple, dict, set, frozenset, types.MappingProxyType}
_ARRAYS = (torch.Tensor, np.ndarray, pa.Table, pa.RecordBatch)
_SCRIPTED = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
_NAMED = (
    *(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType),
)
_DESCRIBED = (np.dtype, np.ufunc, torch.dtype, torch.device, torch.layout, torch.memory_format)
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Event, threading.Condition, threading.local)
_UNKNOWABLE = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType, io.IOBase)
# What Python itself puts into a class or function, and what says nothing about results.
_SKIPPED = {
    *("__doc__", "__module__", "__dict__", "__weakref__", "__qualname__", "__annotations__", "__firstlineno__"),
    *("__static_attributes__", "__annotate_func__", "__annotations_cache__", "__type_params__", "__wrapped__"),
    *("__parameters__", "__orig_bases__", "__match_args__", "__abstractmethods__", "_abc_impl"),
    "__slotnames__",  # put there by pickle
}


def of_function(function: Any, trained: torch.nn.Module | None = None, given: str | None = None) -> str:
    """A function's name and the digest of what it does.

    Args:
        function: a function, a network, or any other callable.
        trained: a network whose parameters and persistent buffers count by dtype and shape alone, wherever they are
            met: a run that is resumed has its own.
        given: the user's own fingerprint, which stands for a function that has no digest.

    Raises:
        InputError: it holds something that has no digest; the message names it.
    """
    walk = _Walk(exact=True, trained=trained)
    try:
        return f"{_name(function)} ({walk.digest(function, 'fn').hex()[:24]})"
    except InputError:
        if given is None:
            raise
        return f"{_name(function)} (given: {given})"


def signature(function: Any) -> str:
    """The same by shapes: arrays count by dtype and shape alone, and what has no digest by its type. It is cheap, and
    what measurements are remembered by."""
    return f"{_name(function)} ({_Walk(exact=False).digest(function, 'fn').hex()[:24]})"


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        plain = {key: value for key, value in function.keywords.items() if isinstance(value, int | float | str)}
        return f"{_name(function.func)}({', '.join(f'{key}={value!r}' for key, value in plain.items())})"
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class _Walk:
    """One walk over all that a function refers to. A value that is reached twice is hashed once."""

    def __init__(self, exact: bool, trained: torch.nn.Module | None = None) -> None:
        self._exact = exact
        tensors = () if trained is None else trained.state_dict(keep_vars=True).values()
        self._by_shape = {id(tensor) for tensor in tensors}
        # Training sets their mode itself, and leaves them in another.
        self._without_mode = () if trained is None else {id(part) for part in trained.modules()}
        self._known: dict[int, tuple[Any, bytes]] = {}  # by id; the value is held, so that no other gets its id
        self._within: list[int] = []

    def digest(self, value: Any, path: str) -> bytes:
        if type(value) in _PLAIN:
            return fingerprint.join(type(value).__name__, repr(value))
        if id(value) in self._within:  # it leads back to itself: how far up is all that is left to say
            return fingerprint.join("cycle", str(len(self._within) - self._within.index(id(value))))
        if id(value) not in self._known:
            self._within.append(id(value))
            digest = fingerprint.join(*self._parts(value, path))
            self._within.pop()
            self._known[id(value)] = value, digest
        return self._known[id(value)][1]

    def _parts(self, value: Any, path: str) -> Iterator[bytes | str]:
        """What a value is made of."""
        if isinstance(value, _ARRAYS):
            yield from self._array(value, path)
        elif isinstance(value, Path):
            yield str(value)  # as for one in a text: files are not looked into
        elif isinstance(value, _DESCRIBED):
            yield f"{type(value).__name__} {value}"
        elif isinstance(value, _LOCKS):
            yield type(value).__name__  # they hold no data
        elif isinstance(value, torch.Generator):
            yield from self._named("generator", path, {"state": value.get_state()})
        elif type(value) in _CONTAINERS:
            yield from self._container(value, path)
        elif (inner := _unwrapped(value)) is not None:
            yield from self._named(type(value).__qualname__, path, inner)
        elif isinstance(value, types.FunctionType):
            yield from self._function(value, path)
        elif isinstance(value, _NAMED):
            owner = getattr(value, "__self__", None)
            plain = owner is None or isinstance(owner, types.ModuleType)
            name = f"{value.__qualname__} {getattr(value, '__module__', '')}"
            yield from self._named(name, path, {} if plain else {"self": owner})
        elif isinstance(value, types.ModuleType):
            yield f"module {value.__name__} {_version(value.__name__)} {_source(value.__name__)}"
        elif isinstance(value, type):
            yield from self._class(value, path)
        elif hasattr(type(value), "__fingerprint__"):
            yield self.digest(type(value), path)
            yield self.digest(value.__fingerprint__(self._exact), path)
        elif isinstance(value, torch.nn.Module):
            yield self.digest(type(value), path)
            parts = {name: _without_ids(name, part) for name, part in vars(value).items()}
            if id(value) in self._without_mode:
                del parts["training"]
            yield from self._named("module", path, parts)
        else:
            yield self.digest(type(value), path)
            yield from self._reduced(value, path)

    def _named(self, kind: str, path: str, parts: Mapping[str, Any]) -> Iterator[bytes | str]:
        yield kind
        for name, part in parts.items():
            yield name
            yield self.digest(part, f"{path}.{name}")

    def _array(self, value: Any, path: str) -> Iterator[bytes | str]:
        yield f"{type(value).__name__} {_dtype(value)} {tuple(value.shape)}"
        if id(value) in self._by_shape:
            return
        if self._exact and _dense(value):
            yield fingerprint.digest(value)
        elif self._exact and not getattr(value, "is_meta", False):
            yield from self._reduced(value, path)

    def _container(self, value: Any, path: str) -> Iterator[bytes | str]:
        yield type(value).__name__
        if isinstance(value, set | frozenset):
            yield from sorted(self.digest(part, path) for part in sorted(value, key=repr))
        elif isinstance(value, list | tuple):
            for position, part in enumerate(value):
                yield self.digest(part, f"{path}[{position}]")
        else:
            for key, part in value.items():
                yield self.digest(key, path)
                yield self.digest(part, f"{path}[{key!r}]" if type(key) in _PLAIN else path)

    def _function(self, function: types.FunctionType, path: str) -> Iterator[bytes | str]:
        own = not _installed(function.__module__)
        yield f"function {function.__qualname__} {_version(function.__module__)}"
        if not own and not function.__closure__:
            return
        yield from _code(function.__code__)
        parts = {"__defaults__": function.__defaults__, "__kwdefaults__": function.__kwdefaults__}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        parts |= {name: _contents(cell) for name, cell in cells}
        yield from self._named("", path, parts)
        if own:
            yield from self._named("attributes", path, _without_skipped(vars(function)))
            yield from self._named("globals", path, _globals(function))

    def _class(self, kind: type, path: str) -> Iterator[bytes | str]:
        yield f"class {kind.__module__} {kind.__qualname__} {_version(kind.__module__)}"
        if not _installed(kind.__module__):
            yield self.digest((type(kind), *kind.__bases__), path)
            yield from self._named("attributes", path, dict(sorted(_without_skipped(vars(kind)).items())))

    def _reduced(self, value: Any, path: str) -> Iterator[bytes | str]:
        """What pickle would write: how it is made, from what, and the state set after that."""
        try:
            if isinstance(value, _UNKNOWABLE):
                raise TypeError
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            if not self._exact:
                return
            raise InputError(
                f"{path} is a {type(value).__name__}, which cannot be known again in another process, so a run of this "
                "function cannot be resumed; pass fingerprint= with a text that changes whenever the function or the "
                "items do"
            ) from error
        if isinstance(reduced, str):
            yield reduced
            return
        make, args, state, items, pairs = (*reduced, None, None, None)[:5]
        yield self.digest((make, args, items and list(items), pairs and dict(pairs)), path)
        if isinstance(state, dict) and all(isinstance(name, str) for name in state):
            yield from self._named("state", path, state)
        else:
            yield self.digest(state, path)


def _unwrapped(value: Any) -> dict[str, Any] | None:
    """What stands for a wrapper that holds machinery beside the function, or None."""
    match value:
        case functools.partial():
            return {"func": value.func, "args": value.args, "keywords": value.keywords}
        case types.MethodType():
            return {"func": value.__func__, "self": value.__self__}
        case staticmethod() | classmethod():
            return {"func": value.__func__}
        case property():
            return {"get": value.fget, "set": value.fset, "delete": value.fdel}
        case functools.cached_property():
            return {"func": value.func}
        case functools._lru_cache_wrapper():
            return {"func": value.__wrapped__}
        case torch.jit.ScriptModule():
            return {"code": value.code, "state": dict(value.state_dict())}
        case torch.jit.ScriptFunction():
            return {"code": value.code}
        case weakref.ref():
            return {"referent": value()}
    for name in ("_torchdynamo_orig_callable", "_orig_mod"):  # torch.compile
        if name in getattr(value, "__dict__", ()) or name in getattr(value, "_modules", ()):
            return {"compiled": getattr(value, name)}
    if str(type(value).__module__).startswith(("numba", "triton")):
        inner = getattr(value, "py_func", None) or getattr(value, "fn", None)
        return None if inner is None else {"jit": inner}
    return None


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _without_skipped(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in named.items() if name not in _SKIPPED}


def _globals(function: types.FunctionType) -> dict[str, Any]:
    """The globals that a function and the functions inside it name, and the modules they import."""
    loaded, imported, attributes = _names(function.__code__)
    values = {name: function.__globals__[name] for name in sorted(loaded & function.__globals__.keys())}
    for name, value in list(values.items()):
        values |= _used(name, value, attributes)
    return values | {f"import {name}": _source(name) for name in sorted(imported)}


def _used(name: str, value: Any, attributes: set[str]) -> dict[str, Any]:
    """Of a module of the user's own, what is named of it; all else stands for itself."""
    if not isinstance(value, types.ModuleType) or _installed(value.__name__):
        return {name: value}
    named = {part: vars(value)[part] for part in sorted(attributes & vars(value).keys())}
    inner: dict[str, Any] = {name: value.__name__ if named else value}
    for part, used in named.items():
        inner |= _used(f"{name}.{part}", used, attributes - {part})
    return inner


def _names(code: types.CodeType) -> tuple[set[str], set[str], set[str]]:
    """Globals, imported modules and attributes that a piece of code names, with all the code inside it."""
    steps = list(dis.get_instructions(code))
    loaded = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    imported = {step.argval for step in steps if step.opname == "IMPORT_NAME"}
    attributes = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            for names, more in zip((loaded, imported, attributes), _names(part), strict=True):
                names |= more
    return loaded, imported, attributes


def _code(code: types.CodeType) -> Iterator[bytes | str]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], code.co_flags))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def _dense(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided and not value.is_quantized and not value.is_meta
    return not (isinstance(value, np.ndarray) and value.dtype.hasobject)


def _dtype(value: Any) -> str:
    return value.schema.to_string() if isinstance(value, pa.Table | pa.RecordBatch) else str(value.dtype)


@functools.cache
def _installed(module: Any) -> bool:
    """Whether a module belongs to Python or an installed package, whose version stands for it."""
    if not isinstance(module, str):  # of compiled code, which has none
        return True
    root = module.partition(".")[0]
    if root == _OURS or (root in sys.stdlib_module_names and root != "__main__"):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and _of_library(file)


def _of_library(file: str) -> bool:
    """Whether a file is Python's or an installed package's: of this interpreter, of the user, or of another that a path
    leads to."""
    return file.startswith(_LIBRARIES) or not _PACKAGES.isdisjoint(Path(file).parts)


@functools.cache
def _version(module: Any) -> str:
    root = sys.modules.get(module.partition(".")[0]) if isinstance(module, str) else None
    return str(getattr(root, "__version__", "")) if _installed(module) else ""


def _source(module: str) -> str:
    """The digest of the file of a module of the user's own."""
    if _installed(module):
        return ""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file() or _of_library(spec.origin):
        return ""
    return fingerprint.of(Path(spec.origin))


def _without_ids(name: str, part: Any) -> Any:
    """An attribute of a network; of its hooks, those alone: torch counts them, through all networks of a process."""
    return list(part.values()) if "_hooks" in name and isinstance(part, Mapping) else part
