"""Ordinal knowledge tracing: what a student will answer next, from what was answered before (Deep-GPCM)."""

from .data.files import Folder, read, read_folder
from .data.long_table import Columns
from .data.students import Students
from .data.synthetic import named, synthetic
from .evaluation.metrics import Scores, score
from .model.deep_gpcm import Config, DeepGPCM
from .options import Options
from .trained import Trained
from .training.cross_validation import Folds, load
from .training.train import train

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
