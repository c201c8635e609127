"""Two job processes on one device at the same time, each inside its lease: their peaks, and that both really overlap.

Needs the core dependencies alone: no server, no database.

    python benchmarks/job_children.py                                   leases of 8 and 24 GB on cuda:0
    python benchmarks/job_children.py --device cpu --leases 300MB,600MB --count 200000
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from brimful.core.base.formatting import format_bytes, format_seconds, parse_bytes
from brimful.core.memory import devices
from brimful.core.runs.events import Sampled, read_log
from brimful.service.child.job_dir import EVENTS, LOG, JobFile, JobResult
from brimful.service.child.parent import PARENT


def start(folder: Path, job: JobFile) -> subprocess.Popen[bytes]:
    folder.mkdir()
    job.write(folder)
    environment = {**os.environ, PARENT: str(os.getpid()), "OMP_NUM_THREADS": str(job.cores), "PYTHONPATH": sys.path[0]}
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "brimful.service.child", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def measure(root: Path, job: JobFile) -> dict[str, object]:
    folder = root / job.id
    result = JobResult.read(folder)
    if result is None or result.summary is None:
        message = "no result" if result is None else result.message
        sys.exit(f"{job.id} did not finish: {message}\n{(folder / LOG).read_text()[-3000:]}")
    samples = [event for event in read_log(folder / EVENTS) if isinstance(event, Sampled)]
    assert job.budget is not None
    peak = max([result.summary["observed_peak_bytes"], *(sample.used for sample in samples)])
    return {
        "job": job.id,
        "lease_bytes": job.budget,
        "peak_bytes": peak,
        "peak_share": peak / job.budget,
        "inside": peak <= job.budget,
        "predicted_bytes": result.summary["predicted_peak_bytes"],
        "seconds": result.summary["seconds"],
        "first_sample": samples[0].time if samples else None,
        "last_sample": samples[-1].time if samples else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--leases", default="8GB,24GB")
    parser.add_argument("--count", type=int, default=40_000_000, help="networks that each job trains (`nets train`)")
    parser.add_argument("--steps", type=int, default=300, help="steps of each network")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    leases = [parse_bytes(text) or sys.exit(f"{text!r} is not a size") for text in arguments.leases.split(",")]
    cores = max(1, len(os.sched_getaffinity(0)) // len(leases))
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        jobs = [
            JobFile(
                id=f"job-{number}",
                workload="nets",
                command="train",
                config={"count": arguments.count, "steps": arguments.steps, "seed": number},
                device=arguments.device,
                budget=bytes,
                cores=cores,
            )
            for number, bytes in enumerate(leases)
        ]
        started = time.monotonic()
        processes = [start(root / job.id, job) for job in jobs]
        codes = [process.wait() for process in processes]
        seconds = time.monotonic() - started
        rows = [measure(root, job) for job in jobs]
    firsts, lasts = ([row[name] for row in rows if row[name]] for name in ("first_sample", "last_sample"))
    together = max(0.0, min(lasts) - max(firsts)) if len(firsts) == len(rows) else 0.0  # pyright: ignore
    report = {
        "device": devices.model_name(torch.device(arguments.device)),
        "exit_codes": codes,
        "seconds": seconds,
        "seconds_together": together,
        "jobs": [{name: value for name, value in row.items() if not name.endswith("_sample")} for row in rows],
    }
    for row in rows:
        lease, peak = format_bytes(row["lease_bytes"]), format_bytes(row["peak_bytes"])  # pyright: ignore
        print(f"{row['job']}: lease {lease}, peak {peak} ({row['peak_share']:.1%}), inside: {row['inside']}")
    print(f"both at work at once for {format_seconds(together)} of {format_seconds(seconds)}")
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    if any(codes) or not all(row["inside"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
