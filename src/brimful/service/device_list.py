"""The devices as the API shows them: memory, use, and who has leased what."""

from typing import Any

from .jobs.job import Job
from .jobs.lease import CPU, total
from .jobs.state import ACTIVE
from .runner.inventory import Inventory
from .store import Store


def list_devices(inventory: Inventory, store: Store) -> list[dict[str, Any]]:
    """One object per device; see `Service.devices`."""
    present = inventory.devices()
    capacity, leases = inventory.capacity(present), store.jobs.leases()
    jobs = {job.id: job for job in store.jobs.in_states(ACTIVE)}
    used = total(lease.amount for lease in leases)
    listed = []
    for device in present:
        amounts = sorted((lease.job, lease.amount.bytes.get(device.name, 0)) for lease in leases)  # oldest first
        values = {
            "device": device.name,
            "name": device.model,
            "memory_bytes": device.total,
            "free_bytes": device.free,
            "budget_bytes": capacity.bytes[device.name],
            "leased_bytes": used.bytes.get(device.name, 0),
            "utilisation": device.utilisation,
            "watts": device.watts,
            "jobs": [_of_job(device.name, id, jobs.get(id), size) for id, size in amounts if size],
        }
        if device.name == CPU:
            values |= {"cores": capacity.cores, "leased_cores": used.cores}
        listed.append(values)
    return listed


def _of_job(device: str, id: str, job: Job | None, leased: int) -> dict[str, Any]:
    """What a job has leased and uses of a device; of the CPU's memory, all of its process."""
    progress = None if job is None else job.progress
    used = progress and (progress.process if device == CPU else progress.used)
    return {"id": id, "job_name": "" if job is None else job.request.name, "bytes": leased, "used_bytes": used}
