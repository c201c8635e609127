"""What numba finds out about built-in functions is found out once while one of our functions is compiled."""

import gc
import operator
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.core.types import functions

from brimful.core.base.compilers.numba_cache import cached_njit
from brimful.core.base.compilers.numba_memo import remembered_typing


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions whose form numba looked for."""
    looked: list[Any] = []
    kind: Any = functions.BaseFunction
    resolve = kind.get_call_type

    def counted(self: Any, context: Any, args: Any, kws: Any) -> Any:
        looked.append((self.typing_key, args))
        return resolve(self, context, args, kws)

    monkeypatch.setattr(kind, "get_call_type", counted)
    return looked


def polynomial(x: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i] * x[i] + x[i] * x[i]
    return total


def test_a_form_is_looked_for_once_and_the_result_is_that_of_numba(lookups: list[Any]):
    compiler = cached_njit()(polynomial)._compiler  # without the loops that an earlier run has left on disk
    compiled = compiler.compile((types.Array(types.float64, 1, "C"),), None).entry_point
    assert compiled(np.arange(4.0)) == polynomial(np.arange(4.0))
    products = [args for key, args in lookups if key is operator.mul]
    assert products and len(products) == len(set(products))


def test_afterwards_numba_is_as_it_was(lookups: list[Any]):
    kind: Any = functions.BaseFunction
    before = kind.get_call_type
    with pytest.raises(ZeroDivisionError), remembered_typing():
        assert kind.get_call_type is not before and not gc.isenabled()
        with remembered_typing():
            pass
        assert kind.get_call_type is not before
        raise ZeroDivisionError
    assert kind.get_call_type is before and gc.isenabled()
