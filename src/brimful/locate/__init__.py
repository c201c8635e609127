"""Where is the transmitter that several receivers detect? Positions with an honest uncertainty."""

from .data.files import Dataset, read, write
from .data.recordings import Recordings
from .data.synthetic import generate
from .evaluate import evaluate
from .evaluation.compare import Comparison, compare
from .evaluation.metrics import LocationScores, score
from .model.networks import LocationNetwork, NetworkConfig
from .options import TrainConfig
from .physics.scenario import Scenario
from .report import report
from .result import LocateResult
from .store import load, save
from .training.train import train

__all__ = [
    "Comparison",
    "Dataset",
    "LocateResult",
    "LocationNetwork",
    "LocationScores",
    "NetworkConfig",
    "Recordings",
    "Scenario",
    "TrainConfig",
    "compare",
    "evaluate",
    "generate",
    "load",
    "read",
    "report",
    "save",
    "score",
    "train",
    "write",
]
