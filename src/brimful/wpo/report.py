"""The report of a trained model: samples beside data, density and score, training curves, memory, nearest neighbors."""

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ..core.base.arguments import check_type
from ..core.base.formatting import format_bytes
from ..core.declare.pictures import BLUE, RED, add_legends, figure_of
from ..core.declare.report import Report
from .result import WPOResult

_GRAY = "#555555"
_DATA = {"marker": "o", "ms": 4.5, "mfc": "none", "mec": BLUE, "mew": 0.8, "alpha": 0.75}
_SAMPLES = {"marker": "x", "ms": 3.5, "mec": RED, "mew": 0.9, "alpha": 0.75}
_COLUMNS = 6  # images in a row
_GRID = 120  # points of the density along each axis


def report(result: WPOResult) -> Report:
    """The report: the summary as metrics, the history as a table, and the picture `wpo`."""
    check_type(result, WPOResult, "give what wpo.train or wpo.load returned")
    history = pa.Table.from_pylist(list(result.history))
    return Report(
        result.summary(),
        {"history": history},
        {"wpo": functools.partial(_draw, result)},
        {"wpo": "Samples beside held-out data, the model, its training and its memory"},
    )


def _draw(result: WPOResult) -> Any:
    figure = figure_of(17, 8.8)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    (samples, *panels), (losses, likelihood, memory, distances) = figure.subplots(2, 4)
    rows, d = result.report_samples, result.model.d
    data_nd, samples_nd = _principal_components(rows.held_out_nd, rows.samples_nd)
    _draw_columns(samples, data_nd, samples_nd, 0, 1)
    samples.set_title("held-out data and samples" + (", first two principal components" if d > 2 else ""))
    if d > 2:
        samples.set(xlabel="first component", ylabel="second component")
    if result.image_shape is not None:
        images = {
            "held-out data": rows.held_out_nd,
            "samples": rows.samples_nd,
            "training image or center nearest to each sample": rows.nearest_id,
        }
        for panel, (title, images_nd) in zip(panels, images.items(), strict=True):
            _draw_images(panel, images_nd, result.image_shape, title)
    elif d == 2 and len(rows.held_out_nd):
        low, high = _limits(rows.held_out_nd)
        _draw_density(panels[0], result, low, high)
        _draw_score(panels[1], result, low, high, 0.0)
        _draw_score(panels[2], result, low, high, float(((high - low).max() / 8) ** 2) / result.model.config.beta**2)
    else:
        for index, panel in enumerate(panels):
            if index + 1 < d:
                _draw_columns(panel, rows.held_out_nd, rows.samples_nd, index, index + 1)
            else:
                panel.set_axis_off()
    _draw_losses(losses, likelihood, result)
    _draw_memory(memory, result)
    ratio = result.scores.neighbor_distance_ratio
    distances.set_title(f"distance to the nearest known row (ratio {ratio:.2f})")  # small where samples are memorized
    _draw_histograms(distances, rows.held_out_distance_n, rows.sample_distance_n)
    distances.set(xlabel="distance", ylabel="density")
    for axes in figure.axes:
        axes.title.set_fontsize(10)  # panels are narrow
    title = f"{len(result.model.standardized_Kd)} centers of {d} dimensions: {result.scores}"
    return add_legends(figure, f"{result.settings.get('data', 'wpo')}: {title}")


def _principal_components(data_nd: Tensor, samples_nd: Tensor) -> tuple[Tensor, Tensor]:
    """Data and samples in the plane of the data's first two principal components, where there are more."""
    data_nd, samples_nd = data_nd.double(), samples_nd.double()
    if data_nd.shape[1] <= 2 or not len(data_nd):
        return data_nd, samples_nd
    mean_d = data_nd.mean(0)
    components_d2 = torch.linalg.svd(data_nd - mean_d, full_matrices=False).Vh[:2].mT
    return (data_nd - mean_d) @ components_d2, (samples_nd - mean_d) @ components_d2


def _draw_columns(axes: Any, data_nd: Tensor, samples_nd: Tensor, first: int, second: int) -> None:
    """Two columns of data and samples, or the histogram of the only one."""
    axes.set_title(f"columns {first} and {second}")
    if data_nd.shape[1] == 1:
        _draw_histograms(axes, data_nd[:, 0], samples_nd[:, 0])
        axes.set(xlabel="column 0", ylabel="density")
    elif len(data_nd):
        for rows_nd, name, marker in ((data_nd, "held-out data", _DATA), (samples_nd, "samples", _SAMPLES)):
            axes.plot(*rows_nd[:, [first, second]].mT.numpy(), ls="", label=name, **marker)
        low, high = _limits(data_nd[:, [first, second]])
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=f"column {first}", ylabel=f"column {second}")


def _draw_histograms(axes: Any, data_n: Tensor, samples_n: Tensor) -> None:
    if len(data_n):
        values = torch.cat((data_n, samples_n)).double()
        edges = np.linspace(float(values.min()), float(values.quantile(0.99)), 50)
        for numbers, color, name in ((data_n, _GRAY, "held-out data"), (samples_n, RED, "samples")):
            axes.hist(numbers.numpy(), edges, density=True, histtype="step", color=color, label=name)


def _limits(rows_nd: Tensor) -> tuple[np.ndarray, np.ndarray]:
    rows = rows_nd.double().numpy()
    low, high = rows.min(0), rows.max(0)
    margin = 0.1 * np.maximum(high - low, 1e-12)
    return low - margin, high + margin


def _grid(low: np.ndarray, high: np.ndarray, points: int) -> np.ndarray:
    x, y = (np.linspace(low[axis], high[axis], points) for axis in range(2))
    return np.stack(np.meshgrid(x, y), axis=-1)


@torch.no_grad()
def _draw_density(axes: Any, result: WPOResult, low: np.ndarray, high: np.ndarray) -> None:
    points = _grid(low, high, _GRID)
    density = result.model.log_prob(points.reshape(-1, 2)).double().exp().cpu().numpy()
    axes.pcolormesh(*np.moveaxis(points, -1, 0), density.reshape(_GRID, _GRID), cmap="magma", rasterized=True)
    axes.set_title("density")
    _set_plane(axes, low, high)


@torch.no_grad()
def _draw_score(axes: Any, result: WPOResult, low: np.ndarray, high: np.ndarray, t: float) -> None:
    points = _grid(low, high, 24).reshape(-1, 2)
    s = result.model.score(points, t).double().cpu().numpy()
    norm = np.linalg.norm(s, axis=1)
    arrows = s / np.maximum(norm, 1e-12)[:, None] * np.sqrt(norm / max(norm.max(), 1e-12))[:, None]
    axes.quiver(*points.T, *arrows.T, norm, cmap="viridis", scale=22, width=0.004)
    title = ("score" if t == 0 else f"score at t = {t:.2g}") + ", arrows of length √norm"
    axes.set_title(title)
    _set_plane(axes, low, high)


def _set_plane(axes: Any, low: np.ndarray, high: np.ndarray) -> None:
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="column 0", ylabel="column 1")


def _draw_images(axes: Any, rows_nd: Tensor, image_shape: tuple[int, int, int], title: str) -> None:
    axes.set_axis_off()
    axes.set_title(title)
    images = rows_nd[: 4 * _COLUMNS].float().reshape(-1, *image_shape).clamp(0, 1)
    if len(images):
        gray = image_shape[0] == 1
        white = 0.0 if gray else 1.0
        images = torch.cat((images, images.new_full((-len(images) % _COLUMNS, *image_shape), white)))
        tiles = torch.nn.functional.pad(images, (1, 1, 1, 1), value=white).unflatten(0, (-1, _COLUMNS))
        sheet = tiles.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1).squeeze(-1)
        axes.imshow(sheet.numpy(), cmap="gray_r" if gray else None, vmin=0, vmax=1, interpolation="nearest")


def _draw_losses(losses: Any, likelihood: Any, result: WPOResult) -> None:
    curve, steps = result.curve, [row["step"] for row in result.history]
    losses.set(title="loss, in standardized units", xlabel="step", ylabel="loss")
    likelihood.set(title="log-likelihood of held-out rows", xlabel="step", ylabel="mean per row, nats")
    if len(curve):
        losses.plot(range(1, len(curve) + 1), curve[:, 0], color=BLUE, alpha=0.25, lw=0.7)
        low, high = np.nanquantile(curve[:, 0], (0.01, 0.99))
        losses.set_ylim(low - 0.2 * (high - low + 1e-9), high + 0.3 * (high - low + 1e-9))
    panels = {"train_loss": (losses, BLUE), "valid_loss": (losses, RED), "log_likelihood": (likelihood, RED)}
    for name, (axes, color) in panels.items():
        axes.plot(steps, [row.get(name) for row in result.history], color=color, marker=".", ms=3, label=name)
    likelihood.axvline(steps[result.best_epoch], color="#999999", lw=0.8, ls=":")


def _draw_memory(axes: Any, result: WPOResult) -> None:
    """The parts of the chosen strategy beside the predicted and the observed peak."""
    colors = ("#264653", "#e9c46a", "#f4a261", "#2a9d8f", "#287271", "#8ab17d", "#6d597a", "#e76f51")
    bottom = 0.0
    for (name, size), color in zip(result.plan.parts, colors, strict=False):
        axes.bar(0, size / 1e6, bottom=bottom, color=color, label=name)
        bottom += size / 1e6
    for x, (size, color) in enumerate(((result.predicted, BLUE), (result.observed, RED)), 1):
        axes.bar(x, size / 1e6, color=color)
        axes.annotate(format_bytes(size), (x, size / 1e6), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(3), ("by part", "predicted", "observed"), fontsize=8)
    axes.set_xlim(-0.6, 4.6)  # with room for the names of the parts
    axes.set(title=f"peak memory: {result.plan.strategy}, chunks of {result.plan.batch}", ylabel="MB")
