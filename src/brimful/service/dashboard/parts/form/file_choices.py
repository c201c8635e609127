"""What there is for options that name files: uploads, datasets, and models that jobs have stored."""

import contextlib
from typing import Any

from .....core.base.errors import BrimfulError
from .....core.declare.config import MODEL, TABLE
from ....jobs.job import LARGEST_PAGE, JobFilter
from ....jobs.state import JobState
from ....security.uploads import ARCHIVE
from ....service import Service
from ...elements import Tag
from ...threads import ask
from ...values import counted, recordings_number
from .form_fields import suggestions

_DATASET, _RECORDINGS = "datasets", "recordings"
_ALSO = {MODEL: "job:ID for that of a finished job", TABLE: "dataset:NAME for a dataset"}


class FileChoices:
    """The lists of a page from which fields suggest values."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lists: dict[str, Tag] = {}
        self._archives: list[tuple[str, str]] = []

    async def build(self) -> None:
        """Makes the lists, as they are now."""
        uploads = [(f"upload:{one.id}", one.name) for one in await ask(self._service.uploads)]
        datasets: list[dict[str, Any]] = []
        with contextlib.suppress(BrimfulError):
            datasets = await ask(self._service.datasets)
        rows = {one["name"]: f"dataset of {counted(one['rows'], 'row')}" for one in datasets}
        tables = [(f"dataset:{one['name']}", rows[one["name"]]) for one in datasets if _is_table(one)]
        numbers = [(number, name) for name in rows if (number := recordings_number(name)) is not None]
        recordings = [(number, rows[name].replace("row", "recording")) for number, name in numbers]
        made = {"": uploads, TABLE: [*tables, *uploads], _RECORDINGS: [*recordings, *tables, *uploads]}
        self._archives = [(value, name) for value, name in uploads if name.lower().endswith(ARCHIVE)]
        lists = {**made, _DATASET: [*rows.items()], MODEL: []}
        self._lists = {name: suggestions(f"{name or 'file'}-choices", choices) for name, choices in lists.items()}

    async def offer_models(self, workload: dict[str, Any]) -> None:
        """Offers the models of one workload."""
        stores = [command["command"] for command in workload["commands"] if command["stores"]]
        asked = JobFilter(states=(JobState.FINISHED,), workload=workload["workload"], limit=LARGEST_PAGE)
        jobs = (await ask(self._service.jobs, asked)).jobs if stores else ()
        models = [(f"job:{job.id}", job.request.name) for job in jobs if job.request.command in stores]
        self._lists[MODEL].clear()
        self._add(MODEL, [*models, *self._archives])

    def add(self, reference: str, name: str) -> None:
        """Offers a file that was uploaded."""
        for one in ("", TABLE, _RECORDINGS):
            self._add(one, [(reference, name)])

    def _add(self, to: str, choices: list[tuple[str, str]]) -> None:
        with self._lists[to]:
            for value, label in choices:
                Tag("option", label, value=value)

    def suggested(self, workload: str, option: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of an option with the list that it suggests values from, and with what it takes in a job."""
        what = schema.get("reads", "") if is_input(schema) else None
        if workload == "data" and option == "name":
            what = _DATASET
        elif workload == "locate" and what == TABLE:
            what = _RECORDINGS
        if what is None:
            return schema
        also = _ALSO.get(schema.get("reads", ""))
        description = f"{schema.get('description', '')}; {also}" if also else schema.get("description", "")
        return {**schema, "suggest": f"{what or 'file'}-choices", "description": description}


def is_input(schema: dict[str, Any]) -> bool:
    """Whether an option names something that is read."""
    return schema.get("format") == "path" and not schema.get("output")


def is_uploaded(schema: dict[str, Any]) -> bool:
    """Whether it is something that people have in a file."""
    return is_input(schema) and schema.get("reads") != MODEL


def _is_table(dataset: dict[str, Any]) -> bool:
    """Whether all its fields are columns: numbers, or lists of numbers."""
    return recordings_number(dataset["name"]) is None and not any("," in form for form in dataset["fields"].values())
