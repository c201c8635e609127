"""The picture of a trained model: draws beside data, density and score, how it learned, memory, nearest neighbours."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.base.units import format_bytes
from ..core.declare.pictures import BLUE, RED, figure_of, save
from .outcome import Outcome

FILE = "wpo.png"
_ACROSS = 6  # images of a row
_POINTS = 120  # of the density, along each axis


def draw(trained: Outcome, folder: Path) -> list[Path]:
    """Draws into a folder; the path of the picture."""
    figure = figure_of(17, 8.4)
    axes = figure.subplots(2, 4)
    _beside(axes[0, 0], trained)
    if trained.image is not None:
        _images(axes[0, 1], trained, trained.shown.data_nd, "held-out data")
        _images(axes[0, 2], trained, trained.shown.drawn_nd, "draws")
        _images(axes[0, 3], trained, trained.shown.nearest_id, "the nearest training image or center of each draw")
    elif trained.model.d == 2 and len(trained.shown.data_nd):
        low, high = _window(trained.shown.data_nd)
        _density(axes[0, 1], trained, low, high)
        _score(axes[0, 2], trained, low, high, 0.0)
        _score(axes[0, 3], trained, low, high, float(((high - low).max() / 8) ** 2) / trained.model.config.beta**2)
    else:
        for place, (one, other) in enumerate(((0, 1), (1, 2), (2, 3)), 1):
            _pair(axes[0, place], trained, one, other)
    _losses(axes[1, 0], trained)
    _likelihood(axes[1, 1], trained)
    _memory(axes[1, 2], trained)
    _neighbours(axes[1, 3], trained)
    figure.suptitle(f"{trained.settings.get('data', 'wpo')}: {trained}", fontsize=11)
    return [save(figure, folder / FILE)]


def _beside(axes: Any, trained: Outcome) -> None:
    """Both in the plane in which the data spreads most."""
    data, drawn = trained.shown.data_nd.double(), trained.shown.drawn_nd.double()
    d = trained.model.d
    axes.set_title("held-out data and draws" + (", where data spreads most" if d > 2 else ""))
    if not len(data):
        return
    if d == 1:
        edges = np.histogram_bin_edges(torch.cat((data, drawn))[:, 0].numpy(), 60)
        for rows, color, name in ((data, "#555555", "data"), (drawn, RED, "draws")):
            axes.hist(rows[:, 0].numpy(), edges, density=True, histtype="step", color=color, label=name)
    else:
        if d > 2:
            middle = data.mean(0)
            plane = torch.linalg.svd(data - middle, full_matrices=False).Vh[:2].mT
            data, drawn = (data - middle) @ plane, (drawn - middle) @ plane
        axes.plot(*data.mT.numpy(), ".", color="#555555", ms=2, alpha=0.6, label="data")
        axes.plot(*drawn.mT.numpy(), ".", color=RED, ms=2, alpha=0.6, label="draws")
        low, high = _window(data)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.legend(frameon=False, fontsize=8, markerscale=4)


def _window(rows_nd: Tensor) -> tuple[np.ndarray, np.ndarray]:
    rows = rows_nd.double().numpy()
    low, high = rows.min(0), rows.max(0)
    wide = 0.1 * np.maximum(high - low, 1e-12)
    return low - wide, high + wide


def _grid(low: np.ndarray, high: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    across, up = (np.linspace(low[axis], high[axis], points) for axis in range(2))
    both = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    return across, up, both


def _density(axes: Any, trained: Outcome, low: np.ndarray, high: np.ndarray) -> None:
    across, up, both = _grid(low, high, _POINTS)
    with torch.no_grad():
        found = trained.model.log_prob(both).double().exp().cpu().numpy()
    axes.pcolormesh(across, up, found.reshape(_POINTS, _POINTS), cmap="magma", shading="auto", rasterized=True)
    axes.set(title="density", xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def _score(axes: Any, trained: Outcome, low: np.ndarray, high: np.ndarray, t: float) -> None:
    both = _grid(low, high, 24)[2]
    with torch.no_grad():
        s = trained.model.score(both, t).double().cpu().numpy()
    length = np.linalg.norm(s, axis=1)
    shown = s / np.maximum(length, 1e-12)[:, None] * np.sqrt(length / max(length.max(), 1e-12))[:, None]
    axes.quiver(both[:, 0], both[:, 1], shown[:, 0], shown[:, 1], length, cmap="viridis", scale=22, width=0.004)
    what = "score" if t == 0 else f"score at t = {t:.2g}"
    axes.set(title=f"{what} (length: its root)", xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def _pair(axes: Any, trained: Outcome, one: int, other: int) -> None:
    d = trained.model.d
    if other >= d or not len(trained.shown.data_nd):
        axes.set_axis_off()
        return
    for rows, color in ((trained.shown.data_nd, "#555555"), (trained.shown.drawn_nd, RED)):
        axes.plot(rows[:, one].numpy(), rows[:, other].numpy(), ".", color=color, ms=2, alpha=0.5)
    low, high = _window(trained.shown.data_nd[:, [one, other]])
    axes.set(title=f"columns {one} and {other}", xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def _images(axes: Any, trained: Outcome, rows_nd: Tensor, title: str) -> None:
    axes.set_axis_off()
    axes.set_title(title, fontsize=10)
    assert trained.image is not None
    colours, height, width = trained.image
    rows = rows_nd[: 4 * _ACROSS].float().reshape(-1, colours, height, width).clamp(0, 1)
    if not len(rows):
        return
    missing = -len(rows) % _ACROSS
    white = 0.0 if colours == 1 else 1.0
    rows = torch.cat((rows, rows.new_full((missing, colours, height, width), white)))
    tiles = torch.nn.functional.pad(rows, (1, 1, 1, 1), value=white).unflatten(0, (-1, _ACROSS))
    sheet = tiles.permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
    picture = sheet[0].numpy() if colours == 1 else sheet.permute(1, 2, 0).numpy()
    axes.imshow(picture, cmap="gray_r" if colours == 1 else None, vmin=0, vmax=1, interpolation="nearest")


def _losses(axes: Any, trained: Outcome) -> None:
    curve, history = trained.curve, trained.history
    axes.set(title="loss, in the model's units", xlabel="step")
    ends = [row["step"] for row in history]
    if len(curve):
        axes.plot(range(1, len(curve) + 1), curve[:, 0], color=BLUE, alpha=0.25, lw=0.7)
        low, high = np.nanquantile(curve[:, 0], (0.01, 0.99))
        axes.set_ylim(low - 0.2 * (high - low + 1e-9), high + 0.3 * (high - low + 1e-9))
    for name, color in (("train_loss", BLUE), ("valid_loss", RED)):
        axes.plot(ends, [row.get(name) for row in history], color=color, marker=".", ms=3, label=name)
    axes.legend(frameon=False, fontsize=8)


def _likelihood(axes: Any, trained: Outcome) -> None:
    history = trained.history
    ends = [row["step"] for row in history]
    axes.plot(ends, [row.get("log_likelihood") for row in history], color=RED, marker=".", ms=3)
    if history:
        axes.axvline(ends[trained.best], color="#999999", lw=0.8, ls=":")
    axes.set(title="log-likelihood of held-out rows", xlabel="step")


def _memory(axes: Any, trained: Outcome) -> None:
    """The parts of the chosen strategy beside what was planned and seen."""
    row, bottom = trained.table.row, 0.0
    names = ("weights", "centers", "factors", "gradients", "optimizer", "activations")
    colors = ("#264653", "#2a9d8f", "#8ab17d", "#e9c46a", "#f4a261", "#e76f51")
    for name, color in zip(names, colors, strict=True):
        value = getattr(row, name) / 1e6
        axes.bar(0, value, bottom=bottom, color=color, label=name)
        bottom += value
    for place, value in enumerate((trained.predicted, trained.observed), 1):
        axes.bar(place, value / 1e6, color=(BLUE, RED)[place - 1])
        axes.annotate(format_bytes(value), (place, value / 1e6), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(3), ("the table", "predicted", "observed"))
    axes.set(title=f"memory, MB: {row.strategy}, chunks of {row.chunk}")
    axes.legend(frameon=False, fontsize=7)


def _neighbours(axes: Any, trained: Outcome) -> None:
    """A model that memorises draws nearer to what it has seen than new data is."""
    own, fresh = trained.shown.drawn_distance_n.numpy(), trained.shown.held_out_distance_n.numpy()
    axes.set(title=f"distance to the nearest known row (ratio {trained.scores.neighbours:.2f})")
    if not len(own):
        return
    edges = np.linspace(0, float(np.quantile(np.concatenate((own, fresh)), 0.99)) or 1.0, 50)
    for values, color, name in ((fresh, "#555555", "held-out data"), (own, RED, "draws")):
        axes.hist(values, edges, density=True, histtype="step", color=color, label=name)
    axes.legend(frameon=False, fontsize=8)
