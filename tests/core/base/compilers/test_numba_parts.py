"""Parts of compiled functions: compiled once, with what calls them."""

from typing import Any

import numba
import numpy as np
import pytest

from brimful.core.base.compilers import numba_parts


def made() -> tuple[Any, Any]:
    """A part, and a function that calls it with a number, with a variable, and by its name."""

    @numba_parts.part()
    def scaled(x, factor):
        total = 0.0
        for i in range(len(x)):
            total += x[i] * factor
        return total

    @numba_parts.part()
    def twice(x):
        return scaled(x, 2) + scaled(x, len(x)) + scaled(x, factor=1)

    @numba.njit
    def whole(x):
        return twice(x)

    return scaled, whole


def test_a_part_is_compiled_once_and_within_what_calls_it():
    scaled, whole = made()
    x = np.arange(4.0)
    assert whole(x) == 2 * 6.0 + 4 * 6.0 + 6.0
    assert len(scaled.signatures) == 1
    (compiled,) = scaled.overloads.values()
    assert not compiled.library._object_caching_enabled  # no machine code of its own


def test_where_numba_has_no_such_compiler_it_compiles_in_its_own_way(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(numba_parts, "_pipeline", lambda: None)
    scaled, whole = made()
    assert whole(np.arange(4.0)) == 42.0
    (compiled,) = scaled.overloads.values()
    assert compiled.library._object_caching_enabled
