"""The table in docs/programs.md of how operations run in the batched executor: from the kernels that there are, and the
shares of time that benchmarks/programs.py measured.

    python benchmarks/programs_table.py            # writes it; a test says when that is due
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from brimful.programs.executors.operation_forms import Form, forms_of
from brimful.programs.vocabulary.arc import ARC
from brimful.programs.vocabulary.batt import BATT

ROOT = Path(__file__).resolve().parents[1]
DOCS, RESULTS = ROOT / "docs" / "programs.md", ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- made by benchmarks/programs_table.py -->\n", "<!-- end -->\n"
_MEASURED = {"CPU": "programs-operations-cpu.json", "H200": "programs-operations-h200.json"}


def table() -> str:
    """The table, as Markdown."""
    shares = {device: found for device, file in _MEASURED.items() if (found := measured(RESULTS / file))}
    lines = [f"| form | vocabulary | operations |{''.join(f' share of time, {name} |' for name in shares)}"]
    lines.append("|---" * (3 + len(shares)) + "|")
    for form in Form:
        for vocabulary in (ARC, BATT):
            names = sorted(name for name, operation in vocabulary.items() if forms_of(operation).cpu is form)
            if not names:
                continue
            cells = [f" {of.get(form.value, 0.0):.1%} |" if vocabulary is ARC else " |" for of in shares.values()]
            lines.append(f"| {form.value} | `{vocabulary.name}`, {len(names)} | {', '.join(names)} |{''.join(cells)}")
    return "\n".join(lines) + "\n"


def measured(path: Path) -> dict[str, float]:
    """The share of time by form, of a results file; nothing where there is none."""
    if not path.exists():
        return {}
    parts: Any = json.loads(path.read_text()).get("operations")
    shares: dict[str, float] = defaultdict(float)
    for device in list(parts.values())[-1:] if isinstance(parts, dict) else ():
        for row in device["operations"].values():
            shares[row["form"]] += row["time_share"]
    return dict(shares)


def current(text: str) -> str:
    """The page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    DOCS.write_text(current(DOCS.read_text()))
