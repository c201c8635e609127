"""The devices as the API shows them: memory, use, and who has leased what."""

from typing import Any

from .jobs.lease import CPU, total
from .jobs.state import ACTIVE
from .runner.inventory import Inventory
from .store import Store


def list_devices(inventory: Inventory, store: Store) -> list[dict[str, Any]]:
    """One object per device; see `Service.devices`."""
    present = inventory.devices()
    capacity, leases = inventory.capacity(present), store.jobs.leases()
    names = {job.id: job.request.name for job in store.jobs.in_states(ACTIVE)}
    used = total(lease.amount for lease in leases)
    listed = []
    for device in present:
        amounts = [(lease.job, lease.amount.bytes.get(device.name, 0)) for lease in leases]
        values = {
            "device": device.name,
            "name": device.model,
            "memory_bytes": device.total,
            "free_bytes": device.free,
            "budget_bytes": capacity.bytes[device.name],
            "leased_bytes": used.bytes.get(device.name, 0),
            "utilisation": device.utilisation,
            "watts": device.watts,
            "jobs": [{"id": id, "job_name": names.get(id, ""), "bytes": size} for id, size in amounts if size],
        }
        if device.name == CPU:
            values |= {"cores": capacity.cores, "leased_cores": used.cores}
        listed.append(values)
    return listed
