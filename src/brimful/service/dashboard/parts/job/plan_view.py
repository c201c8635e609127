"""A plan as tables: what will be done, and the memory of each part, predicted beside observed."""

from collections.abc import Callable, Mapping
from typing import Any

from .....core.base.formatting import format_bytes, format_count
from ...elements import Tag, table
from ...values import counted

_REST, _PEAK = "working memory", "Peak"


Observe = Callable[[int | None, Mapping[str, int] | None], None]
"""Shows the most bytes that were used so far, and those of the parts of it that are known."""


def plan_view(plan: dict[str, Any], *, observed: bool = True) -> Observe:
    """The tables of a plan, as `Plan.to_dict()` has it; what is called with what is observed of it, where that is
    shown."""
    cost, steps = plan["cost"], plan.get("steps")
    batch = counted(plan["batch"], "item") + (f", {counted(steps, 'step')}" if steps else "")
    rows = [
        ("Strategy", plan["strategy"]),
        ("Devices", ", ".join(plan["devices"])),
        ("Precision", plan["precision"]),
        ("Data tier", plan.get("tier") or ""),
        ("Items", "a stream" if plan["items"] is None else format_count(plan["items"])),
        ("Batch", batch),
        ("Cost", f"{format_bytes(cost['fixed'])} + {format_bytes(cost['per_unit'])} per {plan['unit']}"),
        ("Budget", format_bytes(plan["budget"])),
    ]
    table("The plan", ("What", "How"), [row for row in rows if row[1]], "table plain")
    observe = _memory(plan, observed)
    if plan["rejected"]:
        with Tag("details"):
            Tag("summary", "Not chosen")
            rejected = [
                (other["strategy"], format_bytes(other["needs"]) if other["needs"] else "", other["reason"])
                for other in plan["rejected"]
            ]
            table("Strategies that were not chosen", ("Strategy", "Needs", "Why"), rejected)
    return observe


def _memory(plan: dict[str, Any], with_observed: bool) -> Observe:
    budget = max(1, plan["budget"])
    parts = [(name, size) for name, size in plan["parts"]] or [("all of it", plan["predicted"])]
    Tag("h3", "Memory by part")
    shares = [min(100.0, 100 * size / budget) for _, size in parts]
    text = f"{format_bytes(plan['predicted'])} predicted of {format_bytes(budget)}"
    with Tag("div", classes="meter", role="img", aria_label=text):
        for share in shares:
            Tag("span").style(f"width: {share:.2f}%")
    cells: dict[str, Tag] = {}

    def observed(name: str) -> Callable[[], None]:
        return lambda: cells.update({name: Tag("span")})

    sizes = (*parts, (_PEAK, plan["predicted"]))
    columns = ("Part", "Predicted", "Of budget", "Observed")
    rows = [(name, format_bytes(size), f"{size / budget:.1%}", observed(name)) for name, size in sizes]
    if not with_observed:
        table("Memory by part", columns[:-1], [row[:-1] for row in rows], "table numbers parts")
        return lambda peak, known: None
    table("Memory by part", columns, rows, "table numbers parts")
    note = Tag("p", "", "muted")

    def observe(peak: int | None, known: Mapping[str, int] | None) -> None:
        seen = observed_parts([name for name, _ in parts], peak, known or {})
        for name, size in seen.items():
            if cells[name].text != (text := format_bytes(size)):
                cells[name].set_text(text)
        unknown = [name for name, _ in parts if name not in seen]
        more = f", with {' and '.join(unknown)}" if unknown else ""
        note.set_text(f"Observed {_REST} is what the other parts leave of the peak{more}." if _REST in seen else "")
        note.set_visibility(_REST in seen)

    return observe


def observed_parts(names: list[str], peak: int | None, observed: Mapping[str, int]) -> dict[str, int]:
    """Bytes by part of the plan, as they were observed: those that are known, the rest of the peak, and the peak."""
    if not peak:
        return {}
    known = {name: observed[name] for name in names if name in observed}
    rest = {_REST: max(0, peak - sum(known.values()))} if known and _REST in names else {}
    return known | rest | {_PEAK: peak}
