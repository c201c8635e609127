"""`brimful locate`: the registration."""

from ..core.declare.registry import Command, Workload
from .commands import generate_recordings
from .options import GenerateConfig

WORKLOAD = Workload(
    name="locate",
    help="Where a transmitter is that several receivers hear, with an honest uncertainty.",
    commands=(
        Command(
            name="generate",
            help="Simulate recordings of transmitters by several receivers.",
            config=GenerateConfig,
            run=generate_recordings,
            job=True,
        ),
    ),
)
