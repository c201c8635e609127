"""Ordinal knowledge tracing: what a student will answer next, from what was answered before (Deep-GPCM)."""

from .data.files import Dataset, read, read_folder
from .data.students import Students
from .data.synthetic import synthetic, synthetic_by_name, write
from .evaluation.metrics import OrdinalScores, score
from .model.deep_gpcm import DeepGPCM, DeepGPCMConfig
from .options import TrainConfig
from .report import report
from .result import CrossValidationResult, GPCMResult
from .store import load, save
from .training.learning_rate import find_lr
from .training.train import train

__all__ = [
    "CrossValidationResult",
    "Dataset",
    "DeepGPCM",
    "DeepGPCMConfig",
    "GPCMResult",
    "OrdinalScores",
    "Students",
    "TrainConfig",
    "find_lr",
    "load",
    "read",
    "read_folder",
    "report",
    "save",
    "score",
    "synthetic",
    "synthetic_by_name",
    "train",
    "write",
]
