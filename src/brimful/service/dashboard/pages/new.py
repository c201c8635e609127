"""A new job: a form made from the options of a command, and its plan while it is filled in."""

import contextlib
import itertools
import json
from typing import Any
from urllib.parse import urlencode

from nicegui import background_tasks, context, ui

from ....core.base.errors import BrimfulError
from ....core.declare.config import NONE
from ...errors import FieldProblem, Forbidden, Invalid, NotFound, Unavailable
from ..commands import changed_options
from ..elements import VALUE, Tag
from ..notices import notify
from ..parts.form.file_choices import FileChoices, is_uploaded
from ..parts.form.form_fields import WHAT_IS_TYPED, Field, by_field, in_a_form, label_of
from ..parts.form.plan_preview import PlanPreview, Problems
from ..parts.form.upload import upload_field
from ..shell import frame
from ..threads import ask
from ..viewer import PATIENCE, Dashboard, may_change, message_of

_JOB: dict[str, dict[str, Any]] = {
    "priority": {"type": "integer", "default": 0, "minimum": -100, "maximum": 100, "description": "more starts first"},
    "cores": {"type": ["integer", "null"], "default": None, "minimum": 1, "description": "CPU cores to lease"},
    "webhook": {"type": ["string", "null"], "default": None, "description": "address to notify at the end"},
}
_FIRST = "gp", "fit"
_NAMELESS = FieldProblem("job_name", "job_name is missing; it is what people know the job by")


def install(dashboard: Dashboard) -> None:
    @ui.page("/new", title="New job", response_timeout=PATIENCE)
    async def page(workload: str = "", command: str = "", copy: str = "", dataset: str = "", given: str = "") -> None:
        with frame(dashboard, "New job", "/new"):
            if not dashboard.schemas.ready:
                waiting = Tag("p", "Reading the options of all workloads. This takes a moment after a start.", "muted")
                client = context.client
                await client.connected()
                await dashboard.schemas.workloads()
                waiting.delete()
            form = _Form(dashboard)
            await form.prepare(workload, command, copy, dataset)
            form.take_typed(given)
            await form.build()


class _Form:
    """The form in one browser.

    Attributes:
        values: what was typed, by the path of the field, such as "config.epochs".
        unfolded: fields that a problem has named, whose part of the form was opened.
    """

    def __init__(self, dashboard: Dashboard) -> None:
        self.service, self.schemas = dashboard.service, dashboard.schemas
        self.values: dict[str, str] = {}
        self.fields: dict[str, Field] = {}
        self.touched: set[str] = set()
        self.unfolded: set[str] = set()
        self.submitted = False

    async def prepare(self, workload: str, command: str, copy: str, dataset: str) -> None:
        """Chooses the command, and takes over the options of a job that is copied."""
        self.workloads = {one["workload"]: one for one in await self.schemas.workloads()}
        self.workload, self.command, self.copied = workload, command, ""
        if copy:
            try:
                job = await ask(self.service.job, copy)
            except NotFound:
                Tag("p", f"There is no job {copy[:50]!r} to copy.", "message failed")
            else:
                self.workload, self.command, self.copied = job.request.workload, job.request.command, job.request.name
                self.values["job_name"] = f"{job.request.name} (copy)"[:200]
                self._take_over(job.request.config)
                more: dict[str, Any] = {"priority": job.request.priority or None, "cores": job.request.cores}
                if self._has("budget"):  # whether it was given as an option or beside them
                    more["config.budget"] = job.request.budget
                self.values |= {name: str(value) for name, value in more.items() if value is not None}
        if self.workload not in self.workloads:
            self.workload, self.command = _FIRST if _FIRST[0] in self.workloads else (next(iter(self.workloads)), "")
        if self.command not in self._commands():
            self.command = next(iter(self._commands()))
        if dataset:
            required = self._schema()["required"]
            self.values |= {f"config.{required[0]}": dataset} if required else {}

    def _has(self, option: str) -> bool:
        there = self.workload in self.workloads and self.command in self._commands()
        return there and option in self._schema()["properties"]

    def _take_over(self, config: dict[str, Any]) -> None:
        if self.workload in self.workloads and self.command in self._commands():
            for name, value in changed_options(config, self._schema()).items():
                text = NONE if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
                self.values[f"config.{name}"] = text

    def take_typed(self, given: str) -> None:
        """What was typed before the page was loaded again, as its address has it."""
        try:
            values = json.loads(given) if given else {}
        except (ValueError, RecursionError):
            return
        if isinstance(values, dict) and all(isinstance(value, str) for value in values.values()):
            self.values |= values
            self.touched = set(values)

    def _address(self) -> str:
        """Of the form as it is: loaded again, it is the same."""
        typed = {path: value for path, value in self.values.items() if value}
        given = {"given": json.dumps(typed)} if typed else {}
        return f"/new?{urlencode({'workload': self.workload, 'command': self.command, **given})}"

    def _commands(self) -> dict[str, dict[str, Any]]:
        return {one["command"]: one for one in self.workloads[self.workload]["commands"]}

    def _schema(self) -> dict[str, Any]:
        return self._commands()[self.command]["schema"]

    async def build(self) -> None:
        with Tag("div", classes="title"):
            Tag("h1", "New job")
            if self.copied:
                Tag("span", f"copied from {self.copied}", "muted")
        self.choices = FileChoices(self.service)
        await self.choices.build()
        await self.choices.offer_models(self.workloads[self.workload])
        with Tag("div", classes="form"):
            with Tag("form", classes="section stack", novalidate=True) as self.form:
                self._choices()
                self.place = Tag("div", classes="stack")
                line = Tag("p", "", "muted narrow")  # the plan may be far below
                with Tag("div", classes="buttons"):
                    self.submit = Tag("button", "Submit", "button primary", type="submit")
                    Tag("span", "" if may_change() else "Your token may only read.", "muted")
                self.form.on("submit.prevent", self._submit, js_handler=WHAT_IS_TYPED)
            self.preview = PlanPreview(self.service, self.request, self._plans, self._show_faults, line.set_text)
        self._fill()
        client = context.client
        client.on_delete(background_tasks.create(self.preview.follow(), name="plan while typing").cancel)
        self.preview.request()

    def _choices(self) -> None:
        commands = [
            (one["workload"], command["command"]) for one in self.workloads.values() for command in one["commands"]
        ]
        with Tag("div", classes="field"):
            Tag("label", "What to run", for_="what")
            with Tag("select", classes="input", id="what") as select:
                for workload, command in commands:
                    chosen = (workload, command) == (self.workload, self.command)
                    Tag("option", f"{workload} {command}", value=f"{workload} {command}", selected=chosen)
            self.help = Tag("span", "", "help")
        select.on("change", self._choose, js_handler=VALUE)

    def _plans(self) -> bool:
        return self._commands()[self.command]["plans"]

    async def _choose(self, event: Any) -> None:
        self.workload, _, self.command = str(event.args).partition(" ")
        kept = {path: value for path, value in self.values.items() if not path.startswith("config.")}
        self.values, self.touched, self.unfolded, self.submitted = kept, set(), set(), False
        ui.navigate.history.replace(self._address())
        await self.choices.offer_models(self.workloads[self.workload])
        self._fill()
        self.preview.request()

    def _fill(self) -> None:
        """Makes the fields of the command: those that are required first, the rest folded."""
        schema = self._schema()
        self.help.set_text(self._commands()[self.command]["help"])
        properties, required = schema["properties"], schema["required"]
        self.place.clear()
        self.fields = {}
        with self.place:
            with Tag("div", classes="fields"):
                about = {"type": "string", "description": "what you know it by"}
                self._field("job_name", "job_name", about, required=True)
                for name in required:
                    self._field(f"config.{name}", name, properties[name], required=True)
            files = [name for name, one in properties.items() if is_uploaded(one) and name not in required]
            set_ones = [name for name in properties if name not in required and f"config.{name}" in self.values]
            set_ones = [*files, *(name for name in set_ones if name not in files)]
            rest = [name for name in properties if name not in (*required, *set_ones)]
            if set_ones:
                with Tag("div", classes="fields"):
                    for name in set_ones:
                        self._field(f"config.{name}", name, properties[name])
            if rest:
                with Tag("details", open=not required and not set_ones):
                    Tag("summary", f"More options ({len(rest)})")
                    with Tag("div", classes="stack"):
                        self._by_topic({name: properties[name] for name in rest})
            with Tag("details"):
                Tag("summary", "How it is queued")
                with Tag("div", classes="fields"):
                    for name, about in _JOB.items():
                        self._field(name, name, about)

    def _by_topic(self, options: dict[str, dict[str, Any]]) -> None:
        """Options in the order of their topics; a few need no headings."""
        for topic, names in itertools.groupby(options, lambda name: options[name].get("topic", "")):
            with Tag("div", classes="topic"):
                if topic:
                    Tag("h2", topic)
                with Tag("div", classes="fields"):
                    for name in names:
                        self._field(f"config.{name}", name, options[name])

    def _field(self, path: str, name: str, schema: dict[str, Any], *, required: bool = False) -> None:
        schema = self.choices.suggested(self.workload, name, schema)
        value = self.values.get(path, "")
        if not value and schema["type"] == "boolean":
            value = json.dumps(bool(schema.get("default")))
        field = self.fields[path] = Field(path, name, schema, value, self._type, required=required)
        if is_uploaded(schema) and may_change():

            def uploaded(reference: str, file: str) -> None:
                self._uploaded(field, reference, file)

            with field.place:
                upload_field(uploaded, (name, f"a file for {label_of(name)}"))

    def _type(self, path: str, value: str) -> None:
        self.values[path] = value
        self.touched.add(path)
        ui.navigate.history.replace(self._address())
        self.preview.request()

    def _uploaded(self, field: Field, reference: str, name: str) -> None:
        """A file was uploaded: its field takes it in place of what it had, and others offer it."""
        self.choices.add(reference, name)
        field.set(reference)
        self._type(field.path, reference)
        notify(f"{name} is uploaded")

    def request(self) -> dict[str, Any]:
        """What the form says; what was left empty has its default."""
        typed = {path: value.strip() for path, value in self.values.items() if value.strip()}
        config = {path.removeprefix("config."): value for path, value in typed.items() if path.startswith("config.")}
        request: dict[str, Any] = {"job_name": typed.get("job_name", "a job")}
        request |= {"workload": self.workload, "command": self.command}
        request |= {name: _whole(typed[name]) for name in ("priority", "cores") if name in typed}
        webhook = {"webhook": {"url": typed["webhook"]}} if "webhook" in typed else {}
        return {**request, **webhook, "config": config}

    def _show_faults(self, problems: Problems, warnings: Problems = ()) -> None:
        """What is wrong, beside the fields; of those that nobody has touched yet, only once it is submitted, but what
        they are in is opened. A plan is made without a name too."""
        problems = (*problems, *(() if self._named() else (_NAMELESS,)))
        faults = {field: message for problem in problems for field, message in by_field(problem, self.fields)}
        warned = {field: message for problem in warnings for field, message in by_field(problem, self.fields)}
        for path, field in self.fields.items():
            shown = faults.get(path, "") if self.submitted or path in self.touched else ""
            field.show_fault(shown or warned.get(path, ""))
        for path in {*faults, *warned} - self.unfolded:
            self.fields[path].unfold()
        self.unfolded |= {*faults, *warned}

    def _named(self) -> bool:
        return bool(self.values.get("job_name", "").strip())

    async def _submit(self, event: Any) -> None:
        self.submitted = True
        self.values |= {path: str(event.args.get(self.fields[path].id, "")) for path in self.touched & set(self.fields)}
        try:
            if not may_change():
                raise Forbidden("your token may only read; log in with one that may write")
            if not self._named():
                raise Invalid(_NAMELESS)
            request = self.request()
            if not self.preview.fits(request):
                notify("Planning")
                with contextlib.suppress(Unavailable):  # it is planned again before it starts
                    await ask(self.service.plan, request)
            job = await ask(self.service.submit, request)
        except Invalid as error:
            self._show_faults(error.problems)
            notify(in_a_form(message_of(error)), "error")
            first = next((field for one in error.problems for field, _ in by_field(one, self.fields)), None)
            if first is not None:
                self.fields[first].focus()
        except BrimfulError as error:
            notify(message_of(error), "error")
        else:
            ui.navigate.to(f"/jobs/{job.id}")


def _whole(text: str) -> int | str:
    """The number that a text says; the text where it says none, for the service to refuse."""
    try:
        return int(text)
    except ValueError:
        return text
