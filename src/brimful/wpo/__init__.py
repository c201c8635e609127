"""Score models: mixtures around fixed centers, their precision matrices given by a network, trained by their score."""

from .data.datasets import DataSplits, dataset
from .data.toys import toy
from .evaluation.scores import Scores, memorization, nearest_neighbors, sliced_wasserstein
from .model.score_model import ScoreModel
from .report import report
from .result import WPOResult
from .store import load, save
from .training.learning_rate import find_lr
from .training.train import plan_train, train

__all__ = [
    "DataSplits",
    "ScoreModel",
    "Scores",
    "WPOResult",
    "dataset",
    "find_lr",
    "load",
    "memorization",
    "nearest_neighbors",
    "plan_train",
    "report",
    "save",
    "sliced_wasserstein",
    "toy",
    "train",
]
