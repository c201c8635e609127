"""What a request would lease, and its plan: from its budget, or planned in a process of its own."""

from collections.abc import Callable, Mapping
from typing import Any

from ..core.base.errors import ConfigError
from ..core.declare import registry
from .child.job_dir import RUN
from .errors import FieldProblem, Invalid
from .files import Files
from .jobs.job import Job
from .jobs.lease import Demand
from .jobs.request import Parsed, check, parse, resolve
from .runner.demand import demand_of, largest_budget, plan
from .runner.inventory import Inventory


class Planner:
    """Plans requests for the devices there are."""

    def __init__(self, inventory: Inventory, files: Files, url: Callable[[], str]) -> None:
        self._inventory, self._files, self._url = inventory, files, url

    def demand(self, parsed: Parsed) -> Demand | None:
        """What a request needs, where that is known at once. The request is checked as far as it can be."""
        return demand_of(parsed.request, parsed.command, self._checked(parsed), self._inventory.capacity(), None)

    def needs(self, job: Job) -> Demand:
        """What a job needs, planned."""
        command = registry.load(job.request.workload).command(job.request.command)
        config = resolve(command, job.request.config, self._files.job(job.id) / RUN, self._files.locate)
        return self._plan(Parsed(job.request, command), config)[1]

    def plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """{"plan", "text", "lease"} of a request."""
        parsed = parse({"job_name": "plan", **request})
        config = self._checked(parsed)
        try:
            made, demand = self._plan(parsed, config)
        except ConfigError as error:
            raise Invalid(FieldProblem("config", str(error))) from error
        return {"plan": made.get("plan"), "text": made.get("text"), "lease": demand.to_dict()}

    def _checked(self, parsed: Parsed) -> dict[str, Any]:
        """The config with its references as paths."""
        run = self._files.job("new") / RUN
        config = resolve(parsed.command, parsed.request.config, run, self._files.locate)
        check(parsed.command, config, self._url())
        return config

    def _plan(self, parsed: Parsed, config: dict[str, Any]) -> tuple[dict[str, Any], Demand]:
        """The plan, and what a job leases."""
        request, command, capacity = parsed.request, parsed.command, self._inventory.capacity()
        known = demand_of(request, command, config, capacity, None)
        if command.plan is None and known is not None:
            return {}, known
        rough = known or demand_of(request, command, config, capacity, 0)
        assert rough is not None
        placements = rough.placements(capacity)
        if not placements:
            raise ConfigError(f"there is no device {rough.device!r}; there are {', '.join(capacity.bytes)}")
        environment, device = self._inventory.environment(placements[0])
        environment["BRIMFUL_DATABASE_URL"] = self._url()
        most = largest_budget(rough.device, capacity)
        budget = None if known is None else known.device_bytes
        made = plan(request, config, environment, device=device, most=most, budget=budget)
        planned = demand_of(request, command, config, capacity, made["device_bytes"] or most)
        assert planned is not None
        return made, planned
