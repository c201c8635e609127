"""`brimful locate`: the registration."""

from ..core.declare.config import ReportConfig
from ..core.declare.registry import Command, Workload
from .commands import (
    check_datasets,
    evaluate_model,
    generate_recordings,
    import_recordings,
    plan_train,
    predict_positions,
    report_model,
    train_model,
)
from .options import EvaluateConfig, GenerateConfig, ImportConfig, PredictConfig, TrainConfig
from .store import load

WORKLOAD = Workload(
    name="locate",
    help="Where a transmitter is that several receivers detect, with an honest uncertainty.",
    commands=(
        Command(
            name="generate",
            help="Simulate recordings of transmitters by several receivers.",
            config=GenerateConfig,
            run=generate_recordings,
            job=True,
        ),
        Command(
            name="import",
            help="Import your own recordings into the database.",
            config=ImportConfig,
            run=import_recordings,
            job=True,
        ),
        Command(
            name="train",
            help="Train a network on recordings, measure it on others, and report on it.",
            config=TrainConfig,
            plan=plan_train,
            run=train_model,
            check=check_datasets,
            job=True,
            stores=True,
        ),
        Command(
            name="evaluate",
            help="Judge a network beside weighted least squares, the grid posterior and the Cramér-Rao bound.",
            config=EvaluateConfig,
            run=evaluate_model,
            check=check_datasets,
            job=True,
        ),
        Command(
            name="predict",
            help="Locate the transmitters of recordings.",
            config=PredictConfig,
            run=predict_positions,
            job=True,
        ),
        Command(name="report", help="Report on a trained network.", config=ReportConfig, run=report_model),
    ),
    load=load,
)
