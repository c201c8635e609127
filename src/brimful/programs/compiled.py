"""Programs as a function to call for one sample, and as an importable module."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..core.base.errors import ConfigError, InputError
from ..core.memory.devices import resolve
from ..core.runs.files import write_atomic
from .batched.machine import Usage
from .executors.operation_table import (
    OperationUse,
    csv_of,
    measured_usage,
    operation_table,
    plan_text,
    random_samples,
)
from .language.emit import emit
from .language.graph import Graph
from .loading import Programs, load


@dataclass(frozen=True, slots=True)
class Compiled:
    """Programs, merged and emitted.

    Attributes:
        graph: what they became.
        source: the text of the emitted module.
        batt: `batt(task_id, S, I, C, log_path=None)`, outputs and scores of one sample.
        batt_vectorized: `batt_vectorized(inputs, device="auto", batch_size=1000)`, the same for many samples at once,
            each (task_id, S, I, C): results, of which one is None where `batt` would raise, and a boolean array by
            sample and output, true where nothing that the output depends on failed.
        operations: how each operation runs over many samples, on a CPU and on a GPU, with its measured share of the
            time where samples were given. The module begins with the same table.

    Example:
        >>> from brimful import programs
        >>> mirror = programs.compile(programs.loads("def solve_m(I):\\n    O = vmirror(I)\\n    return O"))
        >>> mirror.batt("a", (), ((1, 2),), ())
        ([(0, False, 'solve_m', ((2, 1),))], [])
        >>> results, ok = mirror.batt_vectorized([("a", (), ((1, 2),), ()), ("b", (), ((3, 4),), ())])
        >>> results[1], ok[:, 0].tolist()
        (([(0, False, 'solve_m', ((4, 3),))], []), [True, True])
    """

    graph: Graph
    source: str = field(repr=False)
    batt: Callable[..., tuple[list[Any], list[Any]]] = field(repr=False)
    batt_vectorized: Callable[..., tuple[list[Any], Any]] = field(repr=False)
    operations: tuple[OperationUse, ...] = field(repr=False)

    def save(self, folder: str | Path, name: str = "batt") -> Path:
        """Writes the module `NAME.py` to a folder, and beside it the table of its operations, `NAME.csv`."""
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file; name the folder that {name}.py is written to")
        path.mkdir(parents=True, exist_ok=True)
        write_atomic(path / f"{name}.py", self.source.encode())
        write_atomic(path / f"{name}.csv", csv_of(self.operations).encode())
        return path / f"{name}.py"


def compile(
    programs: Programs | str | Path,
    samples: str | Path | Sequence[Any] | None = None,
    *,
    split: str = "training",
    count: int = 20,
    seed: int = 0,
    device: str | torch.device = "auto",
) -> Compiled:
    """Merges programs, and emits them as a module for single calls and for batches.

    Args:
        programs: what `load` gave, or a file of programs.
        samples: what to measure the time of each operation on, as `run` takes it: "arcagi", a folder, tasks, ...; None
            measures nothing.
        split: of a dataset: "training", "evaluation" or "all".
        count: how many random samples of those, at most.
        seed: which ones.
        device: where it is measured.
    """
    loaded = programs if isinstance(programs, Programs) else load(programs)
    vocabularies = {source.vocabulary for source in loaded.sources}
    if len(vocabularies) > 1:
        raise ConfigError(f"the files are written in {' and '.join(sorted(vocabularies))}; compile them apart")
    files = ", ".join(Path(source.file).name for source in loaded.sources[:3])
    graph, usage, measured = loaded.merge(), dict[str, Usage](), ""
    if samples is not None:
        chosen, where = random_samples(samples, split, count, seed), resolve(device)
        usage, measured = (
            measured_usage(graph, chosen, where),
            f"; time measured on {len(chosen)} samples, {where.type}",
        )
    operations = tuple(operation_table(graph, usage))
    text = emit(graph, vocabularies.pop(), f"Programs of {files}.", plan_text(operations, measured))
    namespace: dict[str, Any] = {"__name__": "brimful_emitted"}
    exec(builtins.compile(text, f"<emitted from {files}>", "exec"), namespace)
    return Compiled(graph, text, namespace["batt"], namespace["batt_vectorized"], operations)
