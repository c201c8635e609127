"""Score models: mixtures around fixed centers, their precision matrices made by a network, trained by their score."""

from .datasets import Data, dataset
from .measures import nearest, neighbours, sliced_wasserstein
from .model import ScoreModel
from .scores import Scores
from .toys import toy
from .train import train
from .trained import Trained, load

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
