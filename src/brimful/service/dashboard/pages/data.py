"""Datasets in the database and uploaded files: what there is, imported, verified and removed."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from ....core.base.formatting import format_bytes
from ...jobs.job import Job, JobFilter, JobPage, Upload
from ...jobs.state import JobState
from ..elements import VALUE, Number, Tag, button, careful_button, link, table
from ..notices import notify
from ..parts.form.upload import upload_field
from ..parts.outage import Outage
from ..shell import frame
from ..threads import ask
from ..values import fraction, progress_text, recordings_number
from ..viewer import PATIENCE, Dashboard, change, may_change

_PACE = 2.0
_JOBS = 5


def install(dashboard: Dashboard) -> None:
    @ui.page("/data", title="Data", response_timeout=PATIENCE)
    async def page() -> None:
        with frame(dashboard, "Data", "/data"):
            await _DataView(dashboard).build()


class _DataView:
    """The page in one browser."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.service = dashboard.service
        self.chosen: str | None = None
        self.name, self.typed = "", False
        self.seen: dict[Tag, Any] = {}

    async def build(self) -> None:
        Tag("h1", "Data")
        self.outage = Outage()
        with Tag("section", classes="section", aria_label="Datasets"):
            Tag("h2", "Datasets")
            self.datasets = Tag("div")
        if may_change():
            with Tag("section", classes="section stack", aria_label="Import"):
                Tag("h2", "Import a file")
                with Tag("div", classes="fields wide"):
                    upload_field(self._uploaded)
                    with Tag("div", classes="field"):
                        Tag("label", "Name of the dataset", for_="dataset-name")
                        self.entry = Tag("input", classes="input", id="dataset-name", type="text", autocomplete="off")
                        self.entry.on("input", self._type, js_handler=VALUE)
                with Tag("div", classes="buttons"):
                    button("Import", self._import, "button primary")
                    self.files_note = Tag("span", "Upload a file, or choose one below.", "muted")
        with Tag("section", classes="section", aria_label="Imports and checks"):
            Tag("h2", "Imports and checks")
            self.jobs = Tag("div")
        with Tag("section", classes="section", aria_label="Uploaded files"):
            Tag("h2", "Uploaded files")
            self.uploads = Tag("div")
        await self._refresh()
        ui.timer(_PACE, self._refresh, immediate=False)

    def _type(self, event: Any) -> None:
        self.name = str(event.args)[:200]
        self.typed = bool(self.name)

    def _uploaded(self, reference: str, name: str) -> None:
        self._choose(reference.removeprefix("upload:"), name)

    def _choose_uploaded(self, id: str, name: str) -> None:
        """What comes next is its name, which may be far above."""
        self._choose(id, name)
        ui.run_javascript("document.getElementById('dataset-name').focus()")

    def _choose(self, id: str, name: str) -> None:
        self.chosen = id
        if not self.typed:
            self.name = name.rpartition(".")[0].replace(" ", "-")
            ui.run_javascript(f"document.getElementById('dataset-name').value = {json.dumps(self.name)}")
        self.files_note.set_text(f"{name} will be imported.")

    async def _import(self) -> None:
        if self.chosen is None or not self.name.strip():
            notify("Upload or choose a file first, and name the dataset.", "error")
            return
        job = await change(self.service.import_dataset, self.name.strip(), self.chosen)
        if job is not None:
            notify(f"Importing {self.name}")
            await self._refresh()

    async def _read(self) -> tuple[list[dict[str, Any]], list[Upload], JobPage]:
        jobs = JobFilter(workload="data", limit=_JOBS)
        service = self.service
        return await ask(service.datasets), await ask(service.uploads), await ask(service.jobs, jobs)

    async def _refresh(self) -> None:
        read = await self.outage.during(self._read())
        if read is None:
            return
        datasets, uploads, page = read
        jobs = [(job.id, job.state, job.progress, job.message) for job in page.jobs]
        self._renew(self.datasets, datasets, lambda: self._show_datasets(datasets))
        self._renew(self.uploads, uploads, lambda: self._show_uploads(uploads))
        self._renew(self.jobs, jobs, lambda: self._show_jobs(page.jobs))

    def _renew(self, place: Tag, seen: Any, show: Callable[[], None]) -> None:
        """Shows a part again if it has changed; what someone has begun in the others stays."""
        if self.seen.get(place) != seen:
            self.seen[place] = seen
            place.clear()
            with place:
                show()

    def _show_datasets(self, datasets: list[dict[str, Any]]) -> None:
        if not datasets:
            Tag("p", "No datasets yet. Import a file, or run locate generate.", "muted")
            return

        def actions(name: str) -> Callable[[], None]:
            def make() -> None:
                with Tag("div", classes="buttons"):
                    if may_change():
                        button("Verify", lambda: self._verify(name), "button small", aria_label=f"Verify {name}")
                        _delete_button(name, lambda: self._delete(name))
                    if (number := recordings_number(name)) is not None:
                        given = urlencode({"workload": "locate", "command": "train", "dataset": number})
                        link("Locate from it", f"/new?{given}", "button small", aria_label=f"Locate from {name}")

            return make

        rows = [
            (
                one["name"],
                one["rows"],
                Number(format_bytes(one["bytes"])),
                one["chunks"] if one.get("chunks") is not None else "",
                ", ".join(one["fields"]),
                actions(one["name"]),
            )
            for one in datasets
        ]
        table("Datasets", ("Name", "Rows", "Size", "Chunks", "Fields", "Actions"), rows, "table carded")

    def _show_uploads(self, uploads: list[Upload]) -> None:
        if not uploads:
            Tag("p", "No files yet.", "muted")
            return

        def actions(one: Upload) -> Callable[[], None]:
            def make() -> None:
                if may_change():
                    with Tag("div", classes="buttons"):
                        choose = button("Choose", lambda: self._choose_uploaded(one.id, one.name), "button small")
                        choose._props["aria-label"] = f"Choose {one.name} to import"
                        _delete_button(one.name, lambda: self._remove(one.id))

            return make

        rows = [
            (one.name, Number(format_bytes(one.bytes)), lambda one=one: Tag("code", f"upload:{one.id}"), actions(one))
            for one in uploads
        ]
        table("Uploaded files", ("Name", "Size", "Option value", "Actions"), rows, "table carded")

    def _show_jobs(self, jobs: Any) -> None:
        if not jobs:
            Tag("p", "None yet.", "muted")
            return

        def name(job: Any) -> Callable[[], Any]:
            return lambda: link(job.request.name, f"/jobs/{job.id}")

        def state(job: Any) -> Callable[[], Any]:
            return lambda: Tag("span", job.state.value, f"state {job.state.value}")

        def progress(job: Any) -> Callable[[], Any]:
            def make() -> None:
                if (done := fraction(job)) is not None and job.state is not JobState.FINISHED:
                    Tag(
                        "progress",
                        classes=job.state.value,
                        max="1",
                        value=round(done, 3) or "0",
                        aria_label=f"Progress of {job.request.name}",
                    )
                Tag("span", progress_text(job), "sub")

            return make

        rows = [(name(job), state(job), progress(job), result_of(job)) for job in jobs]
        table("Imports and checks", ("Job", "State", "Progress", "Result"), rows, "table carded")

    async def _verify(self, name: str) -> None:
        if await change(self.service.verify_dataset, name) is not None:
            notify(f"Verifying {name}")
            await self._refresh()

    async def _delete(self, name: str) -> None:
        if await change(self._deleted, self.service.delete_dataset, name):
            notify(f"{name} is deleted")
            await self._refresh()

    async def _remove(self, id: str) -> None:
        if await change(self._deleted, self.service.delete_upload, id):
            notify("The file is deleted")
            await self._refresh()

    @staticmethod
    def _deleted(method: Callable[[str], None], what: str) -> bool:
        method(what)
        return True


def _delete_button(name: str, on_sure: Callable[..., Any]) -> None:
    careful_button("Delete", "Delete for good", on_sure, f"Delete {name}", "button small danger")


def result_of(job: Job) -> str:
    """What an import or a check came to, in a sentence."""
    summary = job.summary or {}
    if job.message or not summary:
        return job.message
    rows = f"{summary['rows']:,} rows" if isinstance(summary.get("rows"), int) else ""
    if (faults := summary.get("faults")) is None:
        return rows
    count = len(faults) if isinstance(faults, list) else faults
    said = f": {faults[0]}" if count and isinstance(faults, list) else ""
    return f"{rows}, {count or 'no'} fault{'s' * (count != 1)}{said}"
