"""Where a map runs: the nodes of a Ray cluster, with a worker on every GPU, or some on the CPUs of each node."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from ....core.base.background import BackgroundThread
from ....core.base.errors import BrimfulError, ConfigError, InputError, WorkerError
from ....core.base.formatting import format_bytes
from ....core.memory.budget import Budget, BudgetLike
from ....core.memory.devices import DeviceLike, memory
from ....core.memory.limit import MemoryLimit
from ....core.runs.events import Sampled
from ...distributed.ray_cluster import Node, RayCluster
from ...distributed.ray_workers import RayWorkers
from ...distributed.workers import Place, Workers
from ..sources import DatasetSource, ItemSource
from ..store.worker_shards import WorkerShards

WRITERS = 8
"""Workers from which on they write their results themselves, in a run directory that all nodes see."""

_LOOK_FOR_NODES = 5.0  # seconds between looks for nodes that joined the cluster
_DEVICES = "auto, cpu or cuda, which mean those of every node, or several CPU workers on each as cpu,cpu"


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """The budget of a worker on a node, where it is read when the worker starts.

    Attributes:
        budget: as given.
        among: workers that share it, on a CPU.
    """

    budget: BudgetLike
    among: int

    def bytes(self, device: torch.device) -> int:
        return Budget.parse(self.budget).on(device).limit(memory(device), held=0) // self.among


class RemoteLimit(MemoryLimit):
    """The budget of each worker on a cluster. It is in force there; here nothing is measured against it."""

    def __init__(self, bytes: int) -> None:
        self.device, self.bytes, self.baseline = torch.device("cpu"), bytes, 0
        self._undo = contextlib.ExitStack()


def cluster_devices(device: DeviceLike) -> tuple[str, int]:
    """The kind of device on each node, "auto", "cpu" or "cuda", and how many workers a node's CPUs get."""
    names = device.split(",") if isinstance(device, str) else device if isinstance(device, Sequence) else [device]
    kinds = Counter("auto" if name is None else str(name).strip().removesuffix(":all") for name in names)
    kind, count = next(iter(kinds.items()), ("", 0))
    if len(kinds) != 1 or kind not in ("auto", "cpu", "cuda") or (count > 1 and kind != "cpu"):
        raise ConfigError(f"device is {device!r} on a cluster; give {_DEVICES}")
    return kind, count


class ClusterHosts:
    """The nodes of a cluster; see `LocalHosts`.

    Args:
        cluster: "ray", "ray://host:port" or "host:port".
        device: of every node, as `cluster_devices` reads it.
        budget: of every worker on a GPU, and of all on a node's CPUs together.
        items: what the nodes must be able to read.
        out: the run directory, if there is one.
    """

    remote = True
    here = torch.device("cpu")

    def __init__(
        self, cluster: str, device: DeviceLike, budget: BudgetLike, items: ItemSource, out: Path | None
    ) -> None:
        self._cluster, self.budget, self._out = RayCluster(cluster), budget, out
        self._kind, self._count = cluster_devices(device)
        self._files = _files(items)
        self._hosts: Counter[str] = Counter()
        self.nodes: list[Node] = []
        self.places: list[Place] = []
        self._open, self._looked = contextlib.ExitStack(), time.monotonic()
        self._joining: Future[list[Node]] | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.enter_context(self._cluster)
            self.places = self._places(self._ask())
            if not self.places:
                wanted = "GPUs" if self._kind == "cuda" else "CPUs"
                raise WorkerError(f"no node of the cluster lends Ray any {wanted}; `ray status` shows what it has")
            self._thread = opened.enter_context(BackgroundThread())
            self._open = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _ask(self) -> list[Node]:
        return self._cluster.new_nodes(self._files, self._out)

    def joined(self, warn: Callable[[str], None]) -> list[Place]:
        """Those of nodes that joined the cluster since the last call; they are asked on a thread, since it may take
        seconds. One that cannot be used is left out."""
        if self._joining is None:
            if time.monotonic() - self._looked >= _LOOK_FOR_NODES:
                self._looked = time.monotonic()
                self._joining = self._thread.submit(self._ask)
            return []
        if not self._joining.done():
            return []
        asked, self._joining = self._joining, None
        try:
            places = self._places(asked.result())
        except BrimfulError as error:
            warn(f"a node that joined the cluster is left out: {error}")
            return []
        for place in places:
            warn(f"{place.host} joined the cluster; a worker is started on it")
        return places

    def _places(self, new: list[Node]) -> list[Place]:
        """One for each GPU of nodes that are new, or for each share of their CPUs."""
        if self._kind == "auto" and new:
            self._kind = "cuda" if any(node.gpus for node in new) else "cpu"
        places = [place for node in new for place in self._on(node)]
        used = {place.node for place in places}
        self.nodes += [node for node in new if node.id in used]
        return places

    def _on(self, node: Node) -> list[Place]:
        """The places of a node."""
        self._hosts[node.host] += 1
        host = node.host if self._hosts[node.host] == 1 else f"{node.host}-{self._hosts[node.host]}"
        if self._kind == "cuda":
            threads = max(1, node.cpus // max(1, node.gpus))
            return [Place("cuda:0", threads, node.id, host, kind=self._kind_of(node)) for _ in range(node.gpus)]
        share = node.cpus // self._count or node.cpus / self._count
        place = Place("cpu", max(1, int(share)), node.id, host, share, self._kind_of(node))
        return [place] * self._count if share else []

    def _kind_of(self, node: Node) -> str:
        return node.gpu[0] if self._kind == "cuda" and node.gpu else node.processor

    @property
    def device(self) -> torch.device:
        return torch.device(self.places[0].device)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.kind for place in self.places))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._name(kind) for kind in self.kinds)

    def _name(self, kind: str) -> str:
        """The nodes, workers and budget of a kind of device."""
        nodes = [node for node in self.nodes if self._kind_of(node) == kind]
        count = sum(place.kind == kind for place in self.places)
        what = kind
        if self._kind == "cpu":
            what = f"{'CPU' if len(self.kinds) == 1 else kind} worker{'s' * (count > 1)}"
        return f"{len(nodes)} node{'s' * (len(nodes) > 1)}, {count} {what}: {format_bytes(self._bytes(nodes))} each"

    def _bytes(self, nodes: list[Node]) -> int:
        """The budget of the worker on these that has the least."""
        budget = Budget.parse(self.budget).on(self.device)
        memories = [node.gpu[1] if self._kind == "cuda" and node.gpu else node.memory for node in nodes]
        return min(budget.limit(own, held=0) for own in memories) // self._among

    @property
    def _among(self) -> int:
        return self._count if self._kind == "cpu" else 1

    def limit(self) -> RemoteLimit:
        return RemoteLimit(self._bytes(self.nodes))

    def budget_of(self, place: Place, reserve: int) -> NodeBudget:
        return NodeBudget(self.budget, self._among)

    def workers(self) -> RayWorkers:
        return RayWorkers()

    def share(self, workers: Workers, items: ItemSource) -> Any:
        """On disk the workers read them; in memory they go through the object store, once for all workers. Streams,
        and what cannot be sent, are read here."""
        if items.forward:
            return None
        assert isinstance(workers, RayWorkers)
        try:
            return workers.share(items, read_only=True)
        except InputError:
            return None

    def shards(self, place: Place, identity: str) -> WorkerShards | None:
        """Where its node sees the run directory, and there are more workers than one process can write for."""
        shared = any(node.shared for node in self.nodes if node.id == place.node)
        if not shared or len(self.places) < WRITERS or self._out is None:
            return None
        return WorkerShards(str(self._out.resolve()), identity)

    def sampler(self, emit: Callable[[Sampled], None], baseline: int) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()


def _files(items: ItemSource) -> list[str]:
    """Paths of files that the workers open."""
    return list(items.dataset.paths) if isinstance(items, DatasetSource) and items.on_disk else []
