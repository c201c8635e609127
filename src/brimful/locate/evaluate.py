"""A trained network on recordings that it never saw, beside the judges."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..core.base.arguments import check_type
from ..core.base.errors import InputError
from ..data.subset import split
from .data.files import Dataset
from .datasets import load, select
from .evaluation.compare import Comparison, compare
from .physics.scenario import Scenario
from .result import HeldOut, LocateResult


def evaluate(
    result: LocateResult,
    source: Any = None,
    *,
    samples: int = 2_000,
    min_snr_db: float = 10.0,
    max_gdop: float = 5.0,
    other_receivers: bool = False,
    seed: int = 0,
    **options: Any,
) -> tuple[HeldOut, Comparison]:
    """Judges a network.

    Args:
        source: recordings that training did not see, as `locate.train` takes them; by default those that were held out.
        samples: recordings at most; of more, a random part.
        min_snr_db, max_gdop: recordings below and above are left out. The posterior knows of it.
        other_receivers: whether receivers may be at sites that the model was not trained with.
        options: device and budget.

    Raises:
        InputError: the recordings were generated with the scenario and the seed of the training recordings, or their
            receivers are elsewhere.
    """
    check_type(result, LocateResult, "give what locate.train or locate.load returned")
    if source is None:
        held_out, scenario = result.held_out.first(samples), _limited(result.scenario, *_limits(result))
        if not len(held_out):
            raise InputError("the model has no held-out recordings any more; name recordings that training did not see")
    else:
        datasets = load(source)
        _refuse_seen(result, datasets)
        selected = select(datasets, min_snr_db, max_gdop)
        recordings = selected.recordings
        if not other_receivers:
            result.receiver_set.check(recordings)
        if samples < len(recordings):
            share = samples / len(recordings)
            recordings = recordings.select(torch.from_numpy(split(len(recordings), (share, 1 - share), seed)[0]))
        batch = result.scaling.samples(recordings)
        held_out = HeldOut.of(batch, result.located(batch, **options), result.scaling)
        scenario = _limited(selected.scenario, min_snr_db, max_gdop)
    tensors = held_out.tensors()
    predicted = {"network": {name: tensors[name] for name in ("position", "covariance")}}
    return held_out, compare(predicted, tensors, result.scaling, scenario, **options)


def _limits(result: LocateResult) -> tuple[float, float]:
    return result.settings["min_snr_db"], result.settings["max_gdop"]


def _limited(scenario: Scenario | None, min_snr_db: float, max_gdop: float) -> Scenario | None:
    """The scenario with what was left out after generating: the tighter limits count."""
    if scenario is None:
        return None
    return replace(scenario, min_snr_db=max(scenario.min_snr_db, min_snr_db), max_gdop=min(scenario.max_gdop, max_gdop))


def _refuse_seen(result: LocateResult, datasets: Sequence[Dataset]) -> None:
    seeds = result.settings.get("dataset_seeds") or []
    for dataset in datasets:
        if dataset.scenario is not None and dataset.scenario == result.scenario and dataset.seed in seeds:
            raise InputError(
                f"{dataset.name} was generated with seed {dataset.seed}, as recordings that the model was trained on; "
                "generate others with another --seed, or leave dataset_ids out for the held-out ones"
            )
