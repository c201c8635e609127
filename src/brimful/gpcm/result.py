"""What `gpcm.train` gives back, and `gpcm.load`: a trained model with its vocabulary and metrics, or several by
cross-validation.

Legend: B students, Q questions, K categories.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.base.errors import InputError
from ..core.base.formatting import format_table, plural
from ..core.declare.result import Result
from ..core.declare.summary_text import html_table
from .data import files
from .data.students import Students
from .data.true_parameters import TrueParameters
from .evaluation.inference import (
    Knowledge,
    Predictions,
    columns,
    knowledge_state,
    predict_after,
    predict_next,
    probability_columns,
)
from .evaluation.item_parameters import ItemParameters
from .evaluation.metrics import OrdinalScores
from .evaluation.parameter_recovery import Recovery
from .model.deep_gpcm import DeepGPCM
from .model.quantize import QuantizedGPCM
from .options import MONITORS


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GPCMResult(Result):
    """A trained model.

    Attributes:
        model: with the weights of the best epoch on the validation students.
        vocabulary: students without steps, which carry the questions and categories.
        items: the parameters of the questions, estimated on the training students.
        held_out: the students that training did not see, with the predictions of their answers.
        scores: the metrics of these predictions.
        history: one dict per epoch (`epoch` is from 1): losses, and metrics on the validation students.
        best_epoch: index in the history of the epoch that was chosen, by the validation students alone.
        settings: the options of the training.
        plan, observed, seconds: of the training; peak bytes.
        recovery: for synthetic data, how well its parameters were recovered.
        true_parameters: those of synthetic data.
        int8: the model with 8-bit weights, where it was asked for.
        int8_qwk_loss: the quadratic weighted kappa of the model less that of the 8-bit one, on the held-out students.
    """

    model: DeepGPCM
    vocabulary: Students
    items: ItemParameters
    held_out: Predictions
    scores: OrdinalScores
    history: Sequence[dict[str, Any]]
    best_epoch: int
    settings: dict[str, Any]
    recovery: Recovery | None = None
    true_parameters: TrueParameters | None = None
    int8: QuantizedGPCM | None = None
    int8_qwk_loss: float | None = None

    @property
    def predict_by(self) -> str:
        """How a category is predicted from probabilities, see `metrics.score`."""
        return self.settings["predict_by"]

    @property
    def best(self) -> "GPCMResult":
        """Itself; of a cross-validation, the best fold."""
        return self

    def read(self, source: Any, **options: Any) -> Students:
        """Students of a file or table, in the model's vocabulary. A question that training never asked is the unknown
        one, a category that the model does not have is an error. Options are those of `gpcm.read`."""
        students = source if isinstance(source, Students) else files.read(source, like=self.vocabulary, **options)
        questions, categories = self.vocabulary.questions, self.vocabulary.categories
        if students.categories != categories or not np.array_equal(students.questions, questions):
            raise InputError(
                f"these students have a vocabulary of their own, of {len(students.questions)} questions and "
                f"{students.categories} categories; read them with read(...) of the result"
            )
        return students.mask_unseen(np.flatnonzero(self.items.count_Q))

    def predictions(self, source: Any, **options: Any) -> Predictions:
        """The prediction of each answer from those before it, as arrays."""
        return predict_next(self.model, self.read(source, **options))

    def predict(self, source: Any, **options: Any) -> pa.Table:
        """The prediction of each answer from those before it: one row per answer, in the order of the students.

        Returns:
            student, step (from 1), question, known (whether training asked it), response, predicted (the category),
            expected (the mean category), theta, alpha, beta_1, beta_2, ..., and p_0, p_1, ... of each category.
        """
        return self.predictions(source, **options).table(self.predict_by)

    def predict_question(self, source: Any, question: str, **options: Any) -> pa.Table:
        """What each student would answer to a question next: one row per student."""
        students = self.read(source, **options)
        number = np.flatnonzero(self.vocabulary.questions == str(question))
        if not len(number):
            raise InputError(
                f"the model has no question {question!r}; the vocabulary begins with "
                f"{', '.join(self.vocabulary.questions[:5].tolist())}"
            )
        p_BK = predict_after(self.model, students, int(number[0]))
        return pa.table(
            {
                "student": pa.array(students.ids.tolist(), pa.string()),
                "steps": students.lengths,
                "question": pa.array([str(question)] * len(students), pa.string()),
                **probability_columns(p_BK, self.predict_by),
            }
        )

    def knowledge(self, source: Any, student: str | int = 0, **options: Any) -> Knowledge:
        """What one student knows over time; the student by id, or by index."""
        students = self.read(source, **options)
        rows = np.flatnonzero(students.ids == student) if isinstance(student, str) else np.array([student])
        if not len(rows) or not 0 <= rows[0] < len(students):
            first = ", ".join(students.ids[:5].tolist())
            raise InputError(f"there is no student {student!r} among these {len(students)}, which begin with {first}")
        return knowledge_state(self.model, students.select(rows[:1]))

    def score(self, source: Any, **options: Any) -> OrdinalScores:
        """The metrics on other students."""
        return self.predictions(source, **options).scores(self.predict_by)

    def item_table(self) -> pa.Table:
        """The questions: how often training asked each, its discrimination and its thresholds."""
        names = pa.array(self.vocabulary.questions.tolist(), pa.string())
        beta = columns("beta", self.items.beta_QH, 1)
        return pa.table({"question": names, "asked": self.items.count_Q, "alpha": self.items.alpha_Q, **beta})

    def summary(self) -> dict[str, Any]:
        recovered = {} if self.recovery is None else {f"{n}_recovery": getattr(self.recovery, f"{n}_r") for n in _THREE}
        int8 = {} if self.int8 is None else {"int8_bytes": self.int8.bytes, "int8_qwk_loss": self.int8_qwk_loss}
        return {
            "dataset": self.settings["dataset"],
            "questions": self.model.config.questions,
            "categories": self.model.config.categories,
            "loss": self.settings["loss"],
            "predict_by": self.predict_by,
            "answers": self.scores.count,
            **metric_values(self.scores),
            "best_epoch": self.best_epoch + 1,
            "epochs": len(self.history),
            **{name: _number(value) for name, value in recovered.items()},
            **int8,
            **Result.summary(self),
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CrossValidationResult(Result):
    """The models of a cross-validation.

    Attributes:
        folds: one result per fold, with the metrics on its held-out students.
        test_scores: the metrics of each fold's model on the students of the test file, where there is one.
        jobs: how many were trained at the same time.
        seconds: of all, earlier parts of a run that was resumed among them.
    """

    folds: tuple[GPCMResult, ...]
    test_scores: tuple[OrdinalScores, ...] = ()
    jobs: int = 1

    @classmethod
    def of(
        cls,
        folds: tuple[GPCMResult, ...],
        test_scores: tuple[OrdinalScores, ...],
        jobs: int,
        seconds: float,
        compiling: float = 0.0,
    ) -> "CrossValidationResult":
        run = {"observed": max(fold.observed for fold in folds), "seconds": seconds, "compiling": compiling}
        return cls(folds, test_scores, jobs, plan=folds[0].plan, **run)

    @property
    def scores(self) -> OrdinalScores:
        """The means over the folds; the count is of all answers."""
        return reduce_scores([fold.scores for fold in self.folds], np.mean)

    @property
    def deviation(self) -> OrdinalScores:
        """The standard deviation of each metric over the folds."""
        return reduce_scores([fold.scores for fold in self.folds], np.std)

    @property
    def test(self) -> OrdinalScores | None:
        """The means of the metrics on the test file's students."""
        scores = self.test_scores
        return replace(reduce_scores(scores, np.mean), count=scores[0].count) if scores else None

    @property
    def best_fold(self) -> int:
        """Index of the fold whose model was best on its own validation students."""
        name = self.folds[0].settings["monitor"]
        values = np.array([fold.history[fold.best_epoch].get(name, math.nan) for fold in self.folds])
        values = -values if MONITORS[name] == "min" else values
        return int(np.argmax(np.nan_to_num(values, nan=-np.inf)))

    @property
    def best(self) -> GPCMResult:
        """That fold; its model predicts."""
        return self.folds[self.best_fold]

    def summary(self) -> dict[str, Any]:
        own = {"best_fold": self.best_fold + 1, "parallel_folds": self.jobs, "folds": FoldTable(self)}
        metrics = {"answers": self.scores.count, **metric_values(self.scores)}
        return self.best.summary() | metrics | own | Result.summary(self)

    def __repr__(self) -> str:
        scores = ((name, getattr(self.scores, name), getattr(self.deviation, name)) for name in ("qwk", "accuracy"))
        means = ", ".join(f"{name}={mean:.4f} ± {deviation:.4f}" for name, mean, deviation in scores)
        sizes = f"{plural(len(self.folds), 'fold')}, {plural(self.scores.count, 'answer')}"
        return f"CrossValidationResult({sizes}, {means}, best fold {self.best_fold + 1})"

    def _repr_html_(self) -> str:
        header, rows = FoldTable(self).cells()
        return html_table(type(self).__name__, rows, header)


class FoldTable(dict):
    """The folds' metrics: rows for programs, a text table for people."""

    def __init__(self, result: CrossValidationResult) -> None:
        rows = {f"fold {number}": fold.scores for number, fold in enumerate(result.folds, 1)}
        rows |= {"mean": result.scores, "deviation": result.deviation}
        rows |= {} if result.test is None else {"test file": result.test}
        super().__init__({name: metric_values(scores) for name, scores in rows.items()})

    def cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the rows, as text, of the metrics that are defined."""
        names = [name for name, value in self["mean"].items() if value is not None]
        rows = [
            (row, *("" if values[name] is None else f"{values[name]:.4f}" for name in names))
            for row, values in self.items()
        ]
        return ("", *names), rows

    def __str__(self) -> str:
        header, rows = self.cells()
        return "\n" + format_table(rows, header=header, indent="    ")


_THREE = ("alpha", "beta", "theta")
METRICS = tuple(metric.name for metric in fields(OrdinalScores) if metric.name != "count")


def metric_values(scores: OrdinalScores) -> dict[str, float | None]:
    """The metrics as JSON values: None where one is undefined."""
    return {name: _number(asdict(scores)[name]) for name in METRICS}


def reduce_scores(scores: Sequence[OrdinalScores], reduction: Any) -> OrdinalScores:
    """The mean or standard deviation of each metric; the count is the sum."""
    reduced: dict[str, Any] = {name: float(reduction([getattr(one, name) for one in scores])) for name in METRICS}
    return OrdinalScores(count=sum(one.count for one in scores), **reduced)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
