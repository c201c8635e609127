"""Run directories and stored models that were damaged at random: the right answer or a `BrimfulError`, never another
exception, never a hang, never other values."""

import contextlib
import json
import random
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import brimful
from brimful import BrimfulError, BrimfulWarning
from brimful.core.runs.files import _seal
from brimful.core.runs.rundir import find, inspect

from .small_runs import MADE, alike, values

OTHER = [None, True, 0, -1, 1e300, 10**30, "", "other", [], {}, [1, "x"], {"x": 1}]
SECONDS = 60


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4) if content else 0):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) + 1)])


def append(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randint(1, 300)))


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def rename(path: Path, rng: random.Random) -> None:
    path.rename(path.with_name(f"{path.name}{rng.choice(['.old', '~', '.part', '2'])}"))


def duplicate(path: Path, rng: random.Random) -> None:
    rng.choice(siblings(path)).write_bytes(path.read_bytes())


def swap(path: Path, rng: random.Random) -> None:
    other = rng.choice(siblings(path))
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)


def extra(path: Path, rng: random.Random) -> None:
    path.with_name(rng.choice(["notes.txt", "shard-x.parquet", "0000099", "a.json"])).write_bytes(rng.randbytes(40))


def directory(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(path)


def replace_value(path: Path, rng: random.Random, reseal: bool = False) -> None:
    """Another valid value in a JSON file, or in a line of one."""
    if path.suffix not in (".json", ".jsonl"):
        return flip(path, rng)
    lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
    if not lines:
        return None
    place = rng.randrange(len(lines))
    outer = json.loads(lines[place])
    spots: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            spots.append((node, key))
            collect(node[key])

    collect(outer)
    node, key = rng.choice(spots)
    node[key] = rng.choice(OTHER)
    if reseal and "seal" in outer and "body" in outer:
        with contextlib.suppress(TypeError):
            outer["seal"] = _seal(outer["kind"], outer["body"])
    lines[place] = json.dumps(outer)
    path.write_text("\n".join(lines) + "\n")
    return None


def resealed(path: Path, rng: random.Random) -> None:
    replace_value(path, rng, reseal=True)


def siblings(path: Path) -> list[Path]:
    return [other for other in sorted(path.parent.iterdir()) if other.is_file() and other.name != "lock"] or [path]


HARMS: list[Callable[[Path, random.Random], None]] = [
    flip, truncate, append, empty, delete, rename, duplicate, swap, extra, directory, loop, replace_value, resealed,
]  # fmt: skip
OPTIONAL = ("held-out.parquet", "report.safetensors", "true.safetensors", "int8.safetensors")


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    def expired(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(act: Callable[[], Any]) -> Any:
    """What it gives, or None where it is refused with an error of Brimful's."""
    with warnings.catch_warnings(), time_limit():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", BrimfulWarning)
        try:
            return act()
        except BrimfulError:
            return None


def one_case(made: dict[str, tuple[Path, Any]], folder: Path, kind: str, seed: int, resume: bool) -> None:
    rng, expected = random.Random(seed), values(made[kind][1])
    shutil.copytree(made[kind][0], folder)
    told = []
    for _ in range(rng.choice([1, 1, 2])):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
        path, harm = rng.choice(files), rng.choice(HARMS)
        told.append(f"{harm.__name__} {path.relative_to(folder)}")
        harm(path, rng)
    exact = not any(name.startswith("resealed") or name.endswith(OPTIONAL) for name in told)
    found = [inspect(folder), *find(folder)]
    assert all(run.items is None or 0 <= run.done <= run.items for run in found), told
    opened = attempt(lambda: values(brimful.open(folder)) if exact else brimful.open(folder))
    if opened is not None and exact:
        assert alike(opened, expected), told
    if resume:
        again = attempt(lambda: values(MADE[kind](folder)) if exact else MADE[kind](folder))
        if any("checkpoints/" in name for name in told):  # without its best checkpoint a run warns, and has its last
            expected = {name: value for name, value in expected.items() if name in ("history", "curve", "steps")}
        if again is not None and exact:
            assert alike({name: again[name] for name in expected}, expected), told
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_symlink():
            path.unlink()
    shutil.rmtree(folder)


def rounds(made: dict[str, tuple[Path, Any]], folder: Path, seeds: Sequence[int]) -> None:
    faults = []
    for seed in seeds:
        kind = list(MADE)[seed % len(MADE)]
        try:
            one_case(made, folder / str(seed), kind, seed, resume=kind in ("map", "train"))
        except Exception as error:
            faults.append(f"case {seed} ({kind}): {error!r}"[:400])
    assert not faults, "\n".join(faults)


def test_damage_gives_the_right_answer_or_an_error(made: dict[str, tuple[Path, Any]], tmp_path: Path):
    rounds(made, tmp_path, [*range(30), 1202, 1274])


@pytest.mark.soak
def test_much_damage_gives_the_right_answer_or_an_error(made: dict[str, tuple[Path, Any]], tmp_path: Path):
    rounds(made, tmp_path, range(1000, 3000))
