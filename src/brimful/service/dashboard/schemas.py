"""The options of every command, read once: they do not change while the server runs."""

import asyncio
from typing import Any

from ..service import Service
from .threads import ask


class Schemas:
    """What `Service.workloads` says, which takes a while the first time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._listed: list[dict[str, Any]] | None = None
        self._lock = asyncio.Lock()

    @property
    def ready(self) -> bool:
        return self._listed is not None

    async def workloads(self) -> list[dict[str, Any]]:
        async with self._lock:
            if self._listed is None:
                self._listed = await ask(self._service.workloads)
            return self._listed

    async def command(self, workload: str, command: str) -> dict[str, Any] | None:
        """{"command", "help", "schema", "plans", "stores"}; None where there is no such command any more."""
        for listed in await self.workloads():
            if listed["workload"] == workload:
                return next((one for one in listed["commands"] if one["command"] == command), None)
        return None
