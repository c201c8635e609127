"""A digest of what a function does: the same in another process, another when anything that decides results is."""

import copy
import dataclasses
import enum
import functools
import importlib.util
import subprocess
import sys
import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from brimful.core.base.errors import InputError
from brimful.core.runs.function_fingerprint import of_function, signature


def scaled(factor: Any, offset: float = 0.0):
    def scale(x, power=2):
        return factor * x**power + offset

    return scale


def test_a_function_is_its_code_and_what_it_closes_over():
    same = of_function(scaled(2.0))
    assert same.startswith("scaled.<locals>.scale (")
    assert of_function(scaled(2.0)) == same
    assert of_function(scaled(3.0)) != same
    assert of_function(scaled(2)) != same
    assert of_function(lambda x: x + 1) != of_function(lambda x: x + 2)
    assert of_function(lambda x, k=1: x + k) != of_function(lambda x, k=2: x + k)
    assert of_function(lambda x, *, k=1: x + k) != of_function(lambda x, *, k=2: x + k)


def test_a_function_has_the_same_fingerprint_after_it_has_run():
    function = scaled(2.0)
    before = of_function(function)
    for _ in range(100):
        function(3.0)
    assert of_function(function) == before


def ridge(alpha: float) -> Any:
    from sklearn.linear_model import Ridge  # slow to import

    return Ridge(alpha)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: float
    data: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    x: float


class Stack(list):
    pass


def plus(x):
    return x + 1


def minus(x):
    return x - 1


def stack(extra: int) -> Stack:
    made = Stack([1])
    made.extra = extra  # type: ignore[attr-defined]
    return made


VALUES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "list of functions": (lambda: [plus, minus], lambda: [plus, plus]),
    "dict of functions": (lambda: {"a": plus}, lambda: {"a": minus}),
    "dict in another order": (lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1}),
    "set": (lambda: {"one", "two", "three"}, lambda: {"one", "two"}),
    "set of objects": (lambda: {Color.RED, Color.BLUE}, lambda: {Color.RED}),
    "list of objects": (lambda: [Point(1.0), Point(2.0)], lambda: [Point(1.0), Point(3.0)]),
    "slots": (lambda: Slotted(1.0), lambda: Slotted(2.0)),
    "enum": (lambda: Color.RED, lambda: Color.BLUE),
    "nested": (lambda: Point(1.0, {"k": [Point(0.0)]}), lambda: Point(1.0, {"k": [Point(0.5)]})),
    "subclass of list": (lambda: Stack([1, 2]), lambda: Stack([1, 3])),
    "attribute of a list": (lambda: stack(1), lambda: stack(2)),
    "ordered dict": (lambda: OrderedDict(a=1), lambda: OrderedDict(a=2)),
    "defaultdict": (lambda: defaultdict(list, a=[1]), lambda: defaultdict(list, a=[2])),
    "default factory": (lambda: defaultdict(list), lambda: defaultdict(dict)),
    "deque": (lambda: deque([1, 2]), lambda: deque([2, 1])),
    "namespace": (lambda: types.SimpleNamespace(a=1), lambda: types.SimpleNamespace(a=2)),
    "bytearray": (lambda: bytearray(b"ab"), lambda: bytearray(b"ac")),
    "slice": (lambda: slice(1, 2), lambda: slice(1, 3)),
    "partial": (lambda: functools.partial(scaled, 2.0, offset=1.0), lambda: functools.partial(scaled, 2.0, offset=2.0)),
    "bound method": (lambda: [1, 2].count, lambda: [1, 3].count),
    "method of an object": (lambda: Point(1.0).__eq__, lambda: Point(2.0).__eq__),
    "class": (lambda: Point, lambda: Slotted),
    "array of objects": (lambda: np.array([Point(1.0)], object), lambda: np.array([Point(2.0)], object)),
    "array": (lambda: np.arange(3), lambda: np.arange(4)),
    "number of numpy": (lambda: np.float32(1), lambda: np.float64(1)),
    "dtype": (lambda: torch.float32, lambda: torch.float64),
    "device": (lambda: torch.device("cpu"), lambda: torch.device("meta")),
    "tensor": (lambda: torch.zeros(3), lambda: torch.ones(3)),
    "sparse tensor": (lambda: torch.eye(3).to_sparse(), lambda: 2 * torch.eye(3).to_sparse()),
    "generator of torch": (lambda: torch.Generator().manual_seed(1), lambda: torch.Generator().manual_seed(2)),
    "generator of numpy": (lambda: np.random.default_rng(1), lambda: np.random.default_rng(2)),
    "frame": (lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), lambda: pd.DataFrame({"a": [1.0], "b": ["x"]})),
    "frame's text": (lambda: pd.DataFrame({"b": ["x", "y"]}), lambda: pd.DataFrame({"b": ["x", "z"]})),
    "frame's index": (lambda: pd.Series([1, 2]), lambda: pd.Series([1, 2], index=[1, 0])),
    "table": (lambda: pa.table({"a": [1]}), lambda: pa.table({"a": [2]})),
    "estimator": (lambda: ridge(1.0).fit([[0.0], [1.0]], [0, 1]), lambda: ridge(1.0).fit([[0.0], [1.0]], [0, 2])),
    "estimator's option": (lambda: ridge(1.0), lambda: ridge(2.0)),
    "vmap": (lambda: torch.vmap(plus), lambda: torch.vmap(minus)),
    "compiled": (lambda: torch.compile(plus), lambda: torch.compile(minus)),
    "compiled module": (lambda: torch.compile(linear(0)), lambda: torch.compile(linear(1))),
    "scripted": (lambda: torch.jit.trace(plus, torch.ones(1)), lambda: torch.jit.trace(minus, torch.ones(1))),
    "cached": (lambda: functools.cache(plus), lambda: functools.cache(minus)),
}


def linear(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Linear(3, 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", VALUES)
def test_what_a_function_captures_counts_whatever_it_is(kind: str):
    one, other = VALUES[kind]
    assert of_function(scaled(one())) == of_function(scaled(one()))
    assert of_function(scaled(one())) != of_function(scaled(other()))
    assert of_function(functools.partial(plus, one())) != of_function(functools.partial(plus, other()))


def test_the_elements_of_a_set_count_whatever_their_order():
    names = [f"name {number}" for number in range(50)]
    backwards = names[::-1]
    assert of_function(scaled(set(names))) == of_function(scaled(set(backwards)))


def module_with(code: str, name: str, folder: Path) -> types.ModuleType:
    """A module of the user's own, from its code."""
    file = folder / f"{name}.py"
    file.write_text(code)
    # Bytecode of the one before, of the same second and size, would be taken for that of this one.
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


CODE = """
import torch
import {helpers}
from {helpers} import factor

TABLE = {{"scale": 2}}
STEPS = [lambda x: x + 1]

class Options:
    power = 2

class Settings:
    def __init__(self):
        self.offset = 1

SETTINGS = Settings()

def helper(x):
    return x * 3

class Base:
    bias = 5
    def inner(self, x):
        return x + self.bias

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = 2.0
        self.register_buffer("hidden", torch.ones(2), persistent=False)
        self.layer = torch.nn.Linear(2, 2)
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)
    def activation(self, x):
        return x * 7
    def forward(self, x):
        return self.activation(self.layer(x)) * self.alpha

class Callable(Base):
    constant = 9
    def __call__(self, x):
        return self.inner(x) * self.constant

def fn(x):
    for step in STEPS:
        x = step(x)
    return helper(x) * TABLE["scale"] ** Options.power + SETTINGS.offset + {helpers}.shift(x) * factor

net, called = Net(), Callable()
"""
HELPERS = """
def shift(x):
    return deeper(x)

def deeper(x):
    return x + 11

factor = 13

def unused(x):
    return 17
"""
CHANGES = {
    "container": ("fn", '"scale": 2', '"scale": 4'),
    "list of functions": ("fn", "x + 1]", "x + 2]"),
    "class attribute": ("fn", "power = 2", "power = 3"),
    "instance": ("fn", "self.offset = 1", "self.offset = 2"),
    "neighbour": ("fn", "x * 3", "x * 4"),
    "function of a function in another module": ("fn", "x + 11", "x + 12"),
    "imported number": ("fn", "factor = 13", "factor = 14"),
    "inherited method": ("called", "x + self.bias", "x - self.bias"),
    "inherited attribute": ("called", "bias = 5", "bias = 6"),
    "attribute of a callable's class": ("called", "constant = 9", "constant = 8"),
    "plain attribute of a network": ("net", "alpha = 2.0", "alpha = 3.0"),
    "buffer that is not saved": ("net", "torch.ones(2), persistent", "torch.zeros(2), persistent"),
    "method called by forward": ("net", "x * 7", "x * 8"),
    "weights": ("net", "init.ones_(self.layer.weight)", "init.zeros_(self.layer.weight)"),
}


def loaded(tmp_path: Path, name: str, old: str = "", new: str = "") -> Any:
    helpers = f"helpers_{tmp_path.name}"
    code, more = (text.replace(old, new) if old else text for text in (CODE.format(helpers=helpers), HELPERS))
    module_with(more, helpers, tmp_path)
    return getattr(module_with(code, f"user_{tmp_path.name}", tmp_path), name)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_anywhere_in_the_users_code_counts(tmp_path: Path, change: str):
    name, old, new = CHANGES[change]
    before = of_function(loaded(tmp_path, name))
    assert of_function(loaded(tmp_path, name)) == before
    assert of_function(loaded(tmp_path, name, old, new)) != before


@pytest.mark.parametrize("name", ["fn", "called", "net"])
def test_a_change_that_it_does_not_use_does_not_count(tmp_path: Path, name: str):
    before = of_function(loaded(tmp_path, name))
    assert of_function(loaded(tmp_path, name, "return 17", "return 18")) == before


def test_hooks_and_the_mode_of_a_network_count():
    network = torch.nn.Linear(3, 2)
    prints = {of_function(network), of_function(copy.deepcopy(network))}
    assert len(prints) == 1
    network.register_forward_hook(lambda module, args, output: cast(Any, output) + 1)
    prints.add(of_function(network))
    network.eval()
    prints.add(of_function(network))
    assert len(prints) == 3


SCRIPT = """
import sys
sys.path[:0] = [{folder!r}]
from brimful.core.runs.function_fingerprint import of_function
import user_{name} as user
print([of_function(value) for value in (user.fn, user.called, user.net)])
"""


def test_another_process_gives_the_same(tmp_path: Path):
    """A new interpreter, in which strings have other hashes."""
    here = [of_function(loaded(tmp_path, name)) for name in ("fn", "called", "net")]
    script, seed = SCRIPT.format(folder=str(tmp_path), name=tmp_path.name), str(hash("seed") % 2**32)
    around = {"PYTHONHASHSEED": seed, **_paths()}
    there = subprocess.run([sys.executable, "-c", script], env=around, capture_output=True, text=True)
    assert there.stdout.strip() == str(here), there.stderr


def _paths() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_a_function_that_calls_itself_and_objects_that_refer_to_each_other():
    def countdown(n):
        return countdown(n - 1) if n else 0

    one, other = Point(1.0), Point(2.0)
    one.data, other.data = other, one
    assert of_function(countdown) == of_function(countdown)
    assert of_function(scaled(one)) == of_function(scaled(one)) != of_function(scaled(other))


def test_a_lock_counts_by_its_type_and_what_cannot_be_known_again_is_refused(tmp_path: Path):
    assert of_function(scaled(Point(1.0, threading.Lock()))) == of_function(scaled(Point(1.0, threading.Lock())))
    with (tmp_path / "open").open("w") as file:
        for value in (file, (n for n in range(3)), sys._getframe()):
            with pytest.raises(InputError, match=r"fn\.factor\.data\['deep'\]\[0\] is a .*fingerprint="):
                of_function(scaled(Point(1.0, {"deep": [value]})))
            assert signature(scaled(Point(1.0, {"deep": [value]}))).startswith("scaled")


def test_a_signature_goes_by_shapes():
    assert signature(scaled(torch.zeros(3))) == signature(scaled(torch.ones(3))) != signature(scaled(torch.ones(4)))
    assert signature(linear(0)) == signature(linear(1)) != signature(torch.nn.Linear(3, 3))


def test_a_path_counts_as_a_path(tmp_path: Path):
    before = of_function(scaled(tmp_path / "weights"))
    (tmp_path / "weights").write_text("2")
    assert of_function(scaled(tmp_path / "weights")) == before != of_function(scaled(tmp_path / "others"))


def test_what_is_reached_twice_is_hashed_once(monkeypatch: pytest.MonkeyPatch):
    from brimful.core.runs import fingerprint

    hashed = []
    digest = fingerprint.digest
    monkeypatch.setattr(fingerprint, "digest", lambda value: (hashed.append(value), digest(value))[1])
    weights = torch.zeros(1000)
    of_function(functools.partial(cast(Any, scaled(weights)), [weights], {"again": weights}))
    assert sum(value is weights for value in hashed) == 1


def _doubled(*arguments: Any) -> Any:
    return 2 * arguments[-1]


def test_networks_with_equal_hooks_are_equal_whatever_torch_counted_before():
    networks = [torch.nn.Linear(2, 2) for _ in range(3)]
    with torch.no_grad():
        for network in networks:
            for parameter in network.parameters():
                parameter.fill_(0.5)
    for network in networks[:2]:
        network.register_forward_hook(_doubled)
    one, two, without = (of_function(network) for network in networks)
    assert one == two != without


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages", "mine"])
def test_packages_of_another_folder_are_packages(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Those of the user, of the system, or on a path: `sysconfig` knows the interpreter's own alone."""
    name = f"elsewhere_{folder.partition('-')[0]}"
    package = tmp_path / "lib" / folder / f"{name}.py"
    package.parent.mkdir(parents=True)
    package.write_text("import re\n\nPATTERN = re.compile('a')\n\ndef inner(x):\n    return x if PATTERN else None\n")
    monkeypatch.syspath_prepend(str(package.parent))
    inner = importlib.import_module(name).inner
    monkeypatch.setitem(sys.modules, name, sys.modules[name])

    def function(x):
        return inner(x)

    if folder == "mine":
        with pytest.raises(InputError, match="PATTERN is a Pattern"):
            of_function(function)
    else:
        assert of_function(function)
