"""`brimful gpcm`: train models of what students know, predict with them, and report on them."""

from ..core.declare.config import ReportConfig
from ..core.declare.registry import Command, Workload
from .commands import plan_train, predict_answers, report_model, train_model
from .options import PredictConfig, TrainConfig
from .store import load

WORKLOAD = Workload(
    name="gpcm",
    help="Ordinal knowledge tracing (Deep-GPCM): what students will answer, and what they know.",
    commands=(
        Command(
            name="train",
            help="Train on some students and test on others, or by cross-validation, and report on the result.",
            config=TrainConfig,
            plan=plan_train,
            run=train_model,
            job=True,
            stores=True,
        ),
        Command(
            name="predict",
            help="Predict each answer of new students from those before it, or the next one.",
            config=PredictConfig,
            run=predict_answers,
            job=True,
        ),
        Command(name="report", help="Report on a trained model.", config=ReportConfig, run=report_model),
    ),
    load=load,
)
