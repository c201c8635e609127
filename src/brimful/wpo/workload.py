"""`brimful wpo`: train score models, sample from them, and report on them."""

from ..core.declare.config import ReportConfig
from ..core.declare.registry import Command, Workload
from .commands import plan_train, report_model, sample_model, train_model
from .options import SampleConfig, TrainConfig
from .store import load

WORKLOAD = Workload(
    name="wpo",
    help="Score models: mixtures with learned precision matrices, of any number of centers.",
    commands=(
        Command(
            name="train",
            help="Train a score model by implicit score matching, inside a memory budget, and report on it.",
            config=TrainConfig,
            plan=plan_train,
            run=train_model,
            job=True,
            stores=True,
        ),
        Command(name="sample", help="Sample from a trained model.", config=SampleConfig, run=sample_model, job=True),
        Command(name="report", help="Report on a trained model.", config=ReportConfig, run=report_model),
    ),
    load=load,
)
