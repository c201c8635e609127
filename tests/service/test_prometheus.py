"""Prometheus' text format."""

import math

import pytest

from brimful.service.prometheus import Family, Histogram, render


def test_names_labels_and_values():
    families = [
        Family.single("up", "gauge", "Whether it runs.", 1.0),
        Family("bytes", "gauge", "a\\b\nc", [("", {"device": 'cuda:0 "x"\\\n'}, 2.5)]),
    ]
    assert render(families) == (
        "# HELP up Whether it runs.\n# TYPE up gauge\nup 1\n"
        '# HELP bytes a\\\\b\\nc\n# TYPE bytes gauge\nbytes{device="cuda:0 \\"x\\"\\\\\\n"} 2.5\n'
    )


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (1e30, "1e+30")]
)
def test_numbers_that_are_not_finite_or_huge(value: float, text: str):
    assert render([Family.single("x", "gauge", "x", value)]).splitlines()[-1] == f"x {text}"


def test_a_label_with_braces_keeps_them():
    family = Family("x", "gauge", "x", [("", {"path": "/jobs/{}"}, 1)])
    assert render([family]).splitlines()[-1] == 'x{path="/jobs/{}"} 1'


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram("seconds", "Time.", (0.1, 1.0), ("path",))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value, "/a")
    assert render([histogram.family()]).splitlines()[2:] == [
        'seconds_bucket{path="/a",le="0.1"} 2',
        'seconds_bucket{path="/a",le="1"} 3',
        'seconds_bucket{path="/a",le="+Inf"} 4',
        'seconds_sum{path="/a"} 7.65',
        'seconds_count{path="/a"} 4',
    ]
