"""What the sampler costs: the share of a run's time that it takes at its usual interval.

    python benchmarks/monitor.py

Two numbers, both against a run without it: the time of one sample divided by the interval, and a whole run of small
matrix products with and without the sampler, in turns.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from brimful.core.memory import devices
from brimful.core.memory.monitor import Sampler
from brimful.core.runs.events import Sampled

INTERVAL = 0.25


def work(device: torch.device, seconds: float) -> int:
    a = torch.randn(256, 256, device=device)
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        torch.mm(a, a)
        done += 1
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return done


def _ignore(sample: Sampled) -> None:
    pass


def main() -> None:
    device = devices.resolve("auto")
    sampler = Sampler(_ignore, device, interval=INTERVAL)
    sampler.sample()
    started = time.perf_counter()
    for _ in range(200):
        sampler.sample()
    look = (time.perf_counter() - started) / 200
    work(device, 1.0)
    bare = watched = 0
    for _ in range(6):
        bare += work(device, 1.0)
        with Sampler(_ignore, device, interval=INTERVAL):
            watched += work(device, 1.0)
    print(f"{devices.model_name(device)}: a sample takes {look * 1e6:.0f} us, {look / INTERVAL:.3%} of the time")
    print(f"work done in the same time with the sampler: {watched / bare:.2%} of that without it")


if __name__ == "__main__":
    main()
