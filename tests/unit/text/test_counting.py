"""Sizes are read at a glance: two digits or three and a unit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text.counting import format_size

UNITS = ("B", "kB", "MB", "GB", "TB")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_500, "1.5 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (12_345, "12 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (3_400_000, "3.4 MB"),
        (23_400_000, "23 MB"),
        (48_000_000, "48 MB"),
        (999_500_000, "1.0 GB"),
        (5_000_000_000_000, "5.0 TB"),
        (5_000_000_000_000_000, "5000 TB"),
    ],
)
def test_a_size_has_a_decimal_only_where_it_has_one_digit_otherwise(size, text):
    assert format_size(size) == text


@given(st.integers(0, 10**15 - 10**12))
def test_a_size_is_true_to_five_percent_and_never_a_thousand_of_a_unit(size):
    text = format_size(size)
    assert re.fullmatch(r"\d\.\d [kMGT]B|\d{2,3} [kMGT]B|\d{1,3} B", text)
    amount, unit = text.split(" ")
    assert float(amount) * 1000 ** UNITS.index(unit) == pytest.approx(size, rel=0.051)
