"""`brimful.open`: the result of any run that has finished, from its folder alone."""

import inspect
from pathlib import Path
from typing import Any

from ..base.arguments import as_path
from ..base.errors import BrimfulError, ConfigError, CorruptError, InputError, RunDirError
from ..base.formatting import format_count
from ..runs import model_store, rundir
from ..runs.rundir import MANIFEST, RunInfo
from . import registry
from .result import Result


def open(path: str | Path, **options: Any) -> Result:
    """The result of a run that has finished, of whatever verb or workload, from its folder: neither function nor items
    are needed, nothing is written, and no lock is taken.

    Args:
        path: a run directory, or a folder that a result was saved to.
        options: of a run of `train`: `model=`, the module to put the weights into. Of a stored model: those of its
            workload's `load`, such as `kernel=` of `gp.load`.

    Returns:
        A `MapResult`, a `TrainResult`, or what the workload's own function gave back, such as `gp.Fit`.

    Raises:
        InputError: there is no run and no stored result.
        RunDirError: the run has not finished; the error says how much is done. `CorruptError` where it is damaged.

    Example:
        >>> import tempfile, torch, brimful
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = brimful.map(torch.square, torch.arange(5.0), out=folder, progress=False)
        ...     brimful.open(folder).values
        tensor([ 0.,  1.,  4.,  9., 16.])
    """
    folder = as_path(path, "give the folder of a run, or of a stored result")
    if not folder.is_dir():
        what = "is a file; name the folder of a run" if folder.exists() else "does not exist; check the path"
        raise InputError(f"{folder} {what}")
    try:
        if (workload := model_store.workload_of(folder)) is not None:
            return _stored(folder, workload, options)
        if (folder / MANIFEST).is_symlink() or (folder / MANIFEST).exists():
            return _run(folder, options)
        raise _no_run(folder)
    except OSError as error:
        raise CorruptError(f"{folder} cannot be read: {error}") from error


def _stored(folder: Path, name: str, options: dict[str, Any]) -> Result:
    if name not in registry.names():
        raise InputError(f"{folder} holds a model of {name!r}, a workload that is not installed here; install it")
    load = registry.load(name).load
    if load is None:
        raise InputError(
            f"{folder} holds a model of {name!r}, a workload that declares no load; read it by its own code"
        )
    return _call(load, f"a model of {name}", options, folder)


def _run(folder: Path, options: dict[str, Any]) -> Result:
    manifest = rundir.read_manifest(folder)
    reopen = registry.opener(str(manifest.get("kind")))
    if reopen is None:
        raise CorruptError(f"{folder} says that it is a run of kind {manifest.get('kind')!r}, which is not known here")
    result = _call(reopen, f"a run of {manifest['kind']}", options, folder, manifest)
    if result is None or _lacks_model(manifest["work"]):
        raise _unfinished(rundir.inspect(folder), "" if result is None else ", and its model has not been stored yet")
    return result


def _call(function: Any, what: str, options: dict[str, Any], *arguments: Any) -> Any:
    try:
        inspect.signature(function).bind(*arguments, **options)
    except TypeError as error:
        raise ConfigError(f"{arguments[0]} holds {what}, and that does not go with these options: {error}") from error
    return function(*arguments, **options)


def _lacks_model(work: str) -> bool:
    """Whether a run of such work has ended only when its model is stored."""
    workload, _, command = work.partition(" ")
    try:
        return workload in registry.names() and registry.load(workload).command(command).stores
    except BrimfulError:
        return False


def _unfinished(run: RunInfo, more: str) -> RunDirError:
    whole = "" if run.items is None else f" of {format_count(run.items)}"
    done = f"{format_count(run.done)}{whole} items are done{more}"
    if run.state == "running":
        return RunDirError(f"{run.path} is being written by another process: {done}. Wait for it to end")
    state = f"it was {run.state}" if run.state in ("killed", "interrupted") else f"it {run.state}"
    return RunDirError(f"{run.path} has not finished: {state}, {done}. Run the same command again to go on")


def _no_run(folder: Path) -> BrimfulError:
    below = [run for run in rundir.find(folder, 1) if Path(run.path) != folder]
    if not below:
        return InputError(f"{folder} holds no run and no stored result; check the path")
    finished = sum(run.state == "finished" for run in below)
    return RunDirError(
        f"{folder} is no run itself: it holds {len(below)}, of which {finished} have finished. Open one of them, such "
        f"as {below[-1].path}; or, if they are folds of one run, run the same command again to finish it"
    )
