"""`brimful nets`: the registration."""

from ..core.declare.registry import Command, Workload
from .commands import plan_train, train
from .options import TrainConfig

WORKLOAD = Workload(
    name="nets",
    help="Thousands of tiny networks trained side by side: a map of where training converges.",
    commands=(
        Command(
            name="train",
            help="Train one network for each pair of learning rates, and draw where training converges.",
            config=TrainConfig,
            plan=plan_train,
            run=train,
            job=True,
        ),
    ),
)
