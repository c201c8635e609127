"""Where is the transmitter that several receivers hear? Positions with an honest uncertainty."""

from .data.files import Dataset, read, write
from .data.recordings import Recordings
from .data.synthetic import generate
from .evaluation.metrics import LocationScores, score
from .model.networks import LocationNetwork, NetworkConfig
from .options import TrainConfig
from .physics.scenario import Scenario
from .result import LocateResult
from .store import load, save
from .training.train import train

__all__ = [
    "Dataset",
    "LocateResult",
    "LocationNetwork",
    "LocationScores",
    "NetworkConfig",
    "Recordings",
    "Scenario",
    "TrainConfig",
    "generate",
    "load",
    "read",
    "save",
    "score",
    "train",
    "write",
]
