"""What every test gets: checked annotations, a cache directory of its own, and a reason where it cannot run here."""

import gc
import importlib
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from .helpers.paths import ROOT

_FINGERPRINTED = ("gp/batch_functions.py", "gp/model/kernels.py", "gpcm/model/losses.py", "nets/model.py")
_SAY_SO_THEMSELVES = ("gpcm/evaluation/metrics.py", "gpcm/model/memory.py")  # a wrong shape is an error in their words


def _annotated() -> list[str]:
    """The modules that say the shapes of tensors, but for those whose functions a run takes the fingerprint of: a
    wrapper around a function has none."""
    source = ROOT / "src"
    left_out = _FINGERPRINTED + _SAY_SO_THEMSELVES
    texts = {file: file.read_text() for file in sorted(source.rglob("*.py")) if not str(file).endswith(left_out)}
    files = [file for file, text in texts.items() if "from jaxtyping import" in text]
    return [".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__") for file in files]


# Loops stay compiled from one run of the tests to the next, though each test has a cache directory of its own.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("NUMBA_CACHE_DIR", str(_CACHE / "brimful" / "numba"))

# Before anything of brimful is imported: from here on every call in these modules is checked by beartype.
if find_spec("beartype"):  # it is not on every machine with a GPU
    install_import_hook(_annotated(), "tests.helpers.typechecker.check")
    importlib.import_module("tests.helpers.typechecker")

import brimful  # noqa: E402
from brimful.core.declare import pictures  # noqa: E402
from brimful.data.database import server  # noqa: E402

from .helpers import forking  # noqa: E402
from .helpers.interpreter import remember_builtins  # noqa: E402
from .helpers.pictures import save_blank  # noqa: E402
from .helpers.postgres import clean_up, shared_home  # noqa: E402
from .helpers.rank_pool import RankPool  # noqa: E402
from .helpers.worker_processes import forked_worker  # noqa: E402

_save_picture = pictures.save
collect_ignore = ["external_workload"]  # a package of its own, which a test installs

SOAK = "BRIMFUL_SOAK" in os.environ

# The same examples each time in `make test`, so that it says something about the change; new ones, and many more of
# them, in `make soak`, to which every property test belongs too.
settings.register_profile(
    "brimful",
    deadline=None,
    max_examples=200 if SOAK else 16,
    derandomize=not SOAK,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("brimful")


def pytest_configure() -> None:
    _drop_stale_loops()
    # In the background of a shell Ctrl-C is ignored, and processes that the tests interrupt would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    forking.begin()


def pytest_unconfigure() -> None:
    forking.end()


def _drop_stale_loops() -> None:
    """Drops compiled loops older than any source beside them: numba looks at a function's own file, and not at those
    of the functions it calls."""
    for cached in (Path(brimful.__file__).parent).rglob("__pycache__/*.nb[ic]"):
        sources = cached.parents[1].glob("*.py")
        if cached.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            cached.unlink(missing_ok=True)  # another worker may be as quick


@pytest.hookimpl(tryfirst=True)  # before any is left out for its marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SOAK and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.soak)
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device, and torch sees none here")
    for item in items:
        if item.get_closest_marker("gpu"):  # keywords hold the names of folders too
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Out of memory, the engine collects garbage; what was imported is none, and need not be looked at each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """The user's own cache is neither read nor written."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("BRIMFUL_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session", autouse=True)
def postgres_home() -> Iterator[Path]:
    """The user's own database is neither read nor written; the tests' own is started where one needs it."""
    home = shared_home()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("BRIMFUL_POSTGRES_DIR", str(home))
        patched.delenv("BRIMFUL_DATABASE_URL", raising=False)
        patched.setattr(server, "_SETTINGS", server._SETTINGS | {"fsync": "off"})  # no machine crashes here
        yield home
    clean_up(home)


@pytest.fixture(autouse=True)
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes start at once: torch is imported already where they are forked."""
    monkeypatch.setattr("brimful.engine.distributed.workers._spawn", forked_worker)


@pytest.fixture(scope="session")
def rank_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankPool]:
    """Ranks with their process groups made, for functions that all of them survive."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("brimful.engine.distributed.workers._spawn", forked_worker)
        pool = RankPool(tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.close()


@pytest.fixture(scope="session", autouse=True)
def blank_pictures() -> Iterator[None]:
    """Reports are drawn and not rendered, but for `make soak`."""
    with pytest.MonkeyPatch.context() as patched:
        if not SOAK:
            patched.setattr(pictures, "save", save_blank)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_interpreter() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        remember_builtins(patched)
        yield


@pytest.fixture
def rendered_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are rendered as users see them."""
    monkeypatch.setattr(pictures, "save", _save_picture)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For matrices so small that they gain nothing from more threads, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def clean_device() -> Iterator[None]:
    """A test begins and ends with an empty CUDA device, and leaves the limit it found."""
    _empty_device()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.get_per_process_memory_fraction(0)
    yield
    assert torch.cuda.get_per_process_memory_fraction(0) == before
    _empty_device()


def _empty_device() -> None:
    gc.collect()
    if clear := getattr(torch._C, "_cuda_clearCublasWorkspaces", None):  # 32 MB that count against a budget
        clear()
    torch.cuda.empty_cache()
