"""The options of a job, those that differ from the default first; and the job as commands to copy."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ....jobs.job import Job
from ...commands import as_command_line, as_curl, as_python, changed_options
from ...elements import Tag, table
from ...values import counted, exact

_UPLOAD = re.compile(r"upload:([0-9a-f-]{36})(?:/[^,]*)?")
_COPY = """(event) => {
  const button = event.target, text = button.closest(".copy").querySelector("pre").textContent;
  const done = () => { button.textContent = "Copied"; setTimeout(() => (button.textContent = "Copy"), 2000); };
  const select = () => getSelection().selectAllChildren(button.closest(".copy").querySelector("pre"));
  navigator.clipboard ? navigator.clipboard.writeText(text).then(done, select) : select();
}"""


def config_view(job: Job, schema: dict[str, Any] | None, uploads: Mapping[str, str] = MappingProxyType({})) -> None:
    """A table of options; without the schema, all of them are shown alike.

    Args:
        uploads: names of uploaded files, by id.
    """
    changed = changed_options(job.request.config, schema) if schema else {}
    properties = (schema or {}).get("properties", {})

    def rows(names: Any) -> list[tuple[str, str, str]]:
        values = {name: option_value(job.request.config[name], uploads) for name in names}
        return [(name, value, _default(properties.get(name, {}))) for name, value in values.items()]

    if changed:
        table("Options that differ from the default", ("Option", "Value", "Default"), rows(changed))
    elif schema:
        Tag("p", "All options have their defaults.", "muted")
    rest = [name for name in job.request.config if name not in changed]
    if rest:
        with Tag("details"):
            Tag("summary", counted(len(rest), "option") + (" as by default" if schema else ""))
            table("Other options", ("Option", "Value", "Default"), rows(rest))


def option_value(value: Any, uploads: Mapping[str, str]) -> str:
    """A value of an option, with the name of each uploaded file that it names."""

    def named(found: re.Match[str]) -> str:
        return f"{found[0]} ({uploads[found[1]]})" if found[1] in uploads else found[0]

    return _UPLOAD.sub(named, exact(value))


def commands_view(job: Job, schema: dict[str, Any] | None, url: str, token: bool) -> None:
    """The job as a command line, as curl and as Python; `token` says whether the server requires one."""
    options = changed_options(job.request.config, schema) if schema else dict(job.request.config)
    forms = {
        "Command line": as_command_line(job, options, url, schema),
        "curl": as_curl(job, options, url, token),
        "Python": as_python(job, options, url),
    }
    if token:
        Tag("p", "Each reads a token from the environment variable BRIMFUL_TOKEN.", "muted")
    for name, text in forms.items():
        with Tag("div", classes="copy"):
            with Tag("div", classes="curve-head"):
                Tag("h3", name)
                copy = Tag("button", "Copy", "button quiet small", type="button", aria_label=f"Copy as {name}")
                copy.on("click", js_handler=_COPY)
            Tag("pre", text, "log", tabindex="0", aria_label=f"This job as {name}")


def _default(declared: dict[str, Any]) -> str:
    return exact(declared["default"]) if "default" in declared else "required"
