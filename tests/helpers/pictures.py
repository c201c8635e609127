"""Pictures that are made as ever, and written blank: to render one takes seconds.

A test of what is rendered has the fixture `rendered_pictures`.
"""

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np


def save_blank(figure: Any, path: Path, caption: str = "") -> Path:
    """In place of `core.declare.pictures.save`."""
    width, height = (110 * figure.get_size_inches()).astype(int)
    matplotlib.image.imsave(path, np.ones((height, width, 3)), format="png")
    return path


def is_picture(path: str | Path) -> bool:
    """Whether a file is a large picture."""
    pixels = matplotlib.image.imread(path)
    return Path(path).suffix == ".png" and pixels.shape[0] > 800 and pixels.shape[1] > 1200


def is_rendered(path: str | Path, colors: int = 50) -> bool:
    """Whether a file is a large picture that shows something, in so many colors."""
    pixels = matplotlib.image.imread(path)
    seen = len(np.unique(pixels[::5, ::5].reshape(-1, pixels.shape[2]), axis=0))
    return is_picture(path) and seen > colors
