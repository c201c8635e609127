"""The options of `locate.train` as typed keywords, for editors and type checkers; `options` declares them."""

from pathlib import Path

from ..core.memory.devices import DeviceLike
from ..engine.train.keywords import TrainOptionKeywords


class LocateKeywords(TrainOptionKeywords, total=False):
    """Those of `TrainConfig`."""

    out: str | Path | None
    device: DeviceLike
    seed: int
    network: str
    covariance: str
    dropout_rate: float
    width: int
    layers: int
    url: str | None
    min_snr_db: float
    max_gdop: float
    warmup_epochs: float
    validation_split: float
    test_split: float
    calibrate: bool
    num_workers: int
    accelerator: str
