"""The files that a job wrote: its results, and folded what a run keeps to go on."""

import re
from typing import Any
from urllib.parse import quote

from .....core.base.formatting import format_bytes
from ....api.jobs import PREFIX
from ....jobs.job import Artifact
from ...elements import Number, Tag, link, table
from ...values import counted

_FILES = 200
_OF_THE_RUN = {"checkpoints", "lock", "manifest.json", "events.jsonl", "batches.jsonl"}
"""What a run directory has for itself, by the first part of a name."""

_SHARD = re.compile(r"shard-\d+-\d+\.parquet")
_KINDS = {
    "png": "picture",
    "svg": "picture",
    "parquet": "table (Parquet)",
    "csv": "table (CSV)",
    "safetensors": "tensors (safetensors)",
    "npy": "array (NumPy)",
    "npz": "arrays (NumPy)",
    "json": "JSON",
    "jsonl": "JSON lines",
    "txt": "text",
    "py": "Python",
    "zip": "archive",
}
"""By the ending of a name, in the order in which they are listed."""


def artifacts_view(id: str, artifacts: list[Artifact]) -> None:
    """Tables of files, to download."""
    if not artifacts:
        Tag("p", "No files yet.", "muted")
        return
    results, kept = split(artifacts[:_FILES])
    if results:
        _table(id, "Files", results)
    if kept:
        with Tag("details"):
            Tag("summary", f"{counted(len(kept), 'file')} that the run keeps to resume from, and its log")
            _table(id, "Files of the run", kept)
    if len(artifacts) > _FILES:
        Tag("p", f"and {len(artifacts) - _FILES:,} more; brimful jobs artifacts {id} lists all", "muted")


def split(artifacts: list[Artifact]) -> tuple[list[Artifact], list[Artifact]]:
    """Results, pictures first, and what a run keeps for itself: parts of a table too, where there is the whole."""
    whole = any(one.name.endswith(".parquet") and not _SHARD.fullmatch(one.name) for one in artifacts)

    def is_kept(name: str) -> bool:
        return name.partition("/")[0] in _OF_THE_RUN or (whole and _SHARD.fullmatch(name) is not None)

    kinds = list(dict.fromkeys(_KINDS.values()))
    results = [one for one in artifacts if not is_kept(one.name)]
    results.sort(key=lambda one: (kinds.index(kind) if (kind := kind_of(one.name)) in kinds else len(kinds), one.name))
    return results, [one for one in artifacts if is_kept(one.name)]


def kind_of(name: str) -> str:
    """What a file is, in a word or two."""
    return _KINDS.get(name.rpartition(".")[2].lower(), "other")


def artifact_address(id: str, name: str) -> str:
    """Where a file of a job is."""
    return f"{PREFIX}/{id}/artifacts/{quote(name)}"


def _table(id: str, caption: str, artifacts: list[Artifact]) -> None:
    def download(artifact: Artifact) -> Any:
        return lambda: link(
            artifact.name, artifact_address(id, artifact.name), download=artifact.name.rpartition("/")[2]
        )

    rows = [(download(one), Number(format_bytes(one.bytes)), kind_of(one.name)) for one in artifacts]
    table(caption, ("Name", "Size", "Kind"), rows, "table files")
