"""The pictures of a trained model: how it learned, how good it is, its questions, its students, and the truth if known.

gpcm.png      learning curves, confusion, calibration, category curves of some questions, recovered parameters
students.png  ability over time of some students, and what one of them knows
"""

from pathlib import Path
from typing import Any

import numpy as np

from ..core.declare.pictures import BLUE, RED, figure_of, save
from .evaluation.inference import knowledge_state
from .evaluation.item_parameters import abilities
from .evaluation.metrics import contingency, predicted
from .model.partial_credit import probabilities
from .outcome import Outcome

PICTURES = ("gpcm.png", "students.png")

_GREY = "#8a8a8a"
_QUESTIONS = 6  # whose category curves are shown
_LINES = 4  # students whose ability is drawn
_ROWS = 24  # questions in the map of one student's knowledge
_BINS = 8


def draw(trained: Outcome, folder: Path) -> list[Path]:
    """Draws both pictures into a folder."""
    return [_overview(trained, folder / PICTURES[0]), _students(trained, folder / PICTURES[1])]


def _overview(trained: Outcome, path: Path) -> Path:
    figure = figure_of(15, 15)
    grid = figure.add_gridspec(4, 3, height_ratios=(1.1, 0.9, 0.9, 1.1))
    _learning(figure.add_subplot(grid[0, 0]), trained)
    _confusion(figure.add_subplot(grid[0, 1]), trained)
    _calibration(figure.add_subplot(grid[0, 2]), trained)
    shown, span = _questions(trained), _span(trained)
    for place in range(_QUESTIONS):
        axes = figure.add_subplot(grid[1 + place // 3, place % 3])
        if place >= len(shown):
            axes.set_axis_off()
            continue
        _curves(axes, trained, int(shown[place]), *span)
        if place == 0:
            axes.legend(fontsize=8, loc="upper center", ncols=2, frameon=False)
        axes.set_ylabel("probability" if place % 3 == 0 else "")
        axes.set_xlabel("ability" if place + 3 >= len(shown) else "")
    bottom = [figure.add_subplot(grid[3, place]) for place in range(3)]
    _truth(bottom, trained) if trained.truth is not None and trained.recovery is not None else _items(bottom, trained)
    figure.suptitle(_title(trained), fontsize=12)
    return save(figure, path)


def _title(trained: Outcome) -> str:
    scores, config = trained.scores, trained.model.config
    auc = f", AUC {scores.auc:.3f}" if config.categories == 2 else ""
    name = trained.settings.get("dataset", "")
    return (
        f"{f'{name}: ' if name else ''}{len(trained.held.students):,} held-out students, {scores.count:,} answers; "
        f"QWK {scores.qwk:.3f}, accuracy {scores.accuracy:.3f}, cross-entropy {scores.cross_entropy:.3f}{auc}"
    )


def _learning(axes: Any, trained: Outcome) -> None:
    axes.set(title="learning", xlabel="epoch")
    history = trained.history
    if not history:
        axes.text(0.5, 0.5, "no history was kept", ha="center", transform=axes.transAxes, color=_GREY)
        return
    epoch = [row["epoch"] for row in history]
    axes.plot(epoch, [row["train_loss"] for row in history], color=_GREY, label="loss, training")
    if "valid_loss" in history[0]:
        axes.plot(epoch, [row["valid_loss"] for row in history], color=BLUE, label="loss, validation")
    axes.set_ylabel("loss a step")
    axes.xaxis.get_major_locator().set_params(integer=True)
    name = "auc" if trained.model.config.categories == 2 else "qwk"
    handles, labels = axes.get_legend_handles_labels()
    if name in history[0]:
        other = axes.twinx()
        (line,) = other.plot(epoch, [row[name] for row in history], color=RED)
        other.set_ylabel(f"{name.upper()}, validation", color=RED)
        handles, labels = [*handles, line], [*labels, f"{name.upper()}, validation"]
    axes.axvline(trained.best + 1, color="#333333", lw=0.8, ls=":")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 2, "frameon": False}
    axes.legend([*handles, axes.lines[-1]], [*labels, "chosen epoch"], fontsize=8, **below)


def _confusion(axes: Any, trained: Outcome) -> None:
    response = trained.held.students.response
    K = trained.model.config.categories
    guess = predicted(trained.held.probability_TK, trained.predict_by)
    table = contingency(response, guess, K)
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row in range(K) if K <= 12 else ():
        for column in range(K):
            tone = "white" if share[row, column] > 0.55 else "#222222"
            text = f"{share[row, column]:.0%}\n{table[row, column]:,}"
            axes.text(column, row, text, ha="center", va="center", color=tone, fontsize=9 if K <= 5 else 6)
    axes.set(title="answers and predictions", xlabel=f"predicted ({trained.predict_by})", ylabel="answered")
    axes.set(xticks=range(K), yticks=range(K))


def _calibration(axes: Any, trained: Outcome) -> None:
    p_TK, response = trained.held.probability_TK, trained.held.students.response
    axes.plot([0, 1], [0, 1], color=_GREY, lw=0.8, ls="--")
    for category, colour in enumerate(_colours(p_TK.shape[1])):
        parts = _bins(p_TK[:, category], 12)
        said, came = (
            [p_TK[part, category].mean() for part in parts],
            [(response[part] == category).mean() for part in parts],
        )
        axes.plot(said, came, "o-", ms=3, lw=1, color=colour, label=str(category))
    axes.set(title="said and came true", xlabel="probability said", ylabel="share that came true")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(title="category", fontsize=8, title_fontsize=8, frameon=False)


def _questions(trained: Outcome) -> np.ndarray:
    """Questions that are shown: spread over discrimination, out of those that were asked often."""
    asked = np.bincount(trained.held.students.question, minlength=len(trained.train.questions) + 1)[:-1]
    asked = np.where(np.isfinite(trained.items.alpha_Q), asked, 0)
    often = np.flatnonzero(asked >= max(1, np.median(asked[asked > 0], keepdims=False) if asked.any() else 1))
    ranked = often[np.argsort(trained.items.alpha_Q[often], kind="stable")]
    if not len(ranked):
        return ranked
    return ranked[np.unique(np.linspace(0, len(ranked) - 1, min(_QUESTIONS, len(ranked))).astype(int))]


def _curves(axes: Any, trained: Outcome, question: int, low: float, high: float) -> None:
    """Lines: the partial credit model of the question. Dots: how often held-out students gave the answer, by the
    ability that the model had read before."""
    held, items = trained.held, trained.items
    steps = held.students.question == question
    response_T = held.students.response[steps]
    alpha, beta_H = items.alpha_Q[question], items.beta_QH[question]
    p_TK = held.probability_TK[steps]
    parts = _bins(_ability_of(p_TK, alpha, beta_H), int(np.clip(len(p_TK) // 25, 1, _BINS)))
    # At the mean of what was said, since that is what the share should be; abilities of a wide bin have another mean.
    where = _ability_of(np.array([p_TK[part].mean(0) for part in parts]).reshape(-1, p_TK.shape[1]), alpha, beta_H)
    at = np.linspace(low, high, 120)
    p_AK = probabilities(at, np.full_like(at, alpha), np.broadcast_to(beta_H, (len(at), len(beta_H))))
    for category, colour in enumerate(_colours(p_AK.shape[1])):
        axes.plot(at, p_AK[:, category], color=colour, lw=1.5, label=f"answer {category}")
        share = [(response_T[part] == category).mean() for part in parts]
        axes.plot(where, share, "o", color=colour, ms=5, alpha=0.85)
    name = trained.train.questions[question]
    thresholds = ", ".join(f"{each:.2f}" for each in beta_H)
    shown = thresholds if len(beta_H) <= 6 else f"{beta_H[0]:.2f} to {beta_H[-1]:.2f}"
    axes.set_title(f"question {name}: alpha {alpha:.2f}, beta {shown} ({len(response_T):,} answers)", fontsize=9)
    axes.set(xlim=(low, high), ylim=(-0.02, 1.02))


def _ability_of(p_TK: np.ndarray, alpha: Any, beta_H: np.ndarray) -> np.ndarray:
    """The ability at which a question's partial credit model has the odds of last to first category that were said."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(p_TK[:, -1].astype(np.float64)) - np.log(p_TK[:, 0].astype(np.float64))
        return odds / (p_TK.shape[1] - 1) / alpha + beta_H.mean(-1)


def _span(trained: Outcome) -> tuple[float, float]:
    """The abilities that are shown: nearly all that were read of held-out students."""
    held, items = trained.held, trained.items
    question = held.students.question
    asked = np.append(items.count_Q > 0, False)[question]
    place = question[asked]
    ability = _ability_of(held.probability_TK[asked], items.alpha_Q[place], items.beta_QH[place])
    ability = ability[np.isfinite(ability)]
    low, high = np.quantile(ability, (0.005, 0.995)) if len(ability) else (-3.0, 3.0)
    return float(low), float(max(high, low + 0.1))


def _truth(panels: list[Any], trained: Outcome) -> None:
    truth, found, recovery = trained.truth, trained.items, trained.recovery
    assert truth is not None and recovery is not None
    asked = found.count_Q > 0
    theta_B = abilities(trained.model, trained.held.students)
    true_theta = truth.theta(trained.held.students.ids)
    there = np.isfinite(theta_B) & np.isfinite(true_theta)
    slope, shift = recovery.slope, recovery.shift
    _scatter(panels[0], truth.alpha_Q[asked], found.alpha_Q[asked] / slope, "discrimination", recovery.alpha_r)
    _scatter(panels[1], truth.beta_QH[asked], slope * found.beta_QH[asked] + shift, "thresholds", recovery.beta_r)
    _scatter(
        panels[2], true_theta[there], slope * theta_B[there] + shift, "ability of held-out students", recovery.theta_r
    )


def _scatter(axes: Any, true: np.ndarray, found: np.ndarray, name: str, r: float) -> None:
    if not true.size or not np.isfinite(found).any():
        axes.set_axis_off()
        return
    low, high = float(np.nanmin([true, found])), float(np.nanmax([true, found]))
    axes.plot([low, high], [low, high], color=_GREY, lw=0.8, ls="--")
    columns = true.shape[1] if true.ndim == 2 else 1
    for column, colour in enumerate(_colours(columns) if columns > 1 else [BLUE]):
        one = (true, found) if columns == 1 else (true[:, column], found[:, column])
        axes.plot(*(each.reshape(-1) for each in one), "o", ms=3, alpha=0.6, color=colour, label=f"beta {column + 1}")
    if columns > 1:
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    axes.set(title=f"{name}: r = {r:.3f}", xlabel="true", ylabel="found, linked")


def _items(panels: list[Any], trained: Outcome) -> None:
    """Where no truth is known: what the questions are like."""
    items = trained.items
    asked = items.count_Q > 0
    if not asked.any():
        for axes in panels:
            axes.set_axis_off()
        return
    panels[0].hist(items.alpha_Q[asked], bins=30, color=BLUE)
    panels[0].set(title="discrimination of the questions", xlabel="alpha", yticks=[])
    beta_QH = items.beta_QH[asked]
    for column, colour in enumerate(_colours(beta_QH.shape[1]) if beta_QH.shape[1] > 1 else [BLUE]):
        panels[1].hist(beta_QH[:, column], bins=30, color=colour, alpha=0.7, label=f"beta {column + 1}")
    panels[1].set(title="thresholds of the questions", xlabel="beta", yticks=[])
    if beta_QH.shape[1] > 1:
        panels[1].legend(fontsize=8, frameon=False)
    students = trained.held.students
    known = students.question < len(students.questions)
    count = np.bincount(students.question[known], minlength=len(students.questions))
    total = np.bincount(students.question[known], weights=students.response[known], minlength=len(students.questions))
    seen = asked & (count > 0)
    size = 4 + 40 * count[seen] / max(1, count.max())
    panels[2].scatter(items.beta_QH[seen].mean(1), total[seen] / count[seen], s=size, color=BLUE, alpha=0.5, lw=0)
    panels[2].set(title="difficulty and answers (size: how often asked)", xlabel="mean threshold")
    panels[2].set_ylabel("mean answer of held-out students")


def _students(trained: Outcome, path: Path) -> Path:
    figure = figure_of(15, 13)
    grid = figure.add_gridspec(3, 2, height_ratios=(1, 1, 1.7))
    chosen, spread = _choose(trained)
    first = None
    for place in range(_LINES):
        axes = figure.add_subplot(grid[place // 2, place % 2], sharey=first)
        if place >= len(chosen):
            axes.set_axis_off()
            continue
        first = first or axes
        _ability(axes, trained, int(chosen[place]), spread)
        axes.set_xlabel("answers" if place // 2 == 1 else "")
    axes = figure.add_subplot(grid[2, :])
    if len(chosen):
        _map(figure, axes, trained, _varied(trained))
    else:
        axes.set_axis_off()
    figure.suptitle("what the model believes of some held-out students", fontsize=12)
    return save(figure, path)


def _choose(trained: Outcome) -> tuple[np.ndarray, float]:
    """Students that are shown: spread over ability, out of those with many answers; and how much ability varies."""
    students = trained.held.students
    if not students.steps:
        return np.zeros(0, np.int64), 0.0
    long = np.flatnonzero(students.lengths >= np.median(students.lengths[students.lengths > 0]))
    some = long[np.unique(np.linspace(0, len(long) - 1, min(400, len(long))).astype(int))]
    theta = abilities(trained.model, students.select(some))
    ranked = some[np.argsort(theta, kind="stable")]
    shown = np.unique((np.linspace(0.05, 0.95, _LINES) * (len(ranked) - 1)).round().astype(int))
    return ranked[shown], float(np.std(theta))


def _varied(trained: Outcome) -> int:
    """The student whose knowledge is shown: the first with about as many different questions as there is room for."""
    students = trained.held.students
    owner = np.repeat(np.arange(len(students)), students.lengths)
    pairs = np.unique(np.stack([owner, students.question]), axis=1)
    different = np.bincount(pairs[0], minlength=len(students))
    # Neither too many questions for the rows, nor too many answers for the columns.
    return int(np.argmax(np.minimum(different, _ROWS) - 0.02 * np.maximum(0, students.lengths - 100)))


def _ability(axes: Any, trained: Outcome, student: int, spread: float) -> None:
    """The line is the ability read over all questions; the band is two standard errors by the information in the
    answers so far, as if ability stood still."""
    one = trained.held.students.select([student])
    known = knowledge_state(trained.model, one)
    mean_T = known.theta_TQ.mean(1)  # the common scale, see `items`
    band_T = 2 * _error(trained, student, spread)
    step = np.arange(len(mean_T))
    axes.fill_between(step, mean_T - band_T, mean_T + band_T, color=BLUE, alpha=0.15, lw=0)
    axes.plot(step, mean_T, color=BLUE, lw=1.5)
    colours = _colours(one.categories)
    for category in range(one.categories):
        at = np.flatnonzero(one.response == category)
        axes.plot(at + 1, np.zeros(len(at)) + 0.03 + 0.03 * category, "|", ms=7, color=colours[category],
                  transform=axes.get_xaxis_transform())  # fmt: skip
    truth = "" if trained.truth is None or trained.recovery is None else _true_line(axes, trained, one.ids)
    counts = ", ".join(f"{count} x {category}" for category, count in enumerate(one.counts) if count)
    axes.set_title(f"student {one.ids[0]}: {counts}{truth}", fontsize=9)
    axes.set_xlim(0, len(one.response))
    axes.set_ylabel("ability")


def _true_line(axes: Any, trained: Outcome, ids: np.ndarray) -> str:
    assert trained.truth is not None and trained.recovery is not None
    true = float(trained.truth.theta(ids)[0])
    if not np.isfinite(true) or not trained.recovery.slope:
        return ""
    axes.axhline((true - trained.recovery.shift) / trained.recovery.slope, color=RED, lw=1, ls="--")
    return "; dashed: the truth"


def _error(trained: Outcome, student: int, spread: float) -> np.ndarray:
    """The standard error of ability before each answer and after the last: `spread` before the first, and each answer
    adds the information alpha^2 times the variance of its category."""
    held, items = trained.held, trained.items
    begin, end = held.students.offsets[student : student + 2]
    p_SK = held.probability_TK[begin:end]
    place = np.arange(p_SK.shape[1])
    variance_S = p_SK @ place**2 - (p_SK @ place) ** 2
    alpha_S = np.nan_to_num(np.append(items.alpha_Q, np.nan)[held.students.question[begin:end]])
    information = np.concatenate([[0.0], np.cumsum(alpha_S**2 * variance_S)])
    return 1 / np.sqrt(information + 1 / max(spread**2, 1e-6))


def _map(figure: Any, axes: Any, trained: Outcome, student: int) -> None:
    one = trained.held.students.select([student])
    K, Q = one.categories, len(one.questions)
    known = knowledge_state(trained.model, one)
    asked, first = np.unique(one.question[one.question < Q], return_index=True)
    rows = asked[np.argsort(first)][:_ROWS]
    if not len(rows):
        axes.set_axis_off()
        return
    expected_TQ = known.expected_TQ[:, rows].T
    image = axes.imshow(expected_TQ, aspect="auto", cmap="viridis", vmin=0, vmax=K - 1, interpolation="nearest")
    place = {question: row for row, question in enumerate(rows.tolist())}
    at = [(step, place[each]) for step, each in enumerate(one.question.tolist()) if each in place]
    given = [int(one.response[step]) for step, _ in at]
    axes.scatter(*np.array(at).T, c=given, cmap="viridis", vmin=0, vmax=K - 1, edgecolors="white", lw=1.2, s=42)
    axes.set_yticks(range(len(rows)), [str(each) for each in one.questions[rows]], fontsize=7)
    axes.set_title(
        f"student {one.ids[0]}: answer expected to each question (cells) and answers given (dots)", fontsize=10
    )
    axes.set(xlabel="answers so far", ylabel="question, by first appearance")
    figure.colorbar(image, ax=axes, label="category", ticks=range(K) if K <= 12 else None, pad=0.01)


def _bins(x_T: np.ndarray, count: int) -> list[np.ndarray]:
    """The places of equally full bins of some values; fewer of them where they would hold fewer than ten."""
    order = np.argsort(x_T, kind="stable")
    return [part for part in np.array_split(order, max(1, min(count, len(order) // 10))) if len(part) >= 10]


def _colours(count: int) -> list[Any]:
    """One for each category, from dark to light in their order."""
    import matplotlib

    return [matplotlib.colormaps["viridis"](0.9 * place / max(1, count - 1)) for place in range(count)]
