"""What a job says while it runs: its events and its log, the newest at hand, appended as they come."""

from typing import Any

from nicegui.element import Element

from .....core.base.formatting import format_bytes, format_seconds
from ....jobs.job import StoredEvent
from ....security.redact import redact, redact_values
from ...values import exact, short

_QUIET = {"batch_done", "memory_measured", "metric", "sampled"}
"""Events that progress, curves and the plan show."""

_EPOCH_VALUES = 4
MOST_EVENTS = 300
MOST_LOG = 65_536


class History(Element, component="history.js"):
    """A list of events, or the text of a log, whose end grows."""

    def __init__(self, label: str, kind: str, entries: list[Any]) -> None:
        super().__init__()
        self._props["label"], self._props["kind"], self._props["entries"] = label, kind, tuple(entries)

    def append(self, entries: list[Any]) -> None:
        if entries:
            self.run_method("append", entries)


def event_entries(events: list[StoredEvent]) -> list[dict[str, Any]]:
    """The events that are shown; of plans that follow one another, as one is refined, the last."""
    shown = [event for event in events if event.kind not in _QUIET]
    last = [
        event
        for event, after in zip(shown, [*shown[1:], None][: len(shown)], strict=True)
        if not after or not _refined(event, after)
    ]
    return [
        {"id": event.id, "time": event.time, "kind": event.kind.replace("_", " "), "text": event_text(event)}
        for event in last
    ]


def _refined(event: StoredEvent, after: StoredEvent) -> bool:
    return event.kind == after.kind == "planned"


def event_text(event: StoredEvent) -> str:
    """An event in a sentence."""
    data = redact_values(event.data)
    match event.kind:
        case "state":
            return f"{data.get('state', '')}{': ' if data.get('message') else ''}{data.get('message') or ''}"
        case "planned":
            plan = data.get("plan") or {}
            peak = f"{format_bytes(plan.get('predicted', 0))} of {format_bytes(plan.get('budget', 0))}"
            return f"{plan.get('strategy', '')}, batches of {short(plan.get('batch', 0))}, predicted peak {peak}"
        case "started":
            items = data.get("items")
            return (
                f"{data.get('work', '')}, {short(data.get('done', 0))} of {'?' if items is None else short(items)} done"
            )
        case "epoch_done":
            return f"epoch {data.get('epoch')} of {data.get('epochs')}: {_epoch_values(data.get('values') or {})}"
        case "warned":
            return str(data.get("message", ""))
        case "compiled":
            took = format_seconds(float(data.get("seconds") or 0))
            return "compiling" if not data.get("loops") else f"compiled {data['loops']} functions in {took}"
        case "finished":
            return f"{data.get('state')}, {short(data.get('done') or 0)} done, {short(data.get('bad') or 0)} flagged"
    return ", ".join(f"{name} {exact(value)}" for name, value in data.items())


def _epoch_values(values: dict[str, float | None]) -> str:
    """The first few, losses before others; curves show all."""
    known = [(name, value) for name, value in values.items() if value is not None]
    known.sort(key=lambda one: "loss" not in one[0])
    return ", ".join(f"{name} {value:.4g}" for name, value in known[:_EPOCH_VALUES])


def log_text(content: bytes) -> str:
    """What a process wrote, without secrets."""
    return redact(content.decode(errors="replace"))
