"""`brimful gp`: fit, predict and look at many Gaussian processes."""

from ..core.declare.config import ReportConfig
from ..core.declare.registry import Command, Workload
from .commands import plan, run_fit, run_predict, run_report
from .options import FitConfig, PredictConfig
from .result import load

WORKLOAD = Workload(
    name="gp",
    help="Many independent Gaussian processes: fitted exactly, to the optimum, by the million.",
    commands=(
        Command(
            name="fit",
            help="Fit one process to each task of a table, or to random tasks, and draw the result.",
            config=FitConfig,
            plan=plan,
            run=run_fit,
            job=True,
            stores=True,
        ),
        Command(
            name="predict",
            help="Predict with fitted models at new points, streamed from their folder.",
            config=PredictConfig,
            run=run_predict,
            job=True,
        ),
        Command(name="report", help="Summarise and draw fitted models.", config=ReportConfig, run=run_report),
    ),
    load=load,
)
