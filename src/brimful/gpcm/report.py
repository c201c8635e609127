"""The report of a trained model: training curves, metrics, questions, students, and true parameters where known.

gpcm      training curves, confusion, calibration, category curves of some questions, recovered parameters
students  ability over time of some students, and what one of them knows
"""

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.base.arguments import check_type
from ..core.declare.pictures import BLUE, RED, add_legends, figure_of
from ..core.declare.report import Report
from .evaluation.inference import knowledge_state
from .evaluation.item_parameters import abilities
from .evaluation.metrics import contingency, predict_categories
from .model.partial_credit import probabilities
from .result import CrossValidationResult, GPCMResult

_CAPTIONS = {
    "gpcm": "Training, held-out answers and their probabilities, curves of some items, and what was recovered",
    "students": "Ability of some held-out students over time, and what one of them knows",
}
_GRAY = "#8a8a8a"
_QUESTIONS = 6  # with category curves
_STUDENTS = 4  # with ability over time
_ROWS = 24  # questions in the map of one student's knowledge
_BINS = 8


def report(result: GPCMResult | CrossValidationResult) -> Report:
    """The summary as metrics, the history as a table, and two pictures; of a cross-validation, those of the best
    fold."""
    check_type(result, (GPCMResult, CrossValidationResult), "give what gpcm.train or gpcm.load returned")
    best = result.best
    which = ""
    if isinstance(result, CrossValidationResult):
        which = f"fold {result.best_fold + 1} of {len(result.folds)}, the best, "
    drawn = {"gpcm": _overview, "students": _students}
    pictures = {name: functools.partial(draw, best, which) for name, draw in drawn.items()}
    return Report(result.summary(), {"history": pa.Table.from_pylist(list(best.history))}, pictures, _CAPTIONS)


def _overview(result: GPCMResult, which: str) -> Any:
    figure = figure_of(15, 15)
    grid = figure.add_gridspec(4, 3, height_ratios=(1.1, 0.9, 0.9, 1.1))
    _training(figure.add_subplot(grid[0, 0]), result)
    _confusion(figure.add_subplot(grid[0, 1]), result)
    _calibration(figure.add_subplot(grid[0, 2]), result)
    questions, limits = _select_questions(result), _ability_limits(result)
    for index, question in enumerate(questions):
        axes = figure.add_subplot(grid[1 + index // 3, index % 3])
        _category_curves(axes, result, int(question), *limits)
        axes.set(
            ylabel="probability" if index % 3 == 0 else "", xlabel="ability" if index + 3 >= len(questions) else ""
        )
    panels = [figure.add_subplot(grid[3, column]) for column in range(3)]
    _recovery(panels, result) if result.recovery is not None else _items(panels, result)
    students = f"{result.settings['dataset']}: {which}{result.held_out.students.distinct:,} held-out students"
    values = {name: getattr(result.scores, name) for name in ("count", "qwk", "accuracy", "cross_entropy", "auc")}
    scores = ", ".join(f"{name} {value:,.4g}" for name, value in values.items() if np.isfinite(value))
    return add_legends(figure, f"{students}; {scores}")


def _training(axes: Any, result: GPCMResult) -> None:
    history, metric = result.history, "auc" if result.model.config.categories == 2 else "qwk"
    epoch = [row["epoch"] for row in history]
    axes.set(title="training", xlabel="epoch", ylabel="loss per step")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.axvline(result.best_epoch + 1, color="#333333", lw=0.8, ls=":", label="best epoch")
    for name, color, label in (("train_loss", _GRAY, "training loss"), ("valid_loss", BLUE, "validation loss")):
        axes.plot(epoch, [row.get(name) for row in history], color=color, label=label)
    right = axes.twinx()
    right.plot(epoch, [row.get(metric) for row in history], color=RED)
    right.set_ylabel(f"validation {metric.upper()}", color=RED)


def _confusion(axes: Any, result: GPCMResult) -> None:
    predictions, K = result.held_out, result.model.config.categories
    predicted = predict_categories(predictions.probability_TK, result.predict_by)
    table = contingency(predictions.students.response, predicted, K)
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.ndindex(K, K) if K <= 12 else ():
        color = "white" if share[row, column] > 0.55 else "#222222"
        text = f"{share[row, column]:.0%}\n{table[row, column]:,}"
        axes.text(column, row, text, ha="center", va="center", color=color, fontsize=9 if K <= 5 else 6)
    axes.set(
        title="confusion matrix",
        xlabel=f"predicted ({result.predict_by})",
        ylabel="answered",
        xticks=range(K),
        yticks=range(K),
    )


def _calibration(axes: Any, result: GPCMResult) -> None:
    p_TK, response = result.held_out.probability_TK, result.held_out.students.response
    axes.plot([0, 1], [0, 1], color=_GRAY, lw=0.8, ls="--")
    for category, color in enumerate(_colors(p_TK.shape[1])):
        bins = _bins(p_TK[:, category], 12)
        predicted = [p_TK[rows, category].mean() for rows in bins]
        observed = [(response[rows] == category).mean() for rows in bins]
        axes.plot(predicted, observed, "o-", ms=3, lw=1, color=color, label=f"answer {category}")
    axes.set(
        title="calibration",
        xlabel="predicted probability",
        ylabel="observed frequency",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )


def _select_questions(result: GPCMResult) -> np.ndarray:
    """Questions with curves: spread over discrimination, among those that were asked often."""
    asked = np.bincount(result.held_out.students.question, minlength=len(result.vocabulary.questions) + 1)[:-1]
    asked = np.where(np.isfinite(result.items.alpha_Q), asked, 0)
    often = np.flatnonzero(asked >= max(1, np.median(asked[asked > 0]) if asked.any() else 1))
    return _spread(often[np.argsort(result.items.alpha_Q[often], kind="stable")], _QUESTIONS)


def _category_curves(axes: Any, result: GPCMResult, question: int, low: float, high: float) -> None:
    """Lines: the partial credit model of the question. Dots: how often held-out students gave the answer, by their
    predicted ability."""
    rows = result.held_out.students.question == question
    response_T, p_TK = result.held_out.students.response[rows], result.held_out.probability_TK[rows]
    alpha, beta_H = result.items.alpha_Q[question], result.items.beta_QH[question]
    bins = _bins(_implied_ability(p_TK, alpha, beta_H), int(np.clip(len(p_TK) // 25, 1, _BINS)))
    # At the mean prediction, which the frequency should match; the abilities of a wide bin have another mean.
    mean_p = np.array([p_TK[rows].mean(0) for rows in bins]).reshape(-1, p_TK.shape[1])
    ability, theta_A = _implied_ability(mean_p, alpha, beta_H), np.linspace(low, high, 120)
    p_AK = probabilities(theta_A, np.full_like(theta_A, alpha), np.broadcast_to(beta_H, (len(theta_A), len(beta_H))))
    for category, color in enumerate(_colors(p_AK.shape[1])):  # explained beside, by the legend of the calibration
        axes.plot(theta_A, p_AK[:, category], color=color, lw=1.5)
        frequency = [(response_T[rows] == category).mean() for rows in bins]
        axes.plot(ability, frequency, "o", color=color, ms=5, alpha=0.85)
    shown, separator = (beta_H, ", ") if len(beta_H) <= 6 else (beta_H[[0, -1]], " to ")
    thresholds = separator.join(f"{beta:.2f}" for beta in shown)
    name = f"question {result.vocabulary.questions[question]}"
    axes.set_title(f"{name}: alpha {alpha:.2f}, beta {thresholds} ({len(response_T):,} answers)", fontsize=9)
    axes.set(xlim=(low, high), ylim=(-0.02, 1.02))


def _implied_ability(p_TK: np.ndarray, alpha: Any, beta_H: np.ndarray) -> np.ndarray:
    """The ability at which a question's partial credit model has the predicted odds of last to first category."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(p_TK[:, -1].astype(np.float64)) - np.log(p_TK[:, 0].astype(np.float64))
        return odds / (p_TK.shape[1] - 1) / alpha + beta_H.mean(-1)


def _ability_limits(result: GPCMResult) -> tuple[float, float]:
    """The range of ability that is shown: nearly all of the held-out students'."""
    predictions, items = result.held_out, result.items
    asked = np.append(items.count_Q > 0, False)[predictions.students.question]
    question = predictions.students.question[asked]
    ability = _implied_ability(predictions.probability_TK[asked], items.alpha_Q[question], items.beta_QH[question])
    ability = ability[np.isfinite(ability)]
    low, high = np.quantile(ability, (0.005, 0.995)) if len(ability) else (-3.0, 3.0)
    return float(low), float(max(high, low + 0.1))


def _recovery(panels: list[Any], result: GPCMResult) -> None:
    true, items, recovery = result.true_parameters, result.items, result.recovery
    assert true is not None and recovery is not None
    asked, slope, shift = items.count_Q > 0, recovery.slope, recovery.shift
    theta_B, true_theta_B = abilities(result.model, result.held_out.students), true.theta(result.held_out.students.ids)
    known = np.isfinite(theta_B) & np.isfinite(true_theta_B)
    pairs = (
        ("discrimination", recovery.alpha_r, true.alpha_Q[asked], items.alpha_Q[asked] / slope),
        ("thresholds", recovery.beta_r, true.beta_QH[asked], slope * items.beta_QH[asked] + shift),
        ("ability of held-out students", recovery.theta_r, true_theta_B[known], slope * theta_B[known] + shift),
    )
    for axes, (name, r, expected, estimated) in zip(panels, pairs, strict=True):
        if not expected.size or not np.isfinite(estimated).any():
            axes.set_axis_off()
            continue
        ends = [float(np.nanmin([expected, estimated])), float(np.nanmax([expected, estimated]))]
        axes.plot(ends, ends, color=_GRAY, lw=0.8, ls="--")
        expected, estimated = (values.reshape(len(values), -1) for values in (expected, estimated))
        for column, color in enumerate(_colors(H := expected.shape[1])):
            label = f"beta {column + 1}" if H > 1 else None
            axes.plot(expected[:, column], estimated[:, column], "o", ms=3, alpha=0.6, color=color, label=label)
        axes.set(title=f"{name}: r = {r:.3f}", xlabel="true", ylabel="estimated, linked")


def _items(panels: list[Any], result: GPCMResult) -> None:
    """Where no true parameters are known: the distribution of the estimated ones."""
    items, students = result.items, result.held_out.students
    asked, Q = items.count_Q > 0, len(students.questions)
    panels[0].hist(items.alpha_Q[asked], bins=30, color=BLUE)
    panels[0].set(title="discrimination of the questions", xlabel="alpha", yticks=[])
    for number, color in enumerate(_colors(items.beta_QH.shape[1]), 1):
        panels[1].hist(items.beta_QH[asked, number - 1], bins=30, color=color, alpha=0.7, label=f"beta {number}")
    panels[1].set(title="thresholds of the questions", xlabel="beta", yticks=[])
    known = students.question < Q
    count = np.bincount(students.question[known], minlength=Q)
    total = np.bincount(students.question[known], weights=students.response[known], minlength=Q)
    seen = asked & (count > 0)
    size = 4 + 40 * count[seen] / max(1, count.max(initial=0))
    panels[2].scatter(items.beta_QH[seen].mean(1), total[seen] / count[seen], s=size, color=BLUE, alpha=0.5, lw=0)
    panels[2].set(
        title="difficulty and answers (size: how often asked)",
        xlabel="mean threshold",
        ylabel="mean answer of held-out students",
    )


def _students(result: GPCMResult, which: str) -> Any:
    figure = figure_of(15, 13)
    grid = figure.add_gridspec(3, 2, height_ratios=(1, 1, 1.7))
    students, deviation = _select_students(result)
    first = None
    for index, student in enumerate(students):
        first = axes = figure.add_subplot(grid[index // 2, index % 2], sharey=first)
        _ability(axes, result, int(student), deviation)
        axes.set_xlabel("answers" if index // 2 == 1 else "")
    if len(students):
        _knowledge_map(figure, figure.add_subplot(grid[2, :]), result)
    return add_legends(figure, f"{which}ability and knowledge of some held-out students")


def _select_students(result: GPCMResult) -> tuple[np.ndarray, float]:
    """Students that are shown: spread over ability, among those with many answers; and the deviation of ability."""
    students = result.held_out.students
    if not students.steps:
        return np.zeros(0, np.int64), 0.0
    sample = _spread(np.flatnonzero(students.lengths >= np.median(students.lengths[students.lengths > 0])), 400)
    theta = abilities(result.model, students.select(sample))
    ranked = sample[np.argsort(theta, kind="stable")]
    shown = np.unique((np.linspace(0.05, 0.95, _STUDENTS) * (len(ranked) - 1)).round().astype(int))
    return ranked[shown], float(np.std(theta))


def _ability(axes: Any, result: GPCMResult, student: int, deviation: float) -> None:
    """The line is the mean ability over all questions; the band is two standard errors by the information in the
    answers so far, for a constant ability."""
    one = result.held_out.students.select([student])
    mean_T = knowledge_state(result.model, one).theta_TQ.mean(1)  # the common scale, see `item_parameters`
    band_T = 2 * _standard_error(result, student, deviation)
    step = np.arange(len(mean_T))
    axes.fill_between(step, mean_T - band_T, mean_T + band_T, color=BLUE, alpha=0.15, lw=0)
    axes.plot(step, mean_T, color=BLUE, lw=1.5)
    for category, color in enumerate(_colors(one.categories)):
        answers = np.flatnonzero(one.response == category) + 1
        height = np.full(len(answers), 0.03 + 0.03 * category)
        axes.plot(answers, height, "|", ms=7, color=color, transform=axes.get_xaxis_transform())
    title = ", ".join(f"{count} x {category}" for category, count in enumerate(one.counts) if count)
    if result.true_parameters is not None and result.recovery is not None:
        theta = (float(result.true_parameters.theta(one.ids)[0]) - result.recovery.shift) / result.recovery.slope
        if np.isfinite(theta):
            axes.axhline(theta, color=RED, lw=1, ls="--")
            title += "; dashed: true ability"
    axes.set_title(f"student {one.ids[0]}: {title}", fontsize=9)
    axes.set(xlim=(0, len(one.response)), ylabel="ability")


def _standard_error(result: GPCMResult, student: int, deviation: float) -> np.ndarray:
    """The standard error of ability before each answer and after the last: `deviation` before the first, and each
    answer adds the information alpha^2 times the variance of its category."""
    rows = slice(*result.held_out.students.offsets[student : student + 2])
    p_SK = result.held_out.probability_TK[rows]
    category_K = np.arange(p_SK.shape[1])
    variance_S = p_SK @ category_K**2 - (p_SK @ category_K) ** 2
    alpha_S = np.nan_to_num(np.append(result.items.alpha_Q, np.nan)[result.held_out.students.question[rows]])
    information = np.concatenate([[0.0], np.cumsum(alpha_S**2 * variance_S)])
    return 1 / np.sqrt(information + 1 / max(deviation**2, 1e-6))


def _knowledge_map(figure: Any, axes: Any, result: GPCMResult) -> None:
    """The expected answers of the first student with about as many questions as there are rows, and not too many
    answers for the columns."""
    students = result.held_out.students
    K, Q = students.categories, len(students.questions)
    distinct = np.array([len(np.unique(asked)) for asked in np.split(students.question, students.offsets[1:-1])])
    one = students.select([np.argmax(np.minimum(distinct, _ROWS) - 0.02 * np.maximum(0, students.lengths - 100))])
    asked, first = np.unique(one.question[one.question < Q], return_index=True)
    rows = asked[np.argsort(first)][:_ROWS]
    if not len(rows):
        axes.set_axis_off()
        return
    expected_QT = knowledge_state(result.model, one).expected_TQ[:, rows].T
    scale: dict[str, Any] = {"cmap": "viridis", "vmin": 0, "vmax": K - 1}
    image = axes.imshow(expected_QT, aspect="auto", interpolation="nearest", **scale)
    step, row = np.nonzero(one.question[:, None] == rows)
    axes.scatter(step, row, c=one.response[step], edgecolors="white", lw=1.2, s=42, **scale)
    axes.set_yticks(range(len(rows)), one.questions[rows].tolist(), fontsize=7)
    axes.set_title(f"student {one.ids[0]}: expected answer to each question (cells) and answers (dots)", fontsize=10)
    axes.set(xlabel="answers so far", ylabel="question, by first appearance")
    figure.colorbar(image, ax=axes, label="category", ticks=range(K) if K <= 12 else None, pad=0.01)


def _spread(values: np.ndarray, count: int) -> np.ndarray:
    """At most so many of some values, evenly spaced."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(count, len(values))).astype(int))]


def _bins(x_T: np.ndarray, count: int) -> list[np.ndarray]:
    """The indices of equally full bins of some values; fewer bins where they would hold fewer than ten."""
    order = np.argsort(x_T, kind="stable")
    return [rows for rows in np.array_split(order, max(1, min(count, len(order) // 10))) if len(rows) >= 10]


def _colors(count: int) -> list[Any]:
    """One per category, from dark to light; a single one is blue."""
    import matplotlib

    return [matplotlib.colormaps["viridis"](0.9 * k / (count - 1)) for k in range(count)] if count > 1 else [BLUE]
