"""Devices: memory, utilisation, power, who uses what; and how much of them jobs may use."""

from fastapi import APIRouter
from starlette.responses import Response

from .json_body import JsonObject, check_fields
from .openapi import answer, body
from .parameters import ServiceOf
from .responses import json_response

router = APIRouter(prefix="/api/devices", tags=["devices"])


@router.get("", responses=answer("Devices"))
def listed(service: ServiceOf) -> Response:
    """The devices there are, what jobs have leased of each, and which jobs."""
    return json_response({"devices": service.devices()})


@router.put("/budget", openapi_extra=body("DeviceBudget"), responses=answer("Devices"))
def set_budget(service: ServiceOf, request: JsonObject) -> Response:
    """Change how much of each device jobs may use together. Running jobs keep what they have."""
    check_fields(request, {"budget": "a text or null"}, required=("budget",))
    service.set_budget(request["budget"])
    return json_response({"devices": service.devices()})
