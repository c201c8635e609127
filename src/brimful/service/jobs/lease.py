"""What a machine has, what a job needs of it, and what it was given: values.

Host memory and cores are leased like the memory of a device. The memory of the device "cpu" is the host's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Self

CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Bytes of devices, by name, the host's as "cpu", and cores."""

    bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    cores: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        names = {*self.bytes, *other.bytes}
        total = {name: self.bytes.get(name, 0) + other.bytes.get(name, 0) for name in names}
        return Amount(bytes=total, cores=self.cores + other.cores)

    def fits(self, used: "Amount", capacity: "Amount") -> bool:
        """Whether there is room for it beside what is used, in all that it takes up itself; that a device which it does
        not use is lost, or over its budget, does not matter."""
        return (not self.cores or used.cores + self.cores <= capacity.cores) and all(
            used.bytes.get(name, 0) + size <= capacity.bytes.get(name, 0) for name, size in self.bytes.items() if size
        )


Capacity = Amount
"""What jobs may lease altogether: a budget for each device that is there, and cores."""


_NOTHING = Amount()


def total(amounts: Iterable[Amount]) -> Amount:
    bytes: dict[str, int] = {}
    cores = 0
    for amount in amounts:
        cores += amount.cores
        for name, size in amount.bytes.items():
            bytes[name] = bytes.get(name, 0) + size
    return Amount(bytes=bytes, cores=cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a job needs.

    Attributes:
        device: as in its config: "auto", "cpu", "cuda", "cuda:1", "cuda:0,cuda:1" or "cuda:all".
        device_bytes: on each of its devices.
        host_bytes: in host memory beside that.
        cores: CPU cores.
    """

    device: str = "auto"
    device_bytes: int = 0
    host_bytes: int = 0
    cores: int = 1

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)

    def amount(self, devices: tuple[str, ...]) -> Amount:
        """What it takes up on those devices."""
        bytes = {CPU: self.host_bytes}
        for device in devices:
            bytes[device] = bytes.get(device, 0) + self.device_bytes
        return Amount(bytes=bytes, cores=self.cores)

    def placements(self, capacity: Capacity) -> list[tuple[str, ...]]:
        """The devices that it can be put on, in order of preference; none where what it names is not there."""
        gpus = [name for name in capacity.bytes if name != CPU]
        if self.device == "cuda:all":
            return [tuple(gpus)] if gpus else []
        if self.device == "cuda":
            return [(name,) for name in gpus]
        if self.device == "auto":
            return [(name,) for name in gpus] or [(CPU,)]
        named = tuple(part.strip() for part in self.device.split(","))
        named = tuple(f"cuda:{name}" if name.isdigit() else name for name in named)
        named = tuple("cuda:0" if name == "cuda" else name for name in named)
        return [named] if all(name in capacity.bytes for name in named) else []

    def possible(self, capacity: Capacity) -> list[tuple[tuple[str, ...], Amount]]:
        """The devices that it would fit on if nothing else ran, and what it takes up there."""
        placed = [(devices, self.amount(devices)) for devices in self.placements(capacity)]
        return [(devices, amount) for devices, amount in placed if amount.fits(_NOTHING, capacity)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What a job was given, from `since` on (seconds since 1970) until it ends, pauses or the server stops."""

    job: str
    devices: tuple[str, ...]
    demand: Demand
    since: float

    @property
    def amount(self) -> Amount:
        return self.demand.amount(self.devices)

    def to_dict(self) -> dict[str, Any]:
        """For people: the `lease` of a job."""
        return {
            "device": ",".join(self.devices),
            "device_bytes": self.demand.device_bytes,
            "host_bytes": self.demand.host_bytes,
            "cores": self.demand.cores,
            "since": self.since,
        }
