"""`brimful.map`: a batched function over any number of items, inside a memory budget."""

import math
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import torch
from torch.utils.data import DataLoader

from ...core.base.errors import ConfigError, InputError
from ...core.memory import devices
from ...core.memory.budget import BudgetLike
from ...core.memory.cost import Cost
from ...core.memory.devices import DeviceLike
from ...core.memory.plan import Plan
from ...core.runs.events import Event, Events
from ...core.runs.progress import sink_for
from ...data.torch_datasets import loader_parts
from ..distributed.ray_cluster import check_address
from .functions.composition import composed
from .hosts.cluster import cluster_devices
from .keywords import MapKeywords
from .result import MapResult
from .run import MapRun
from .sources import item_source
from .store.part_queue import MapPart
from .stream import MapStream, drain

Functions = Callable[..., Any] | Sequence[Callable[[Any], Any]]


@overload
def map(fn: Functions, items: Any, *, stream: Literal[False] = False, **options: Unpack[MapKeywords]) -> MapResult: ...


@overload
def map(
    fn: Functions, items: Any, *, stream: Literal[True], ordered: bool = True, **options: Unpack[MapKeywords]
) -> MapStream: ...


def map(
    fn: Functions,
    items: Any,
    *,
    setup: Callable[[torch.device], Any] | None = None,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    batch_size: int | str = "auto",
    weight: Any = None,
    fallback: Any = None,
    out: str | Path | None = None,
    resume: bool = True,
    fingerprint: str | None = None,
    nonfinite: str = "flag",
    seed: int = 0,
    grad: bool = False,
    batch_invariant: bool = False,
    retries: int = 0,
    timeout: float | None = None,
    on_crash: str = "stop",
    warm_up: Callable[[], None] | None = None,
    progress: bool | Callable[[Event], None] | None = None,
    cost: Cost | None = None,
    name: str = "map",
    cancel: threading.Event | None = None,
    cluster: str | None = None,
    stream: bool = False,
    ordered: bool = True,
) -> MapResult | MapStream:
    """Runs a batched function over all items, as fast as the device can, inside a memory budget.

    Args:
        fn: gets a batch on the device, in the form of the items, and returns a tensor, or a tuple or dict of
            them, with the items along the leading axis; or a `Batch`, when it knows which items went wrong. Several, in
            a list, run one after the other on the device.
        setup: called once per worker with the device; `fn(batch, made)` gets what it returned, such as a model that it
            loaded. It is not sent between processes.
        items: anything `data.source` reads: tensors or arrays, or a tuple or dict of them (items along the leading
            axis); a table, a frame, or the path of a Parquet or CSV file (the function gets a dict of columns); a torch
            dataset; or a `DataLoader`, whose dataset, batch size and collate_fn are used. Or an iterator of single
            items, which are stacked, and are never all in memory.
        budget: memory to stay inside: "8GB", "80%", bytes, or None for 90% of what is free. See `Budget`.
        device: "auto", "cpu", "cuda:1"; several, as a list or "cuda:0,cuda:1", run one worker process each.
        batch_size: items in a batch, or "auto" to find out.
        weight: for items of unequal size, what each weighs: numbers, a column's name, or for an iterator a
            function of one item. Batches are packed to equal weight.
        fallback: what to try for an item that failed: another function, a dtype to compute in, or a device.
        out: a directory to write results to, as Parquet, while they come; the run can then be resumed.
        resume: go on with a run that the directory holds; False refuses such a directory.
        fingerprint: a text that changes whenever the items do; needed to resume a run on an iterator. It also stands
            for a function that holds something without a fingerprint, such as an open file.
        nonfinite: "flag" marks items whose result holds a NaN or an infinity; "allow" does not look.
        seed: of random numbers from the global generators of torch, numpy and Python: before each batch they are set
            by (seed, position of its first item), so that results depend on the division into batches, and not on
            restarts, retries or bad neighbors.
        grad: run the function with autograd on; by default it runs under `torch.no_grad`.
        batch_invariant: the function gives an item the same bits in whatever batch it is: a run may then be resumed
            with another batch_size.
        retries: how often a call that raised is made again, with the same items and random state, before its items are
            flagged: for errors that pass, such as those of a network.
        timeout: seconds that an item may take; one that takes longer is flagged `TIMEOUT`. The function then runs in a
            worker process, also on a single device.
        on_crash: a batch that ends its worker process twice: "stop" ends the run, "flag" looks for the items that do it
            and flags them `FAILED`; the function then runs in a worker process, also on a single device.
        warm_up: called once, in this process, before memory is measured and the first batch is run: what `fn` would
            otherwise compile in it. That it compiles is shown, and counted apart from `seconds`.
        progress: None or True shows it, False is silent, a function gets the events.
        cost: bytes by weight, where you know them; measured otherwise.
        name: what to call the work in progress, log and run directory.
        cancel: set from any thread, it ends the run after the batch at hand: what is finished is kept, and
            `CancelledError` is raised.
        cluster: run it on a Ray cluster: "ray", "ray://host:port" or "host:port". See docs/cluster.md.
        stream: return an iterator of finished batches, each a `MapPart`, instead of all of them in the end.
        ordered: of a stream: in the order of execution. False gives each as soon as it is finished.

    Returns:
        Values, status and messages for every item, with the plan and what was measured. An item that fails does
        not raise: its status says so, and its neighbors are as they would have been without it.

    Example:
        >>> import torch, brimful
        >>> result = brimful.map(torch.linalg.inv, torch.eye(3).expand(100, 3, 3), progress=False)
        >>> result.values.shape, int(result.ok.sum())
        (torch.Size([100, 3, 3]), 100)
    """
    if not ordered and not stream:
        raise ConfigError("ordered is False, and the result of a map is in order; ordered is for stream=True")
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise ConfigError(f"retries is {retries!r}; give a whole number from 0 on")
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
        raise ConfigError(f"timeout is {timeout!r}; give seconds above 0, or None")
    if on_crash not in ("stop", "flag"):
        raise ConfigError(f"on_crash is {on_crash!r}; choose 'stop' or 'flag'")
    function = composed(fn, setup)
    run = _checked(
        function, items, budget, device, batch_size, weight, fallback, nonfinite, cost, name, cluster, seed, grad
    )
    run.batch_invariant, run.retries, run.timeout, run.warm_up = batch_invariant, retries, timeout, warm_up
    run.on_crash = on_crash

    def parts(ordered: bool | None) -> Generator[MapPart, None, MapResult]:
        with Events() as events:
            if (sink := sink_for(progress)) is not None:
                events.add(sink)
            if out is None:
                return (yield from run.parts(events, None, cancel, ordered))
            with run.open(Path(out), resume, fingerprint) as rundir:
                events.add(rundir.log)
                return (yield from run.parts(events, rundir, cancel, ordered))

    return MapStream(parts(ordered)) if stream else drain(parts(None))


def plan_map(
    fn: Functions,
    items: Any,
    *,
    setup: Callable[[torch.device], Any] | None = None,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    batch_size: int | str = "auto",
    weight: Any = None,
    cost: Cost | None = None,
    name: str = "map",
    probe: bool = False,
    cluster: str | None = None,
) -> Plan:
    """The plan that `map` would begin with, without running it; with `probe`, after measuring two small batches."""
    function = composed(fn, setup)
    return _checked(function, items, budget, device, batch_size, weight, None, "flag", cost, name, cluster).plan(probe)


def _checked(
    fn: Callable[[Any], Any],
    items: Any,
    budget: BudgetLike,
    device: DeviceLike,
    batch_size: int | str,
    weight: Any,
    fallback: Any,
    nonfinite: str,
    cost: Cost | None,
    name: str,
    cluster: str | None = None,
    seed: int = 0,
    grad: bool = False,
) -> MapRun:
    """The arguments of `map`, checked."""
    if nonfinite not in ("flag", "allow"):
        raise ConfigError(f"nonfinite is {nonfinite!r}; choose 'flag' or 'allow'")
    if batch_size != "auto" and (not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1):
        raise ConfigError(f"batch_size is {batch_size!r}; give a whole number from 1 on, or 'auto'")
    if batch_size != "auto" and weight is not None:
        raise ConfigError("batch_size and weight exclude each other: with weights, batches are packed to equal weight")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
        raise ConfigError(f"seed is {seed!r}; give a whole number from 0 on")
    if not (fallback is None or callable(fallback) or isinstance(fallback, str | torch.dtype | torch.device)):
        raise InputError(f"fallback is {fallback!r}; give a function, a dtype such as torch.float64, or a device")
    if isinstance(items, DataLoader):
        parts = loader_parts(items)
        if parts.drop_last:
            raise InputError("the DataLoader has drop_last=True, and map runs all items; use drop_last=False")
        if batch_size not in ("auto", parts.batch_size):
            raise ConfigError(f"batch_size is {batch_size} and the DataLoader's is {parts.batch_size}; leave one out")
        items = parts.dataset
        batch_size = parts.batch_size if batch_size == "auto" and weight is None else batch_size
    if cluster is None:
        device = devices.resolve_all(device)
    else:
        check_address(cluster)
        cluster_devices(device)
    source = item_source(items, weight)
    return MapRun(fn, source, batch_size, fallback, nonfinite, cost, name, budget, device, seed, grad, cluster=cluster)
