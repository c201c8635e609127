"""What a request would lease, and its plan: from its budget, or planned in a process of its own."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.base.errors import ConfigError
from .child.job_dir import RUN
from .errors import FieldProblem, Invalid
from .files import Files
from .jobs.admission import too_large
from .jobs.description import CommandDescription
from .jobs.fault import option_at_fault
from .jobs.job import Job, JobRequest
from .jobs.lease import Demand
from .jobs.references import Locate, resolve
from .runner.demand import demand_of, largest_budget
from .runner.inventory import Inventory
from .runner.workloads import Workloads


@dataclass(frozen=True, slots=True)
class _Checked:
    """A request that is right; its options with references as paths, and the device that they name."""

    request: JobRequest
    command: CommandDescription
    config: dict[str, Any]
    device: str


class Planner:
    """Plans requests for the devices there are."""

    def __init__(self, workloads: Workloads, inventory: Inventory, files: Files, locate: Locate) -> None:
        self._workloads, self._inventory, self._files, self._locate = workloads, inventory, files, locate

    def demand(self, request: JobRequest) -> Demand | None:
        """What a request needs, where that is known at once. The request is checked as far as it can be."""
        checked = self._checked(request)
        return demand_of(request, checked.command, checked.device, self._inventory.capacity(), None)

    def needs(self, job: Job) -> Demand:
        """What a job needs, planned."""
        return self._plan(self._checked(job.request, job.id))[1]

    def plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """{"plan", "text", "lease", "warnings"} of a request; a warning says why it could not start on an idle machine,
        as it is now, with the field that asks for too much."""
        checked = self._checked(self._workloads.parse({"job_name": "plan", **request}))
        made, demand = self._plan(checked)
        warnings = self._warnings(checked, demand)
        return {"plan": made.get("plan"), "text": made.get("text"), "lease": demand.to_dict(), "warnings": warnings}

    def _warnings(self, checked: _Checked, demand: Demand) -> list[dict[str, str]]:
        has = checked.command.has
        return [
            FieldProblem(f"config.{what}" if what != "cores" and has(what) else what, f"it would wait: {why}").to_dict()
            for what, why in too_large(demand, self._inventory.capacity())
        ]

    def _checked(self, request: JobRequest, id: str = "new") -> _Checked:
        command = self._workloads.command(request.workload, request.command)
        config = resolve(command, request.config, self._files.job(id) / RUN, self._locate)
        with self._refused(config):
            return _Checked(request, command, config, self._workloads.check(request, config))

    @contextlib.contextmanager
    def _refused(self, config: Mapping[str, Any]) -> Iterator[None]:
        """What is refused inside is said of the option at fault, and of files as clients know them."""
        try:
            yield
        except ConfigError as error:
            path = "config" if error.option is None else f"config.{error.option}"
            raise Invalid(self._placed(FieldProblem(path, str(error)), config)) from error
        except Invalid as error:
            raise Invalid(*(self._placed(problem, config) for problem in error.problems)) from error

    def _placed(self, problem: FieldProblem, config: Mapping[str, Any]) -> FieldProblem:
        option = option_at_fault(problem.message, config) if problem.path == "config" else None
        return FieldProblem(f"config.{option}" if option else problem.path, self._files.named(problem.message))

    def _plan(self, checked: _Checked) -> tuple[dict[str, Any], Demand]:
        """The plan, and what a job leases."""
        request, command, device = checked.request, checked.command, checked.device
        capacity = self._inventory.capacity()
        known = demand_of(request, command, device, capacity, None)
        if not command.plans and known is not None:
            return {}, known
        rough = known or demand_of(request, command, device, capacity, 0)
        assert rough is not None
        placements = rough.placements(capacity)
        if not placements:
            message = f"there is no device {rough.device!r}; there are {', '.join(capacity.bytes)}"
            raise Invalid(FieldProblem("config.device" if command.has("device") else "config", message))
        environment, leased = self._inventory.environment(placements[0])
        most = largest_budget(rough.device, capacity)
        budget = None if known is None else known.device_bytes
        with self._refused(checked.config):
            made = self._workloads.plan(request, checked.config, environment, device=leased, most=most, budget=budget)
        planned = demand_of(request, command, device, capacity, made["device_bytes"] or most)
        assert planned is not None
        return made, planned
