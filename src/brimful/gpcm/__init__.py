"""Ordinal knowledge tracing: what a student will answer next, from what was answered before (Deep-GPCM)."""

from .data import Folder, read, read_folder
from .folds import Folds, load
from .metrics import Scores, score
from .model import Config, DeepGPCM
from .options import Options
from .students import Students
from .synthetic import named, synthetic
from .table import Columns
from .train import train
from .trained import Trained

__all__ = [
    "Columns",
    "Config",
    "DeepGPCM",
    "Folder",
    "Folds",
    "Options",
    "Scores",
    "Students",
    "Trained",
    "load",
    "named",
    "read",
    "read_folder",
    "score",
    "synthetic",
    "train",
]
