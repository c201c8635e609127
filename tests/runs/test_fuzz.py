"""Run directories and stored models damaged at random, of runs that had finished or had been killed: opened or resumed,
they give the right answer or a `BrimfulError`, never another exception, never a hang, never other values."""

import contextlib
import json
import random
import shutil
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import brimful
from brimful import BrimfulError, BrimfulWarning
from brimful.core.runs.files import _seal
from brimful.core.runs.rundir import find, inspect

from ..engine.map.mapping import EventLog
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
    try:
        text = path.read_text()
        lines = [text] if path.suffix == ".json" else text.splitlines()
        place = rng.randrange(len(lines))
        outer = json.loads(lines[place])
    except ValueError:  # no text, no line or no JSON, by other damage
        return flip(path, rng)
    spots: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            spots.append((node, key))
            collect(node[key])

    collect(outer)
    if not spots:
        return flip(path, rng)
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


Made = dict[str, tuple[Path, Any]]


def one_case(whole: Path, expected: dict[str, Any], finished: bool, folder: Path, kind: str, seed: int) -> None:
    """Damages a copy of a run, which had finished with these values or was killed on the way; opens and resumes it."""
    rng = random.Random(seed)
    shutil.copytree(whole, folder)
    harms = []
    for _ in range(rng.choice([1, 1, 2])):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
        path, harm = rng.choice(files), rng.choice(HARMS)
        harms.append(f"{harm.__name__} {path.relative_to(folder)}")
        harm(path, rng)
    case = f"{kind}, {'finished' if finished else 'killed'}: {harms}"
    exact = not any(name.startswith("resealed") or name.endswith(OPTIONAL) for name in harms)
    runs = [inspect(folder), *find(folder)]
    assert all(run.items is None or 0 <= run.done <= run.items for run in runs), case
    opened = attempt(lambda: values(brimful.open(folder)) if exact else brimful.open(folder))
    if opened is not None and exact:
        assert finished and alike(opened, expected), f"{case}: opened with other values"
    log = EventLog()
    again = attempt(lambda: values(MADE[kind](folder, progress=log)) if exact else MADE[kind](folder))
    if again is not None and exact:
        if any("checkpoint" in warning for warning in log.warnings):  # its best weights are lost, and it says so
            names = [name for name in expected if name in ("history", "curve", "steps")]
            again, expected = ({name: result[name] for name in names} for result in (again, expected))
        assert alike(again, expected), f"{case}: resumed to other values"
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_symlink():
            path.unlink()
    shutil.rmtree(folder)


def rounds(made: Made, killed: dict[str, Path], folder: Path, seeds: Sequence[int]) -> None:
    """Cases of all kinds in turn; one in three of a run that was killed, where there are such."""
    expected, faults = {kind: values(result) for kind, (_, result) in made.items()}, []
    for seed in seeds:
        kind = list(MADE)[seed % len(MADE)]
        finished = not (killed and seed // len(MADE) % 3 == 1)
        whole = made[kind][0] if finished else killed[kind]
        try:
            one_case(whole, expected[kind], finished, folder / str(seed), kind, seed)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            faults.append(f"case {seed}: {place.filename}:{place.lineno}: {error!r}"[:500])
    assert not faults, "\n".join(faults)


def test_damage_gives_the_right_answer_or_an_error(made: Made, tmp_path: Path):
    rounds(made, {}, tmp_path, [*range(10), 1202, 1274, 2269])


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_much_damage_gives_the_right_answer_or_an_error(
    made: Made, killed: dict[str, Path], tmp_path: Path, first: int
):
    rounds(made, killed, tmp_path, range(first, first + 100))
