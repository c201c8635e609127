"""The report of a trained network, as pictures.

map           recordings that training did not see: receivers, truth, prediction and 68% ellipse
errors        error by GDOP and by signal-to-noise ratio, the distribution of errors, calibration
training      losses, and utilisation, power, memory and stalls over the run
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ..core.base.arguments import check_type
from ..core.declare.pictures import BLUE, RED, add_legends, figure_of
from ..core.declare.report import Report
from .data.features import DETECTED, SNR
from .evaluation.compare import Comparison
from .evaluation.ellipse import outline
from .evaluation.metrics import ELLIPSE, calibration_curve, score
from .result import HeldOut, LocateResult

_GRAY, _GREEN = "#8a8a8a", "#4b8f5a"
_CAPTIONS = {
    "training": "Losses, and how the device was used, over the training",
    "map": "Held-out recordings from the best to the worst, with where the transmitter was and was found",
    "errors": "Errors of held-out recordings beside those of other methods, and whether the model knows them",
}
_MAPS = 6  # recordings that are drawn
_BINS = 10
_COLORS = {"network": BLUE, "posterior": _GREEN, "least squares": RED}


def report(result: LocateResult, comparison: Comparison | None = None) -> Report:
    """The summary as metrics, the history as a table, and three pictures.

    Args:
        comparison: with the judges, on the result's held-out recordings: then they are drawn too.
    """
    check_type(result, LocateResult, "give what locate.train or locate.load returned")
    metrics = result.summary() | ({} if comparison is None else {"comparison": comparison.values()})
    pictures = {"training": functools.partial(_training, result)}
    if len(result.held_out):
        pictures["map"] = functools.partial(_map, result)
        pictures["errors"] = functools.partial(_errors, result, comparison)
    return Report(metrics, {"history": pa.Table.from_pylist(list(result.history))}, pictures, _CAPTIONS)


def _map(result: LocateResult) -> Any:
    held_out, figure = result.held_out, figure_of(15, 10)
    for axes, index in zip(figure.subplots(2, 3).flat, _spread_out(held_out), strict=False):
        _recording(axes, result, int(index))
    add_legends(figure, f"{len(held_out):,} held-out recordings, some of them from the best to the worst")
    for axes in figure.axes[1:]:  # they are all of one kind
        if (legend := axes.get_legend()) is not None:
            legend.remove()
    return figure


def _spread_out(held_out: HeldOut) -> np.ndarray:
    """Recordings from those with the least error to those with the greatest, at equal distances among all."""
    order = np.argsort(held_out.error.square().sum(1).numpy())
    places = np.linspace(0.02, 0.98, min(_MAPS, len(order))) * (len(order) - 1)
    return order[places.round().astype(int)]


def _recording(axes: Any, result: LocateResult, index: int) -> None:
    held_out = result.held_out
    mask = held_out.mask[index].bool()
    receivers = result.scaling.receivers(held_out.features[index])[mask].numpy() / 1e3
    detected = (held_out.features[index, :, DETECTED] > 0.5)[mask].numpy()
    truth, position = held_out.truth[index].numpy() / 1e3, held_out.position[index].numpy() / 1e3
    line = outline(held_out.covariance[index]).numpy() / 1e3 + position
    axes.scatter(*receivers[detected].T, marker="^", color="#222222", s=36, label="detected it")
    axes.scatter(
        *receivers[~detected].T, marker="^", facecolors="none", edgecolors=_GRAY, s=36, label="detected nothing"
    )
    axes.plot(*line.T, color=BLUE, lw=1.2, label="68% ellipse")
    axes.fill(*line.T, color=BLUE, alpha=0.08)
    axes.plot(*position, "o", color=BLUE, ms=5, label="predicted")
    axes.plot(*truth, "*", color=RED, ms=11, label="truth")
    latitude, longitude = held_out.centroid[index].tolist()
    error = float(held_out.error[index].double().norm()) / 1e3
    axes.set(
        title=f"error {error:.1f} km, GDOP {float(held_out.gdop[index]):.2f}",
        xlabel=f"km east of {longitude:.2f}°",
        ylabel=f"km north of {latitude:.2f}°",
    )
    axes.set_aspect("equal", adjustable="datalim")


def _errors(result: LocateResult, comparison: Comparison | None) -> Any:
    figure = figure_of(13, 10)
    (by_gdop, by_snr), (distribution, calibration) = figure.subplots(2, 2)
    held_out = result.held_out
    errors, covariances = {"network": held_out.error}, {"network": held_out.covariance}
    if comparison is not None and all(len(error) == len(held_out) for error in comparison.errors.values()):
        errors, covariances = comparison.errors, comparison.covariances
    _by(by_gdop, held_out.gdop.double(), errors, "GDOP")
    _by(by_snr, mean_snr(result, held_out), errors, "mean signal-to-noise ratio, dB")
    for name, error in errors.items():
        distance = np.sort(error.double().norm(dim=1).numpy()) / 1e3
        distribution.plot(distance, np.arange(1, len(distance) + 1) / len(distance), color=_color(name), label=name)
        shares, inside = calibration_curve(error, covariances[name])
        calibration.plot(shares, inside, ".-", color=_color(name), label=name)
    for share in (0.5, ELLIPSE, 0.95):
        distribution.axhline(share, color=_GRAY, lw=0.6, ls=":")
    distribution.set(title="errors", xlabel="km", ylabel="share of recordings", ylim=(0, 1), xlim=(0, None))
    calibration.plot([0, 1], [0, 1], color=_GRAY, lw=0.8, ls="--")
    calibration.axvline(ELLIPSE, color=_GRAY, lw=0.6, ls=":")
    calibration.set(
        title="calibration", xlabel="ellipse for this share", ylabel="truths inside it", xlim=(0, 1), ylim=(0, 1)
    )
    scores = score(held_out.error, held_out.covariance)
    return add_legends(
        figure,
        f"{scores.count:,} held-out recordings: RMSE {scores.rmse_m / 1e3:.2f} km, p50 {scores.p50_m / 1e3:.2f}, "
        f"p68 {scores.p68_m / 1e3:.2f}, p95 {scores.p95_m / 1e3:.2f}; {scores.coverage:.1%} inside the 68% ellipse",
    )


def _color(name: str) -> str:
    return _COLORS.get(name, _GRAY)


def mean_snr(result: LocateResult, held_out: HeldOut) -> Tensor:
    """(N,), over the receivers that detected the transmitter, in dB, from features."""
    detected = held_out.features[..., DETECTED] > 0.5
    low, high = result.scaling.snr_db
    snr = low + (high - low) * held_out.features[..., SNR].double()
    return torch.where(detected, snr, 0.0).sum(1) / detected.sum(1).clamp(min=1)


def _by(axes: Any, values: Tensor, errors: dict[str, Tensor], label: str) -> None:
    """The 68th percentile of the error in bins of equal numbers."""
    order = values.argsort().numpy()
    bins = [part for part in np.array_split(order, _BINS) if len(part)]
    middle = [float(values[torch.from_numpy(part)].median()) for part in bins]
    distances = {name: error.double().norm(dim=1).numpy() / 1e3 for name, error in errors.items()}
    axes.plot(values.numpy(), distances["network"], ".", color=BLUE, ms=2, alpha=0.15)
    for name, away in distances.items():
        curve = [np.quantile(away[part], ELLIPSE) for part in bins]
        axes.plot(middle, curve, "o-", color=_color(name), ms=4, label=name)
    axes.set_ylim(0, np.quantile(distances["network"], 0.98) or 1.0)
    axes.set(title=f"68th percentile of the error by {label}", xlabel=label, ylabel="km")


def _training(result: LocateResult) -> Any:
    figure = figure_of(13, 9)
    (loss, power), (use, stall) = figure.subplots(2, 2)
    history = result.history
    epochs = [row["epoch"] for row in history]
    for name, color in (("train_loss", _GRAY), ("valid_loss", BLUE)):
        loss.plot(epochs, [row.get(name) for row in history], color=color, label=name.replace("_", " "))
    loss.axvline(result.best_epoch + 1, color="#333333", lw=0.8, ls=":", label="best epoch")
    right = loss.twinx()
    right.plot(epochs, [row.get("valid_rmse_m", np.nan) / 1e3 for row in history], color=RED)
    right.set_ylabel("validation RMSE, km", color=RED)
    loss.set(title="training", xlabel="epoch", ylabel="negative log-likelihood")
    samples = result.device_use.samples
    _over_time(use, samples, 2, "utilisation, %", 100)
    if any(row[3] is not None for row in samples):
        _over_time(power, samples, 3, "power, W", 1)
    else:
        _over_time(power, samples, 1, "memory, MB", 1e-6)
    stall.plot(epochs, [100 * row["data_seconds"] / max(row["seconds"], 1e-9) for row in history], color=RED)
    stall.set(title="time without data, % of an epoch's steps", xlabel="epoch")
    stall.set_ylim(bottom=0)
    use_of = result.device_use
    return add_legends(
        figure, f"{use_of.steps_per_second:,.0f} steps per second, {use_of.stall_share:.1%} of the time without data"
    )


def _over_time(axes: Any, samples: Sequence[tuple[Any, ...]], column: int, title: str, factor: float) -> None:
    """What the driver or the system said at intervals."""
    values = [np.nan if row[column] is None else factor * row[column] for row in samples]
    known = bool(np.isfinite(values).any())
    axes.set(title=title if known else f"{title}: not known on this device", xlabel="seconds")
    axes.plot([row[0] for row in samples], values, color=BLUE)
    axes.set_ylim(bottom=0)
