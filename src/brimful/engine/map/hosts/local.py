"""Where a map runs: the devices of this machine. `cluster.ClusterHosts` is the same of several."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import torch

from ....core.memory import devices
from ....core.memory.budget import Budget, BudgetLike
from ....core.memory.limit import MemoryLimit
from ....core.memory.monitor import Sampler
from ....core.runs.events import Sampled
from ...distributed.workers import LocalWorkers, Place, Workers
from ..memory_model import LOOK
from ..sources import ItemSource
from ..store.worker_shards import WorkerShards


@dataclass(slots=True)
class LocalHosts:
    """The devices of this machine.

    Attributes:
        devices: one for each worker.
        budget: as given.
        remote: whether workers are elsewhere, so that this process has the results alone in its memory.
        device: the kind of the first.
        here: where memory is watched in this process.
    """

    devices: list[torch.device]
    budget: BudgetLike
    remote: bool = field(default=False, init=False)

    @property
    def device(self) -> torch.device:
        return self.devices[0]

    @property
    def here(self) -> torch.device:
        return self.devices[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the devices, for the plan."""
        return tuple(str(device) for device in self.devices)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The product names of the devices, each once."""
        return tuple(dict.fromkeys(devices.model_name(device) for device in self.devices))

    @property
    def places(self) -> list[Place]:
        """One for each worker."""
        threads = max(1, torch.get_num_threads() // len(self.devices))
        return [Place(str(device), threads, kind=devices.model_name(device)) for device in self.devices]

    def joined(self, warn: Callable[[str], None]) -> list[Place]:
        """Those that there are since the last call."""
        return []

    def limit(self) -> MemoryLimit:
        """The budget of the first device."""
        return MemoryLimit(self.budget, self.device, every=LOOK)

    def budget_of(self, place: Place, reserve: int) -> int:
        """The bytes of a worker. Those on the CPU share what the budget allows there.

        Args:
            reserve: bytes on a CPU that are not the workers' but this process's.
        """
        device = torch.device(place.device)
        limit = Budget.parse(self.budget).on(device).limit(devices.memory(device), held=0)
        cpus = sum(other.type == "cpu" for other in self.devices)
        return (limit - reserve) // cpus if device.type == "cpu" else limit

    def workers(self) -> Workers:
        """A supervisor for them."""
        return LocalWorkers()

    def share(self, workers: Workers, items: ItemSource) -> Any:
        """The items as each worker is given them; None: batches are sent with theirs."""
        return items if items.on_disk else None

    def shards(self, place: Place, identity: str) -> WorkerShards | None:
        """Lets a worker write its results of a run; None: the parent does, which on one machine is as fast."""
        return None

    def sampler(self, emit: Callable[[Sampled], None], baseline: int) -> contextlib.AbstractContextManager[Any]:
        """Watches the device while the work runs."""
        return Sampler(emit, self.device, baseline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass
