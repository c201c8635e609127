"""How good `gpcm` is: on synthetic data beside a Bayes filter that knows the questions, and on ASSISTments 2009.

    python benchmarks/gpcm_quality.py [--part synthetic|assist2009] [--quick] [--data ../shared/data] [--out RESULTS]
                                      [--keep FOLDER]

RESULTS is such as benchmarks/results/gpcm-quality-cpu.json; rows that it has of other runs stay. FOLDER is for models
and pictures; with it an interrupted run goes on where it was.

The filter knows the true parameters of all questions and the prior of ability; on average nothing that learns from data
can be better than it in cross-entropy. The epoch is always chosen by validation students out of the training students.
"""

import argparse
import itertools
import json
import re
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bayes_filter import bayes_filter
from brimful import gpcm
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.gpcm.evaluation.metrics import PREDICTIONS, score
from saving import save

DATASET, QUICK = "5000_200_4", "500_40_4"


def both_rules(p_TK: Any, response_T: Any) -> dict[str, float]:
    by = {rule: score(p_TK, response_T, rule) for rule in PREDICTIONS}
    first = asdict(by["argmax"])
    names = ("accuracy", "mae", "tau", "cross_entropy", "ece", "auc")
    return {f"qwk_{rule}": each.qwk for rule, each in by.items()} | {name: first[name] for name in names}


def trained(source: Any, name: str, keep: Path | None, **options: Any) -> dict[str, Any]:
    out = None if keep is None else keep / re.sub(r"\W+", "-", name)
    result = gpcm.train(source, device="cpu", progress=False, int8=True, out=out, **options)
    assert isinstance(result, gpcm.GPCMResult)
    if out is not None:
        gpcm.report(result).save(out)
    held_out, recovery = result.held_out, result.recovery
    return {
        "run": name,
        **both_rules(held_out.probability_TK, held_out.students.response),
        **({name: getattr(recovery, name) for name in ("alpha_r", "beta_r", "theta_r")} if recovery else {}),
        "best_epoch": result.best_epoch + 1,
        "int8_qwk_loss": result.int8_qwk_loss,
        "seconds_per_epoch": statistics.median(row["seconds"] for row in result.history),
    }


def synthetic(name: str, keep: Path | None, **options: Any) -> Iterator[dict[str, Any]]:
    sample = gpcm.synthetic_by_name(name)
    folder = sample.dataset()
    assert folder.test is not None
    filtered = bayes_filter(folder.test, sample.true_parameters)
    yield {"run": f"{name}: Bayes filter", **both_rules(filtered.probability_TK, folder.test.response)}
    for what, more in (
        ("defaults", {}),
        ("loss=combined, as deep-gpcm", {"loss": "combined"}),
        ("another seed", {"seed": 1}),
    ):
        yield trained(sample, f"{name}: {what}", keep, **more, **options)


def assist(folder: Path, keep: Path | None, **options: Any) -> Iterator[dict[str, Any]]:
    for what, more in (("defaults", {}), ("another seed", {"seed": 1})):
        yield trained(folder, f"assist2009: {what}", keep, **more, **options)


def shown(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for each in rows for name in each if name != "run"))

    def cell(value: Any) -> str:
        return "" if value is None or value != value else f"{value:.4f}" if isinstance(value, float) else str(value)

    return format_table(
        [(each["run"], *(cell(each.get(name)) for name in names)) for each in rows], ("run", *names), ""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small synthetic data and few epochs, to see that it runs")
    parser.add_argument("--part", choices=("synthetic", "assist2009"), help="by default both")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    options = {"epochs": 3} if given.quick else {}
    parts: list[Iterator[dict[str, Any]]] = []
    if given.part != "assist2009":
        parts.append(synthetic(QUICK if given.quick else DATASET, given.keep, **options))
    if given.part != "synthetic" and (given.data / "assist2009").is_dir():
        parts.append(assist(given.data / "assist2009", given.keep, **options))
    rows: dict[str, dict[str, Any]] = {}
    if given.out is not None and given.out.exists():
        rows = {each["run"]: each for each in json.loads(given.out.read_text())["rows"]}
    about = {"machine": devices.model_name(torch.device("cpu")), "threads": given.threads, "torch": torch.__version__}
    for each in itertools.chain(*parts):
        rows[each["run"]] = each
        print(shown([each]), flush=True)
        save(given.out, about | {"rows": list(rows.values())}, shown(list(rows.values())))


if __name__ == "__main__":
    main()
