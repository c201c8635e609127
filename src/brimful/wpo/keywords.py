"""The options of `wpo.train` as typed keywords, for editors and type checkers; `options` declares them."""

from ..engine.train.keywords import TrainOptionKeywords


class ScoreTrainKeywords(TrainOptionKeywords, total=False):
    """Those of `ScoreTrainOptions`."""

    strategy: str
    chunk_size: int | None
    ranks: int | None
    objective: str
    monitor: str
    best: bool
    calibrate: bool
    add_training_points: bool
