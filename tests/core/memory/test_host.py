"""The heap of the C library, in a process of its own: what is set there cannot be taken back."""

import subprocess
import sys

_PROGRAM = """
import ctypes, sys, threading
from brimful.core.memory.host import share_heap, trim_heap
if sys.argv[1] == "shared":
    share_heap()
library, ready = ctypes.CDLL(None), threading.Barrier(9)
library.malloc.restype = ctypes.c_void_p
def allocate():
    ready.wait()  # all at once: a thread that has ended leaves its heap to the next
    library.malloc(100_000)
    ready.wait()
for _ in range(8):
    threading.Thread(target=allocate, daemon=True).start()
ready.wait()
ready.wait()
stream = library.fdopen
stream.restype, stream.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_char_p)
file = stream(1, b"w")
library.malloc_info(0, ctypes.c_void_p(file))
library.fflush(ctypes.c_void_p(file))
trim_heap()
"""


def heaps(kind: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, kind], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.count("<heap nr=")


def test_threads_share_the_heap_that_is_there():
    assert heaps("shared") < heaps("as they are")
