"""Loops that numba compiles, kept on disk in the user's cache directory: `numba` in `$BRIMFUL_CACHE_DIR`, or else in
`brimful` in the user's cache directory. `$NUMBA_CACHE_DIR` takes precedence, as for everybody's loops.

By itself numba writes beside the source, that is into site-packages, and raises where no place can be written. Only
Brimful's own loops are concerned: no setting of numba is changed. Where nothing can be written, a loop is compiled anew
in every process.
"""

import contextlib
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..directories import cache_directory
from .numba_memo import remembered_typing


def cached_njit(**settings: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with a cache on disk.

    Args:
        settings: as for `numba.njit`.
    """
    import numba

    from .activity import connect_numba

    connect_numba()

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher: Any = numba.njit(**settings)(function)
        with contextlib.suppress(AttributeError):  # numba may have it otherwise
            dispatcher._compiler.compile = remembered_typing()(dispatcher._compiler.compile)
        with contextlib.suppress(OSError, RuntimeError):  # no place can be written
            dispatcher._cache = _cache_class()(function)
        return dispatcher

    return compiled


@functools.cache
def _cache_class() -> Any:
    from numba.core import caching as numba_caching

    caching: Any = numba_caching

    class UserDirectory(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
        """A place for the loops of a file in the user's cache directory."""

        def __init__(self, function: Any, file: str) -> None:
            self._py_file, self._lineno = file, function.__code__.co_firstlineno
            self._path = os.fspath(loop_directory() / self.get_suitable_cache_subpath(file))

        def get_cache_path(self) -> str:
            return self._path

    class Contents(caching.CompileResultCacheImpl):
        _locator_classes = (caching.UserProvidedCacheLocator, UserDirectory)

    class LoopCache(caching.FunctionCache):
        _impl_class = Contents

        def holds(self, signature: Any, context: Any) -> bool:
            """Whether a loop is there, compiled for some types."""
            with contextlib.suppress(Exception):
                return self._index_key(signature, context.codegen()) in self._cache_file._load_index()
            return False

        def load_overload(self, signature: Any, context: Any) -> Any:
            with contextlib.suppress(Exception):  # damaged: it is compiled anew, and written over
                return super().load_overload(signature, context)

        def save_overload(self, signature: Any, data: Any) -> None:
            with contextlib.suppress(Exception):  # a disk that is full is no reason to stop
                super().save_overload(signature, data)

    return LoopCache


def is_missing(loop: Any, signature: Any) -> bool:
    """Whether a loop has yet to be compiled for some types, and would then be kept on disk."""
    cache = loop._cache
    return (
        signature.args not in loop.overloads and hasattr(cache, "holds") and not cache.holds(signature, loop.targetctx)
    )


def loop_directory() -> Path:
    """Where compiled loops are kept, unless `$NUMBA_CACHE_DIR` says otherwise."""
    return cache_directory() / "numba"
