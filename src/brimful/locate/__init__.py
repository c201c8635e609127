"""Where is the transmitter that several receivers hear? Positions with an honest uncertainty."""

from .data.files import Dataset, read, write
from .data.recordings import Recordings
from .data.synthetic import generate
from .physics.scenario import Scenario

__all__ = ["Dataset", "Recordings", "Scenario", "generate", "read", "write"]
