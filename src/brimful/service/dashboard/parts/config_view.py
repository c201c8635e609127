"""The options of a job, those that differ from the default first; and the job as commands to copy."""

from typing import Any

from ...jobs.job import Job
from ..commands import as_command_line, as_curl, as_python, changed_options
from ..elements import Tag, table
from ..values import counted, exact

_COPY = """(event) => {
  const button = event.target, text = button.closest(".copy").querySelector("pre").textContent;
  const done = () => { button.textContent = "Copied"; setTimeout(() => (button.textContent = "Copy"), 2000); };
  const select = () => getSelection().selectAllChildren(button.closest(".copy").querySelector("pre"));
  navigator.clipboard ? navigator.clipboard.writeText(text).then(done, select) : select();
}"""


def config_view(job: Job, schema: dict[str, Any] | None) -> None:
    """A table of options; without the schema, all of them are shown alike."""
    changed = changed_options(job.request.config, schema) if schema else {}
    properties = (schema or {}).get("properties", {})

    def rows(names: Any) -> list[tuple[str, str, str]]:
        return [(name, exact(job.request.config[name]), _default(properties.get(name, {}))) for name in names]

    if changed:
        table("Options that differ from the default", ("Option", "Value", "Default"), rows(changed))
    elif schema:
        Tag("p", "All options have their defaults.", "muted")
    rest = [name for name in job.request.config if name not in changed]
    if rest:
        with Tag("details"):
            Tag("summary", counted(len(rest), "option") + (" as by default" if schema else ""))
            table("Other options", ("Option", "Value", "Default"), rows(rest))


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
