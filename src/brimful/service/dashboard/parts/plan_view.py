"""A plan as tables: what will be done, and the memory of each part, predicted beside observed."""

from collections.abc import Mapping
from typing import Any

from ....core.base.formatting import format_bytes, format_count
from ..elements import Tag, table

_REST = "working memory"


def plan_view(plan: dict[str, Any], peak: int | None = None, observed: Mapping[str, int] | None = None) -> None:
    """The tables of a plan, as `Plan.to_dict()` has it.

    Args:
        peak: the most bytes that were used, where the work has begun.
        observed: bytes of those parts of it that are known.
    """
    cost, steps = plan["cost"], plan.get("steps")
    batch = f"{format_count(plan['batch'])} items" + (f", {steps:,} step{'s' * (steps > 1)}" if steps else "")
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
    _memory(plan, peak, observed or {})
    if plan["rejected"]:
        with Tag("details"):
            Tag("summary", "Not chosen")
            rejected = [
                (other["strategy"], format_bytes(other["needs"]) if other["needs"] else "", other["reason"])
                for other in plan["rejected"]
            ]
            table("Strategies that were not chosen", ("Strategy", "Needs", "Why"), rejected)


def _memory(plan: dict[str, Any], peak: int | None, observed: Mapping[str, int]) -> None:
    budget = max(1, plan["budget"])
    parts = [(name, size) for name, size in plan["parts"]] or [("all of it", plan["predicted"])]
    Tag("h3", "Memory by part")
    shares = [min(100.0, 100 * size / budget) for _, size in parts]
    text = f"{format_bytes(plan['predicted'])} predicted of {format_bytes(budget)}"
    with Tag("div", classes="meter", role="img", aria_label=text):
        for share in shares:
            Tag("span").style(f"width: {share:.2f}%")
    seen = observed_parts([name for name, _ in parts], peak, observed)
    rows = [(name, size, seen.get(name)) for name, size in (*parts, ("Peak", plan["predicted"]))]
    table(
        "Memory by part",
        ("Part", "Predicted", "Of budget", "Observed"),
        [
            (name, format_bytes(size), f"{size / budget:.1%}", "" if bytes is None else format_bytes(bytes))
            for name, size, bytes in rows
        ],
        "table numbers",
    )
    if _REST in seen:
        unknown = [name for name, _ in parts if name not in seen]
        more = f", with {' and '.join(unknown)}" if unknown else ""
        Tag("p", f"Observed {_REST} is what the other parts leave of the peak{more}.", "muted")


def observed_parts(names: list[str], peak: int | None, observed: Mapping[str, int]) -> dict[str, int]:
    """Bytes by part of the plan, as they were observed: those that are known, the rest of the peak, and the peak."""
    if not peak:
        return {}
    known = {name: observed[name] for name in names if name in observed}
    rest = {_REST: max(0, peak - sum(known.values()))} if known and _REST in names else {}
    return known | rest | {"Peak": peak}
