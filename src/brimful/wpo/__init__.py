"""Score models: mixtures around fixed centers, their precision matrices made by a network, trained by their score."""

from .data.datasets import Data, dataset
from .data.toys import toy
from .evaluation.sample_quality import nearest, neighbours, sliced_wasserstein
from .evaluation.scores import Scores
from .model.score_model import ScoreModel
from .trained import Trained, load
from .training.train import train

__all__ = [
    "Data",
    "ScoreModel",
    "Scores",
    "Trained",
    "dataset",
    "load",
    "nearest",
    "neighbours",
    "sliced_wasserstein",
    "toy",
    "train",
]
