"""Fill in the missing pixels of 1,797 handwritten digits: one Gaussian process an image, over the places of its pixels.

The images come with scikit-learn. Three pixels in ten are hidden; each image is a task of its own, with its own
lengthscales and noise, and the hidden pixels are missing values.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from brimful import gp
from brimful.workloads import pictures


def main(folder: str | Path = ".", images: int = 1797) -> dict[str, float]:
    pixels = np.asarray(load_digits(return_X_y=True)[0])[:images]
    hidden = np.random.default_rng(0).random(pixels.shape) < 0.3
    seen = np.where(hidden, np.nan, pixels)
    places = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0), indexing="ij"), axis=-1).reshape(64, 2)
    fit = gp.fit(places, seen, kernel="matern52", ard=True)
    mean, variance = fit.predict(places, noise=True)
    typical = np.broadcast_to(np.nanmean(seen, axis=0), pixels.shape)  # what that pixel is in the other images
    errors = {
        "process": float(np.abs(mean - pixels)[hidden].mean()),
        "typical image": float(np.abs(typical - pixels)[hidden].mean()),
        "inside two deviations": float((np.abs(mean - pixels) < 2 * np.sqrt(variance))[hidden].mean()),
    }
    print(fit)
    for name, value in errors.items():
        print(f"{name}: {value:.3f}")
    print(draw(Path(folder) / "digits.png", seen, mean, pixels))
    return errors


def draw(path: Path, seen: np.ndarray, mean: np.ndarray, pixels: np.ndarray) -> Path:
    """Ten images in three rows: what was seen, what was filled in, and what was there."""
    figure = pictures.figure_of(12, 4)
    axes = figure.subplots(3, 10)
    filled = np.where(np.isnan(seen), mean, seen)
    for row, (name, values) in enumerate((("seen", seen), ("filled in", filled), ("there", pixels))):
        for column in range(10):
            place = axes[row, column]
            place.imshow(values[column % len(values)].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
            place.set(xticks=[], yticks=[], facecolor="#b6533b")
        axes[row, 0].set_ylabel(name)
    return pictures.save(figure, path)


if __name__ == "__main__":
    main()
