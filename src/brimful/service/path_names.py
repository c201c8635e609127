"""What clients call the server's files: their names, in place of the paths that a text has."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .child.job_dir import RUN

UNPACKED = "unpacked"
"""The folder of what was in an archive, beside which there is nothing else."""


def path_names(state: Path) -> Callable[[str], str]:
    """Of the files below a state's folder: "upload:NAME" for what was uploaded, "job:ID/NAME" for what a job wrote,
    and "dataset:NAME" for the rows of a dataset."""
    roots = "|".join(re.escape(str(root)) for root in dict.fromkeys((state, state.resolve())))
    id = "[0-9a-f-]{36}"
    run = re.compile(rf"(?:{roots})/jobs/({id})/{RUN}")
    archive, upload = (re.compile(rf"(?:{roots})/uploads/{end}") for end in (f"({id})/{UNPACKED}", f"{id}/"))
    dataset = re.compile(rf"(?:{roots})/datasets/([A-Za-z0-9_.-]+?)@[\d-]+\.parquet")

    def named(text: str) -> str:
        if str(state) not in text and str(state.resolve()) not in text:
            return text
        return dataset.sub(r"dataset:\1", upload.sub("upload:", archive.sub(r"upload:\1", run.sub(r"job:\1", text))))

    return named


def named_values(named: Callable[[str], str], value: Any) -> Any:
    """JSON values, with that done to every text among them."""
    if isinstance(value, str):
        return named(value)
    if isinstance(value, dict):
        return {key: named_values(named, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [named_values(named, inner) for inner in value]
    return value
