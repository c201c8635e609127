"""What the server asks of the workloads; see `rpc`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ...core.base.errors import BrimfulError
from ...core.declare import config as declared
from ...core.declare import registry
from ...core.declare.registry import Command
from ..jobs import request
from . import datasets
from .plan import plan
from .workload_list import describe_workload


def parse(values: Mapping[str, Any]) -> dict[str, Any]:
    """A request, checked; all its fields, secrets included."""
    return asdict(request.parse(values).request)


def check(workload: str, command: str, config: dict[str, Any], url: str) -> str:
    """Asks a command what is wrong with a config of resolved options; the device that it names."""
    loaded = registry.load(workload).command(command)
    request.check(loaded, config, url)
    return _device(loaded, config)


def _device(command: Command, config: Mapping[str, Any]) -> str:
    """What a config names; `where`, for a config that has several options for it."""
    try:
        built = declared.build(command.config, dict(config))
    except BrimfulError:
        return str(config.get("device") or "auto")
    return str(getattr(built, "where", None) or getattr(built, "device", None) or "auto")


METHODS = {
    "names": registry.names,
    "describe": describe_workload,
    "parse": parse,
    "check": check,
    "plan": plan,
    "list_datasets": datasets.list_datasets,
    "show_dataset": datasets.show_dataset,
    "delete_dataset": datasets.delete_dataset,
    "write_dataset": datasets.write_dataset,
}
