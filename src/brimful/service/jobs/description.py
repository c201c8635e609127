"""What the server knows of a workload's commands: values, so that it need not import the workload."""

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescription:
    """An option.

    Attributes:
        files: its text may name files.
        reads: what such a file holds: "table", "model", or "" for anything.
        output: it is a path that the command writes to.
        place: of an output: its value inside the job's run directory where none is given; "" is that directory.
    """

    name: str
    files: bool = False
    reads: str = ""
    output: bool = False
    place: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDescription:
    """A command that can be a job.

    Attributes:
        plans: whether it can be planned.
        stores: whether it stores a model, which other commands of the workload read.
        schema: the JSON schema of a job's config.
        options: all that it has, also those that a job cannot set.
    """

    workload: str
    command: str
    help: str = ""
    plans: bool = False
    stores: bool = False
    schema: dict[str, Any]
    options: tuple[OptionDescription, ...] = ()

    def has(self, option: str) -> bool:
        return any(one.name == option for one in self.options)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(**{**values, "options": tuple(OptionDescription(**one) for one in values["options"])})
