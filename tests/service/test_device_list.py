"""What the list of devices says of jobs."""

from types import SimpleNamespace
from typing import Any

from brimful.service.device_list import list_devices
from brimful.service.jobs.job import Job, JobRequest, Progress
from brimful.service.jobs.lease import Amount, Capacity
from brimful.service.runner.inventory import Device


def test_a_job_uses_its_whole_process_of_the_cpu_and_its_tensors_of_a_gpu():
    present = [Device(name=name, model="a", total=100, free=50) for name in ("cpu", "cuda:0")]
    capacity = Capacity(bytes={"cpu": 90, "cuda:0": 90}, cores=2)
    inventory: Any = SimpleNamespace(devices=lambda: present, capacity=lambda _: capacity)
    jobs = [
        Job(id=id, request=JobRequest(name=id, config={}), progress=Progress(used=7, process=30)) for id in ("1", "2")
    ]
    amounts = {"2": Amount(bytes={"cpu": 40}, cores=1), "1": Amount(bytes={"cpu": 35, "cuda:0": 20}, cores=1)}
    leases = [SimpleNamespace(job=id, amount=amount) for id, amount in amounts.items()]
    store: Any = SimpleNamespace(jobs=SimpleNamespace(leases=lambda: leases, in_states=lambda _: jobs))
    used = {
        one["device"]: [(job["id"], job["used_bytes"]) for job in one["jobs"]] for one in list_devices(inventory, store)
    }
    assert used == {"cpu": [("1", 30), ("2", 30)], "cuda:0": [("1", 7)]}
