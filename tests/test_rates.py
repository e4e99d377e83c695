"""Rates in words, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.rates import RATE_MAX_BPS, RATE_MIN_BPS, measured_text, rate_bps, rate_text

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("1gbit", 1e9),
        ("8kbit", 8e3),
        ("2.5 mbit", 2.5e6),
        ("400gbit", 400e9),
        ("1000bit", 1e3),
        ("800 Mbit/s", 8e8),
    ],
)
def test_what_is_read(text: str, bps: float) -> None:
    assert rate_bps(text) == bps


@pytest.mark.parametrize(
    "text", ["", "0mbit", "-1mbit", "1", "1mbps", "nanmbit", "1e9bit", "9" * 40 + "gbit"]
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        rate_bps(text)


@given(st.integers(int(RATE_MIN_BPS), int(RATE_MAX_BPS)))
def test_there_and_back(bps: int) -> None:
    assert rate_bps(rate_text(float(bps))) == pytest.approx(bps, rel=1e-5)


def test_what_was_measured_is_rounded() -> None:
    said = [measured_text(bps) for bps in (9e8, 1.9e8, 2.5e10, 64e3)]
    assert said == ["0.9 Gbit/s", "190 Mbit/s", "25 Gbit/s", "64 kbit/s"]
