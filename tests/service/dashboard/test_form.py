"""The form for a new job, made without a browser."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from brimful.core.declare import registry
from brimful.service.child.workload_list import describe_workload
from brimful.service.dashboard.pages.new import _Form
from brimful.service.dashboard.parts.form.form_fields import Field
from brimful.service.dashboard.parts.form.plan_preview import PlanPreview, in_a_line
from brimful.service.dashboard.parts.job.plan_view import plan_view
from brimful.service.dashboard.parts.job.uses import uses_of
from brimful.service.errors import FieldProblem, Invalid
from brimful.service.jobs.job import Job, JobRequest, Upload
from brimful.service.jobs.state import JobState

from ...helpers.pages import Page, on_a_page

LEASE = {"device": "auto", "device_bytes": 512 * 10**6, "host_bytes": 10**8, "cores": 1}
PLAN = {
    "strategy": "whole",
    "devices": ["cpu"],
    "precision": "float32",
    "items": 5,
    "batch": 5,
    "unit": "item",
    "cost": {"fixed": 0, "per_unit": 8},
    "budget": 100,
    "parts": [],
    "predicted": 40,
    "rejected": [],
}
DATASETS = [
    {"name": "numbers", "rows": 5, "fields": {"x": "float32", "y": "float32 [3]"}},
    {"name": "images", "rows": 5, "fields": {"x": "uint8 [3, 8, 8]"}},
    {"name": "locate-7-2", "rows": 5, "fields": {"x": "float32 [3]"}},
]
UPLOADS = [Upload(id=str(n), name=name, bytes=1, sha256="", created=0.0) for n, name in enumerate(("a.csv", "b.zip"))]


def finished(id: str, command: str) -> Job:
    request = JobRequest(name=f"job {id}", workload="gp", command=command)
    return Job(id=id, request=request, state=JobState.FINISHED)


async def form(what: str, plan: Any = None) -> _Form:
    """That of a command, as it is when it is opened."""
    service: Any = SimpleNamespace(
        uploads=lambda: UPLOADS,
        datasets=lambda: DATASETS,
        jobs=lambda asked: SimpleNamespace(jobs=[finished("1", "fit"), finished("2", "predict")]),
        plan=plan or (lambda request: {"plan": None, "text": None, "lease": LEASE, "warnings": []}),
    )
    workload, command = what.split()

    async def workloads() -> list[dict[str, Any]]:
        return [describe_workload(name) for name in dict.fromkeys((workload, "gp"))]

    schemas = SimpleNamespace(workloads=workloads)
    made = _Form(SimpleNamespace(service=service, schemas=schemas))  # pyright: ignore[reportArgumentType]
    await made.prepare(workload, command, "", "")
    await made.build()
    return made


def choices(page: Page, id: str) -> list[str]:
    """What a field suggests."""
    offered = page.by_id(page.by_id(id)._props["list"])
    return [one._props["value"] for one in offered.default_slot.children]


def uploads(page: Page) -> list[str]:
    return [one._props["name"] for one in page.elements() if type(one).__name__ == "Upload"]


def test_an_upload_stands_beside_each_field_for_a_file_that_is_read():
    async def use(page: Page) -> None:
        made = await form("gp predict")
        assert uploads(page) == ["upload-at"]
        [field] = [one for one in page.elements() if type(one).__name__ == "Upload"]
        for id in ("7", "8"):
            await page.tell(field, "uploaded", [id, "points.csv"])
            assert made.request()["config"] == {"at": f"upload:{id}"}
        assert "upload:8" in choices(page, "field-at")

    on_a_page(use)


def test_nothing_is_uploaded_for_a_command_that_only_writes():
    async def use(page: Page) -> None:
        await form("locate generate")
        assert uploads(page) == []

    on_a_page(use)


def test_fields_offer_datasets_that_are_tables_and_models_of_finished_jobs():
    async def use(page: Page) -> None:
        await form("gp predict")
        assert choices(page, "field-at") == ["dataset:numbers", "upload:0", "upload:1"]
        assert choices(page, "field-directory") == ["job:1", "upload:1"]  # of `gp fit`, and an archive
        assert page.by_id("field-directory-help").text.endswith("job:ID for that of a finished job")
        assert page.by_id("field-at-help").text.endswith("dataset:NAME for a dataset")

    on_a_page(use)


def test_programs_are_no_tables_and_recordings_have_numbers():
    async def use(page: Page) -> None:
        await form("programs run")
        assert choices(page, "field-file") == ["upload:0", "upload:1"]

    async def locate(page: Page) -> None:
        await form("locate train")
        assert choices(page, "field-dataset_ids") == ["7", "dataset:numbers", "upload:0", "upload:1"]

    on_a_page(use)
    on_a_page(locate)


def test_options_are_in_groups_and_the_workloads_own_come_first():
    async def use(page: Page) -> None:
        await form("gpcm train")
        topics = [text for text in page.texts("h2") if text != "Plan"]
        assert topics[:2] == ["Model", "Table"] and topics[-1] == "Device and seed" and "Optimizer" in topics
        ids = [one._props["id"] for one in page.elements() if str(one._props.get("id", "")).startswith("field-")]
        ids = [id for id in ids if not id.endswith(("-help", "-fault"))]
        assert ids[:2] == ["field-job_name", "field-dataset"]
        assert ids.index("field-n_folds") < ids.index("field-slots") < ids.index("field-lr") < ids.index("field-seed")

    on_a_page(use)


def test_nothing_is_folded_where_there_is_nothing_more():
    async def use(page: Page) -> None:
        await form("data verify")
        assert page.texts("summary") == ["How it is queued"]

    on_a_page(use)


def test_a_choice_that_may_be_left_to_the_program_has_three_ways():
    told = []
    schema = {"type": ["boolean", "null"], "default": None, "description": ""}

    async def use(page: Page) -> None:
        Field("config.fast", "fast", schema, "false", lambda *what: told.append(what), required=False)
        options = [(one._props["value"], one.text, "selected" in one._props) for one in page.elements("option")]
        assert options == [("", "by default", False), ("true", "yes", False), ("false", "no", True)]
        await page.tell(page.by_id("field-fast"), "input", "")
        assert told == [("config.fast", "")]
        assert page.texts("label") == ["Fast"]

    on_a_page(use)


async def preview(page: Page, plan: Any, *, plans: bool) -> dict[str, Any]:
    seen: dict[str, Any] = {"line": ""}

    def checked(problems: Any, warnings: Any) -> None:
        seen.update(problems=problems, warnings=warnings)

    service: Any = SimpleNamespace(plan=plan)
    made = PlanPreview(service, dict, lambda: plans, checked, lambda line: seen.update(line=line))
    await made._plan()
    return seen | {"status": made._status.text}


@pytest.mark.parametrize(("plans", "status"), [(True, "The plan appears"), (False, "This command makes no plan")])
def test_a_command_without_a_plan_says_so(plans: bool, status: str):
    def refuse(request: Any) -> Any:
        raise Invalid(FieldProblem("config", "give either --data FILE, or --synthetic N"))

    async def use(page: Page) -> None:
        seen = await preview(page, refuse, plans=plans)
        assert seen["status"].startswith(status)
        assert "give either data, or synthetic" in page.texts("p")

    on_a_page(use)


def test_a_plan_is_said_in_a_line_and_shown_without_what_was_observed():
    planned = {"plan": PLAN, "text": "", "lease": LEASE}
    warning = {"path": "cores", "message": "it would wait"}

    async def use(page: Page) -> None:
        seen = await preview(page, lambda request: {**planned, "warnings": [warning]}, plans=True)
        assert seen["warnings"] == (FieldProblem(**warning),)
        assert seen["line"] == "Predicted peak 40 B. It will lease 512 MB on cpu, 1 core."
        assert "Of budget" in page.texts("th") and "Observed" not in page.texts("th")
        assert "auto" not in page.texts("td")
        plan_view(PLAN)
        assert "Observed" in page.texts("th")

    on_a_page(use)
    alone = {"plan": None, "lease": {**LEASE, "device_bytes": 0, "cores": 2}}
    assert in_a_line(alone) == "It will lease 2 cores."


def test_warnings_stand_beside_fields_that_nobody_touched():
    async def use(page: Page) -> None:
        made = await form("gp fit")
        made._show_faults((FieldProblem("config.points", "points is 0"),), (FieldProblem("cores", "it would wait"),))
        assert page.by_id("field-cores-fault").text == "it would wait"
        assert page.by_id("field-points-fault").text == "" and made.unfolded >= {"config.points", "cores"}

    on_a_page(use)


def test_what_a_model_is_good_for_is_one_click_away():
    workloads = [describe_workload("gp"), describe_workload("nets")]
    [(text, address)] = uses_of(finished("7", "fit"), workloads)
    asked = dict(parse_qsl(urlsplit(address).query))
    assert text == "Predict with it" and (asked["workload"], asked["command"]) == ("gp", "predict")
    assert uses_of(finished("7", "predict"), workloads) == []  # it stores none
    assert uses_of(replace(finished("7", "fit"), state=JobState.FAILED), workloads) == []

    async def use(page: Page) -> None:
        made = await form("gp predict")
        made.take_typed(asked["given"])
        assert made.request()["config"] == {"directory": "job:7"}

    on_a_page(use)


def test_the_budget_of_a_job_says_its_own_default():
    for workload, command, default in (("wpo", "train", "512 MB at least"), ("gp", "predict", "a quarter of")):
        described = {one["command"]: one["schema"] for one in describe_workload(workload)["commands"]}
        assert default in described[command]["properties"]["budget"]["description"]
    assert "90% of what is free" in str(registry.options("wpo", "train"))
