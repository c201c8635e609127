"""The last and the best value of metrics."""

import math

from brimful.service.dashboard.parts.metric_summary import Extent, extents, metric_rows


def test_what_is_known_of_a_curve_grows_with_its_points():
    known = extents({}, {"loss": [(0, 0.0, 3.0), (5, 0.0, 1.0), (9, 0.0, math.nan)]})
    assert known == {"loss": Extent(5, 1.0, 1.0, 3.0)}
    part = extents(known, {"loss": [(0, 0.0, 3.0), (2, 0.0, 2.0)], "lr": []})
    assert part == known  # a closer look at a part, which ends before
    assert extents(known, {"loss": [(12, 0.0, 2.0)]}) == {"loss": Extent(12, 2.0, 1.0, 3.0)}


def test_the_best_is_shown_where_the_name_says_which_that_is():
    runs = [
        {"accuracy": Extent(1, 0.5, 0.1, 0.9), "loss": Extent(1, 2.0, 1.0, 3.0), "lr": Extent(1, 0.1, 0.1, 1.0)},
        {},
    ]
    assert metric_rows(runs) == [
        ("loss, last", [2.0, None]),
        ("loss, lowest", [1.0, None]),
        ("accuracy, last", [0.5, None]),
        ("accuracy, highest", [0.9, None]),
        ("lr, last", [0.1, None]),
    ]
    assert metric_rows([]) == []
