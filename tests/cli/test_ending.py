"""A command's process ends without taking all modules apart, and loses nothing by it."""

import pytest

from ..helpers.forking import completed, run_text

PROGRAM = """
import atexit, sys, threading, time
from brimful.cli.ending import run_to_end

class Kept:
    def __del__(self):
        print("taken apart")

kept = Kept()
atexit.register(print, "registered")

def late():
    time.sleep(0.3)
    print("thread")

def main():
    threading.Thread(target=late).start()
    print("done")
    {end}

{before}
run_to_end(main)
"""


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [("", 0, ""), ("sys.exit()", 0, ""), ("sys.exit(3)", 3, ""), ("sys.exit('no such file')", 1, "no such file\n")],
)
def test_what_the_end_waits_for(end: str, code: int, said: str):
    ended = completed(run_text, PROGRAM.format(end=end, before=""))
    assert (ended.stdout, ended.stderr) == ("done\nthread\nregistered\n", said)
    assert ended.returncode == code


def test_an_error_at_the_end_is_told():
    ended = completed(run_text, PROGRAM.format(end="", before="atexit.register(lambda: 1 / 0)"))
    assert ended.stdout == "done\nthread\nregistered\n" and "ZeroDivisionError" in ended.stderr


def test_an_interrupted_end_is_an_end():
    """What was registered is called, and what was printed is written."""
    interrupts = "threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()"
    ended = completed(run_text, PROGRAM.format(end="", before=f"import os, signal\n{interrupts}"))
    assert ended.stdout == "done\nregistered\n" and "interrupted at its end" in ended.stderr
    assert ended.returncode == 130


def test_an_error_of_the_command_is_not_an_end():
    ended = completed(run_text, PROGRAM.format(end="raise KeyError('x')", before=""))
    assert ended.returncode == 1 and "KeyError: 'x'" in ended.stderr


WATCHED = """
{watch}(lambda *_: None)
try:
    run_to_end(lambda: sys.exit(5))
except SystemExit as stop:
    print(stop.code)
{watch}(None)
"""


@pytest.mark.parametrize("watch", ["sys.setprofile", "sys.settrace"])
def test_what_watches_the_process_has_its_end(watch: str):
    ended = completed(run_text, PROGRAM.format(end="", before=WATCHED.format(watch=watch)))
    assert ended.stdout.startswith("5\ndone\n")


def test_a_full_disk_is_told():
    ended = completed(run_text, PROGRAM.format(end="", before="sys.stdout = open('/dev/full', 'w')"))
    assert ended.returncode == 1 and "what was printed cannot be written" in ended.stderr
