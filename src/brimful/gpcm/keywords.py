"""The options of `gpcm.train` as typed keywords, for editors and type checkers; `options` declares them."""

from pathlib import Path

from ..engine.train.keywords import TrainOptionKeywords


class OneModelKeywords(TrainOptionKeywords, total=False):
    """Those of `TrainConfig` that do not decide how many models there are."""

    out: str | Path | None
    seed: int
    ties: str
    missing: str
    student: str | None
    order: str | None
    question: str | None
    response: str | None
    slots: int
    key_size: int
    value_size: int
    hidden: int
    dropout: float
    unknown: float
    embedding: str
    alpha: str
    alpha_of: str
    beta: str
    theta_scale: float
    model: str
    use_parallel: bool
    bucket: int
    ranks: int | None
    num_workers: int
    jobs: int | None
    valid_fraction: float
    test_fraction: float
    segment_length: int
    loss: str
    gamma: float
    predict_by: str
    monitor: str
    best: bool
    int8: bool
    categories: int | None
    partial_credit: bool


class GPCMKeywords(OneModelKeywords, total=False):
    """Those of `TrainConfig`."""

    n_folds: int
