"""The plan: what will be run, in what steps, why, and what it will cost. Decided by arithmetic alone.

`choose` is a pure function of candidates and a budget: no device is touched, so planning is tested without
one. Candidates are the rows of one cost table (whole, in batches, in chunks, sharded, in another precision);
the first that fits, in order of expected time, is taken, and the others are kept with the reason.
"""

import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from ..base.errors import BudgetError
from ..base.field_types import fits
from ..base.formatting import format_bytes, format_count, format_table
from .cost import Cost

Parts = tuple[tuple[str, int], ...]
"""Bytes by what they are for."""

_ENDLESS = 65_536  # items in a step of a stream whose items cost nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What a candidate and a plan both say.

    Attributes:
        strategy: its name, such as "whole" or "batched".
        cost: bytes of one step, by the weight of what is in it.
        items: how many items there are; None when nobody knows (a stream).
        unit: what the cost is per, and the smallest step holds one of, such as "item", "sample" or "center"; in a plan
            "unit of weight" where items weigh other than 1.
        devices: where it runs.
        precision: the number format it computes in.
        tier: where its data lives, for work that has a choice.
        recompute: whether activations are computed again in the backward pass.
        parts: bytes by name. Of a candidate: what of the fixed bytes is what, such as parameters, optimizer, data. Of a
            plan: the predicted peak, working memory among it.
    """

    strategy: str
    cost: Cost
    items: int | None = None
    unit: str = "item"
    devices: tuple[str, ...] = ("cpu",)
    precision: str = "float32"
    tier: str | None = None
    recompute: bool = False
    parts: Parts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Strategy):
    """A strategy to do the work by.

    Attributes:
        total: the weight of all items together; `items` when each weighs 1.
        heaviest: the weight of the heaviest single item, which cannot be split.
        most: no step may hold more items than this, whatever the memory allows.
        divisible: whether the work may be split into steps; if not, all of it must fit at once.
        slowness: expected time relative to the other candidates.
    """

    total: float | None = None
    heaviest: float = 1.0
    most: int | None = None
    divisible: bool = True
    slowness: float = 1.0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that was not taken, with the least bytes it needs (0: not known), the reason, and its memory by
    part."""

    strategy: str
    needs: int
    reason: str
    parts: Parts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Strategy):
    """What will be run: the candidate that was taken. Frozen, comparable, and the same after a trip through JSON.

    Attributes:
        work: what it is for, such as "nets train".
        batch: items in a step; for unequal weights, how many of mean weight.
        capacity: the weight a step may hold.
        steps: how many steps there will be; None for a stream of unknown length.
        predicted: expected peak bytes of a step, without the margin.
        budget: bytes allowed.
        rejected: the candidates not taken.
    """

    work: str
    batch: int
    capacity: float
    steps: int | None
    predicted: int
    budget: int
    rejected: tuple[Rejected, ...] = ()

    def __repr__(self) -> str:
        peak = f"{format_bytes(self.predicted)} of {format_bytes(self.budget)}"
        return f"Plan({self.work!r}, {self.strategy}, batches of {format_count(self.batch)}, predicted peak {peak})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.explain())}</pre>"

    def explain(self) -> str:
        """The plan as a table to read before anything runs."""
        cost = f"{format_bytes(self.cost.fixed)} + {format_bytes(self.cost.per_unit)} per {self.unit}"
        rows = [
            ("work", self.work),
            ("strategy", self.strategy),
            ("devices", ", ".join(self.devices)),
            ("precision", self.precision),
            ("items", "a stream" if self.items is None else format_count(self.items)),
            ("batch", f"{format_count(self.batch)} items" + (f", {self.steps:,} steps" if self.steps else "")),
            ("cost", f"{cost} (from a {self.cost.source})".replace("a remembered", "a remembered probe")),
            ("predicted peak", f"{format_bytes(self.predicted)} of {format_bytes(self.budget)}"),
            ("safety margin", f"{self.cost.margin:.0%} on top of the prediction"),
        ]
        if self.tier:
            rows.insert(4, ("data tier", self.tier))
        text = format_table(rows)
        if self.parts:
            columns = {self.strategy: self.parts}
            columns |= {other.strategy: other.parts for other in self.rejected if other.parts}
            table = [(name, *(format_bytes(dict(parts)[name]) for parts in columns.values())) for name, _ in self.parts]
            table.append(("total", *(format_bytes(sum(dict(parts).values())) for parts in columns.values())))
            text += "\n\nmemory by part\n" + format_table(table, header=("part", *columns))
        if self.rejected:
            table = [
                (other.strategy, format_bytes(other.needs) if other.needs else "", other.reason)
                for other in self.rejected
            ]
            text += "\n\nnot chosen\n" + format_table(table, header=("strategy", "needs", "why"))
        return text

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values; `from_dict` reads it back to an equal plan."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The plan of `to_dict`; a `ValueError`, `KeyError` or `TypeError` where it is not one."""
        rejected = [Rejected(**{**other, "parts": _read_parts(other["parts"])}) for other in data["rejected"]]
        values = {
            **data,
            "cost": Cost(**data["cost"]),
            "devices": tuple(data["devices"]),
            "parts": _read_parts(data["parts"]),
            "rejected": tuple(rejected),
        }
        sound = [fits(cls, values), fits(Cost, data["cost"]), *(fits(Rejected, asdict(other)) for other in rejected)]
        if not all(sound) or not all(isinstance(name, str) for name in values["devices"]):
            raise ValueError("a value of the plan has another type")
        return cls(**values)


def _read_parts(parts: Sequence[Sequence[Any]]) -> Parts:
    return tuple((name, size) for name, size in parts)


def choose(work: str, candidates: Sequence[Candidate], budget: int) -> Plan:
    """The fastest candidate that fits the budget.

    The predicted peak, margin included, is within the budget. For each strategy a larger budget never gives
    a smaller batch, and over all of them never a slower plan.

    Raises:
        BudgetError: not even one item fits, by any candidate.
    """
    if not candidates:
        raise ValueError(f"{work}: no candidates to choose a plan from")
    ranked = sorted(candidates, key=lambda candidate: candidate.slowness)  # stable: ties keep the caller's order
    chosen: Plan | None = None
    rejected = []
    for candidate in ranked:
        needs = candidate.cost.guarded(_least(candidate))
        if needs > budget:
            reason = f"one {candidate.unit} alone" if candidate.divisible else "all of it at once"
            rejected.append(Rejected(candidate.strategy, needs, f"{reason} is over the budget"))
        elif chosen is not None:
            rejected.append(Rejected(candidate.strategy, needs, f"fits, but {chosen.strategy} is faster"))
        else:
            chosen = _plan(work, candidate, budget)
    if chosen is None:
        raise BudgetError(_nothing_fits(work, ranked, budget))
    return replace(chosen, rejected=tuple(rejected))


def _total(candidate: Candidate) -> float:
    if candidate.total is not None:
        return candidate.total
    return math.inf if candidate.items is None else float(candidate.items)


def _least(candidate: Candidate) -> float:
    """The weight of the smallest step the candidate can take."""
    return min(candidate.heaviest, _total(candidate)) if candidate.divisible else _total(candidate)


def _plan(work: str, candidate: Candidate, budget: int) -> Plan:
    items = candidate.items
    if items is None or _total(candidate) == items * candidate.heaviest:
        count = _count(candidate, budget)
        capacity = count * candidate.heaviest
        steps = None if items is None else math.ceil(items / max(1, count))
    else:
        count, capacity = 0, _weight(candidate, budget)
        steps = math.ceil(_total(candidate) / capacity)
        if candidate.most is not None and candidate.divisible:
            steps = max(steps, math.ceil(items / candidate.most))
    batch = count if items is None else math.ceil(items / steps) if steps else 0
    # Items alike are split into equal steps, a little under capacity; others may fill it to the last byte.
    weight = batch * candidate.heaviest if count else capacity
    predicted = candidate.cost.at(weight)
    # What the candidate does not name is working memory, which grows with the step.
    unnamed = ("working memory", max(0, predicted - sum(size for _, size in candidate.parts)))
    shared = {field.name: getattr(candidate, field.name) for field in fields(Strategy)}
    shared["unit"] = candidate.unit if candidate.heaviest == 1 else "unit of weight"
    shared["parts"] = (*candidate.parts, unnamed) if candidate.parts else ()
    return Plan(work=work, batch=batch, capacity=capacity, steps=steps, predicted=predicted, budget=budget, **shared)


def _count(candidate: Candidate, budget: int) -> int:
    """How many items, all alike, a step may hold."""
    cost, items, heaviest = candidate.cost, candidate.items, candidate.heaviest
    if not candidate.divisible and items is not None:
        return items
    room = cost.capacity(budget)
    if heaviest == 0 or math.isinf(room):
        count = _ENDLESS if items is None else items
    else:
        count = max(1, math.floor(room / heaviest))
        if cost.guarded((count + 1) * heaviest) <= budget:  # the division may round either way
            count += 1
        elif count > 1 and cost.guarded(count * heaviest) > budget:
            count -= 1
    return min(most for most in (count, items, candidate.most) if most is not None)


def _weight(candidate: Candidate, budget: int) -> float:
    """How much weight a step of unequal items may hold."""
    least, total = _least(candidate), _total(candidate)
    if not candidate.divisible:
        return total
    most = math.inf if candidate.most is None else candidate.most * candidate.heaviest
    # Rounding may land a hair below an item that just fits.
    return max(least, min(candidate.cost.capacity(budget), total, most))


def _nothing_fits(work: str, ranked: Sequence[Candidate], budget: int) -> str:
    smallest = min(ranked, key=lambda candidate: candidate.cost.guarded(_least(candidate)))
    needs = smallest.cost.guarded(_least(smallest))
    what = f"one {smallest.unit}" if smallest.divisible else "the work, which cannot be split,"
    return (
        f"{work}: {what} needs {format_bytes(needs)} ({format_bytes(smallest.cost.fixed)} fixed, margin "
        f'included); the budget is {format_bytes(budget)}. Use budget="{math.ceil(needs / 1e6)}MB" or more, '
        "or make the items smaller."
    )
