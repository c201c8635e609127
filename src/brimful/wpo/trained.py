"""A trained model, to draw, to store, and to load again."""

from dataclasses import dataclass
from pathlib import Path

from .outcome import Outcome
from .report import draw
from .store import read, write


@dataclass(frozen=True, slots=True, eq=False)
class Trained(Outcome):
    """A trained model; its values are those of `Outcome`."""

    def report(self, folder: str | Path) -> list[Path]:
        """Draws the pictures into a folder."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        return draw(self, path)

    def save(self, folder: str | Path) -> Path:
        """Writes all of it, for `wpo.load` and the commands."""
        return write(Path(folder), self)


def load(folder: str | Path) -> Trained:
    """A trained model from the folder that `train` or `save` wrote; on the CPU."""
    return Trained(**read(Path(folder)))
