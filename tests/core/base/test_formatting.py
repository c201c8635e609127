"""Bytes and seconds as people write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.formatting import format_bytes, format_count, format_seconds, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8GB", 8 * 10**9),
        ("8GiB", 8 * 2**30),
        ("8 gib", 8 * 2**30),
        (" 512MB ", 512 * 10**6),
        ("512M", 512 * 10**6),
        ("1.5kB", 1500),
        (".5GB", 5 * 10**8),
        ("1e9", 10**9),
        ("2E3 kb", 2_000_000),
        ("7 bytes", 7),
        ("7b", 7),
        ("3TiB", 3 * 2**40),
        ("3T", 3 * 10**12),
        ("0", 0),
    ],
)
def test_sizes_are_read(text: str, expected: int):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "GB", "-1GB", "+1GB", "8XB", "8GBs", "8 G B", "1,5GB", "nan", "inf", "1e999", "8.", "0x10"]
)
def test_what_is_not_a_size_is_none(text: str):
    assert parse_bytes(text) is None


@given(st.integers(0, 10**15))
def test_a_shown_size_reads_back_within_its_digits(count: int):
    back = parse_bytes(format_bytes(count))
    assert back is not None
    assert abs(back - count) <= 0.0051 * count


@given(st.integers(0, 10**15))
def test_a_shown_size_never_has_four_digits_before_the_point_below_the_largest_unit(count: int):
    number, unit = format_bytes(count).split()
    assert unit == "TB" or float(number) < 1000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (0.0000015, "1.5 µs"),
        (0.0012, "1.2 ms"),
        (0.00099999, "1 ms"),
        (0.99999, "1.0 s"),
        (12.34, "12.3 s"),
        (59.7, "1m00s"),
        (75, "1m15s"),
        (119.8, "2m00s"),
        (3599.9, "1h00m"),
        (7300, "2h02m"),
        (float("inf"), "?"),
        (float("nan"), "?"),
    ],
)
def test_seconds_are_shown(seconds: float, text: str):
    assert format_seconds(seconds) == text


@given(st.floats(1e-6, 1e6))
def test_shown_seconds_are_near_the_truth(seconds: float):
    text = format_seconds(seconds)
    units = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
    shown = sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) ?(µs|ms|s|m|h)", text))
    assert shown == pytest.approx(seconds, rel=0.06)
    assert "e+" not in text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (1234567, "1,234,567"), (0.123456, "0.123"), (12.5, "12.5"), (1234.5, "1,234")]
)
def test_counts_are_shown(count: float, text: str):
    assert format_count(count) == text
