"""A plan as tables: what will be done, and the memory of each part, predicted beside observed."""

from typing import Any

from ....core.base.formatting import format_bytes, format_count
from ..elements import Tag, table


def plan_view(plan: dict[str, Any], observed: int | None = None) -> None:
    """The tables of a plan, as `Plan.to_dict()` has it.

    Args:
        observed: the most bytes that were used, where the work has begun.
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
    _memory(plan, observed)
    if plan["rejected"]:
        with Tag("details"):
            Tag("summary", "Not chosen")
            rejected = [
                (other["strategy"], format_bytes(other["needs"]) if other["needs"] else "", other["reason"])
                for other in plan["rejected"]
            ]
            table("Strategies that were not chosen", ("Strategy", "Needs", "Why"), rejected)


def _memory(plan: dict[str, Any], observed: int | None) -> None:
    budget = max(1, plan["budget"])
    parts = [(name, size) for name, size in plan["parts"]] or [("all of it", plan["predicted"])]
    Tag("h3", "Memory by part")
    shares = [min(100.0, 100 * size / budget) for _, size in parts]
    text = f"{format_bytes(plan['predicted'])} predicted of {format_bytes(budget)}"
    with Tag("div", classes="meter", role="img", aria_label=text):
        for share in shares:
            Tag("span").style(f"width: {share:.2f}%")
    rows: list[tuple[Any, ...]] = [(name, format_bytes(size), f"{size / budget:.1%}", "") for name, size in parts]
    seen = "" if not observed else format_bytes(observed)
    rows.append(("Peak", format_bytes(plan["predicted"]), f"{plan['predicted'] / budget:.1%}", seen))
    table("Memory by part", ("Part", "Predicted", "Of budget", "Observed"), rows, "table numbers")
    if seen and len(parts) > 1:
        Tag("p", "What is observed is the peak of all parts together; each part is as predicted.", "muted")
