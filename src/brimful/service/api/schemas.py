"""The schemas of what the API takes and gives, but for the configs of jobs, and examples of them."""

from typing import Any

from ..jobs.job import PRIORITIES
from ..jobs.state import JobState

_TEXT: dict[str, Any] = {"type": "string"}
_YES: dict[str, Any] = {"type": "boolean"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_ANY: dict[str, Any] = {"type": "object"}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(properties: dict[str, Any], *optional: str, **more: Any) -> dict[str, Any]:
    """An object that has all of these, but for the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, **more}


def _reference(schema: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{schema}"}


def _json_text(schema: dict[str, Any]) -> dict[str, Any]:
    """A text that is JSON."""
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}


def _list(schema: dict[str, Any] | str) -> dict[str, Any]:
    return {"type": "array", "items": _reference(schema) if isinstance(schema, str) else schema}


_WEBHOOK = _object(
    {
        "url": {"type": "string", "format": "uri", "maxLength": 2000, "description": "called when the job has ended"},
        "secret": _or_null(
            {"type": "string", "minLength": 8, "maxLength": 200, "description": "signs it; never shown"}
        ),
    },
    "secret",
    additionalProperties=False,
)

JOB_FIELDS: dict[str, Any] = {
    "job_name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "for people"},
    "priority": {
        "type": "integer",
        "minimum": PRIORITIES[0],
        "maximum": PRIORITIES[-1],
        "default": 0,
        "description": "those with more start first",
    },
    "budget": _or_null(
        {"type": "string", "description": 'device memory to lease, such as "8GB"; by default the smallest good one'}
    ),
    "cores": _or_null({"type": "integer", "minimum": 1, "maximum": 4096, "description": "CPU cores to lease"}),
    "webhook": _or_null(_WEBHOOK),
}
"""What a job has besides its workload, command and config."""

SCHEMAS: dict[str, Any] = {
    "FieldProblem": _object({"path": {**_TEXT, "description": "such as config.epochs"}, "message": _TEXT}),
    "Problem": _object(
        {
            "type": {"type": "string", "format": "uri"},
            "title": _TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {**_TEXT, "description": "what was wrong, and what to do"},
            "errors": _list("FieldProblem"),
        },
        "errors",
    ),
    "Job": _object(
        {
            "id": {"type": "string", "format": "uuid"},
            "job_name": _TEXT,
            "workload": _TEXT,
            "command": _TEXT,
            "state": {"type": "string", "enum": [state.value for state in JobState]},
            "message": {**_TEXT, "description": "why it waits, how it ended, or what failed"},
            "priority": {"type": "integer"},
            "budget": _or_null(_TEXT),
            "cores": _or_null({"type": "integer", "minimum": 1}),
            "attempt": _COUNT,
            "progress": _ANY,
            "lease": _or_null(_ANY),
            "config": _ANY,
            "summary": _or_null({**_ANY, "description": "the result, once it has finished"}),
            "exit_code": _or_null({"type": "integer"}),
            "webhook": _or_null(_object({"url": _TEXT, "signed": {"type": "boolean"}})),
            "created": _TIME,
            "started": _or_null(_TIME),
            "ended": _or_null(_TIME),
        }
    ),
    "JobPage": _object({"jobs": _list("Job"), "next": _or_null(_TEXT), "total": _COUNT}),
    "Event": _object(
        {
            "id": {"type": "integer", "minimum": 1, "description": "its number within the job, from 1 without gaps"},
            "time": _TIME,
            "kind": {**_TEXT, "description": 'such as "epoch_done", or "state" when the job went to another state'},
            "data": _ANY,
        }
    ),
    "DeletedJob": _object({"id": {"type": "string", "format": "uuid"}, "state": {"const": "deleted"}}),
    "EventMessage": {
        "description": "One message of the stream: an event, or the last one, which has the job.",
        "anyOf": [
            _object(
                {
                    "id": {**_TEXT, "pattern": "^[0-9]+$", "description": "to be sent back as Last-Event-ID"},
                    "event": {"const": "message"},
                    "data": _json_text(_reference("Event")),
                },
                "event",
            ),
            _object(
                {
                    "event": {"const": "end"},
                    "data": _json_text({"anyOf": [_reference("Job"), _reference("DeletedJob")]}),
                }
            ),
        ],
    },
    "Metrics": _object(
        {
            "metrics": {
                "type": "object",
                "additionalProperties": _object(
                    {
                        "total": _COUNT,
                        "step": _list({"type": "integer"}),
                        "time": _list(_TIME),
                        "value": _list(_or_null({"type": "number"})),
                    }
                ),
            }
        }
    ),
    "JobPlan": _object({"plan": _or_null(_ANY)}),
    "Plan": _object(
        {
            "plan": _or_null(_ANY),
            "text": _or_null(_TEXT),
            "lease": _or_null(_ANY),
            "warnings": _list("FieldProblem"),
        }
    ),
    "Artifact": _object({"name": _TEXT, "bytes": _COUNT, "modified": _TIME, "media_type": _TEXT}),
    "Artifacts": _object({"artifacts": _list("Artifact")}),
    "Report": _object({"metrics": _ANY, "tables": _ANY, "rows": _ANY, "pictures": _list(_TEXT), "captions": _ANY}),
    "Dataset": {"type": "object", "properties": {"name": _TEXT, "rows": _COUNT}, "required": ["name"]},
    "Datasets": _object({"datasets": _list("Dataset")}),
    "DatasetImport": _object(
        {
            "name": {**_TEXT, "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"},
            "upload": {**_TEXT, "description": "the id of an uploaded .npy, .npz, .parquet or .csv file"},
            "columns": _or_null({**_list(_TEXT), "minItems": 1, "description": "by default all that hold numbers"}),
        },
        "columns",
        additionalProperties=False,
    ),
    "Upload": _object({"id": _TEXT, "name": _TEXT, "bytes": _COUNT, "sha256": _TEXT, "created": _TIME}),
    "Uploads": _object({"uploads": _list("Upload")}),
    "Device": _object(
        {
            "device": _TEXT,
            "name": _TEXT,
            "memory_bytes": _COUNT,
            "free_bytes": _COUNT,
            "budget_bytes": _COUNT,
            "leased_bytes": _COUNT,
            "utilisation": _or_null({"type": "number"}),
            "watts": _or_null({"type": "number"}),
            "jobs": _list(_ANY),
        }
    ),
    "Devices": _object({"devices": _list("Device")}),
    "DeviceBudget": _object(
        {"budget": _or_null({**_TEXT, "description": 'of each device: "80GB", "90%"; null for 90% of what is free'})},
        additionalProperties=False,
    ),
    "Workload": _object(
        {
            "workload": _TEXT,
            "help": _TEXT,
            "commands": _list(
                _object({"command": _TEXT, "help": _TEXT, "schema": _ANY, "plans": _YES, "stores": _YES})
            ),
        }
    ),
    "Workloads": _object({"workloads": _list("Workload")}),
}

_SEED_JOB = {
    "job_name": "GPU Cache Test - UHF Mixed",
    "config": {
        "dataset_ids": ["29b7b2f4-eb9b-4e22-a77f-c03f0c4ca876"],
        "batch_size": 256,
        "epochs": 1000,
        "learning_rate": 0.001,
        "preload_to_gpu": True,
        "accelerator": "auto",
    },
}
_FIT_JOB = {
    "job_name": "curves of the night",
    "workload": "gp",
    "command": "fit",
    "config": {"data": "upload:0190f1c2-5b7e-7c3a-9d15-6a0f3e2b1c4d"},
    "budget": "8GB",
    "priority": 10,
    "webhook": {"url": "https://example.org/ended", "secret": "a secret of yours"},
}

EXAMPLES: dict[str, Any] = {
    "JobRequest examples": {
        "train": {"summary": "train on a dataset", "value": _SEED_JOB},
        "fit": {"summary": "fit Gaussian processes to an uploaded file", "value": _FIT_JOB},
    },
    "DatasetImport examples": {
        "import": {
            "summary": "all columns of an uploaded file",
            "value": {"name": "night", "upload": "0190f1c2-5b7e-7c3a-9d15-6a0f3e2b1c4d"},
        }
    },
    "DeviceBudget examples": {"most": {"summary": "most of each device", "value": {"budget": "90%"}}},
}
"""Of bodies, by "<schema> examples"; of answers, by the name of the schema."""
