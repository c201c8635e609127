"""Python's garbage collection, beside very many objects that stay.

A full collection looks at every container there is: with a few thousand grids as tuples, and the modules of torch and
numba, that is 0.3 seconds, and work that makes many objects brings one about every few seconds.
"""

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock, _open = threading.RLock(), [0]  # how many are under way


@contextlib.contextmanager
def frozen_heap() -> Iterator[None]:
    """While it is open, collections leave out the objects that were there when it began; `collect` does not.

    Where the program froze its own already, nothing is changed: who froze them decides when that ends.
    """
    with _lock:
        ours = _open[0] > 0 or gc.get_freeze_count() == 0
        if ours:
            _open[0] += 1
            gc.freeze()
    try:
        yield
    finally:
        with _lock:
            if ours:
                _open[0] -= 1
                if not _open[0]:
                    gc.unfreeze()


def collect() -> None:
    """Frees what only cycles of references hold, also of before `frozen_heap` began."""
    with _lock:
        if _open[0]:
            gc.unfreeze()
    gc.collect()  # without the lock: what is freed may run code of its own
    with _lock:
        if _open[0]:
            gc.freeze()
