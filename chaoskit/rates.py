"""What a link carries, as files say it: ``1gbit``, ``500kbit``; in bits per second."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
RATE_MIN_BPS, RATE_MAX_BPS = 1e3, 400e9
HINT: Final = "write 8kbit, 100mbit or 10gbit"
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)(?:/s)?")


def rate_bps(text: str) -> float:
    """Return bits per second. Raises ValueError with what is wrong."""
    match = _RATE.fullmatch(text.strip().lower())
    if match is None or match[2] not in UNITS:
        raise ValueError(f"must be a rate, is {text[:60]!r}")
    rate = float(match[1][:30]) * UNITS[match[2]]
    if not RATE_MIN_BPS <= rate <= RATE_MAX_BPS:
        limits = f"between {rate_text(RATE_MIN_BPS)} and {rate_text(RATE_MAX_BPS)}"
        raise ValueError(f"must be {limits}, is {text[:60]!r}")
    return rate


def rate_text(bps: float) -> str:
    """Return ``bps`` as a file says it."""
    for unit, size in reversed(UNITS.items()):
        number = repr(bps / size).removesuffix(".0")
        if bps >= size and "e" not in number and float(number) * size == bps:  # it is read back as it was
            return f"{number}{unit}"
    return f"{bps:g}bit"


def measured_text(bps: float) -> str:
    """Return ``bps`` as a report says it, rounded: ``0.9 Gbit/s``."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6)):
        if bps >= size / 2:
            return f"{bps / size:.2g} {unit}" if bps < size * 100 else f"{bps / size:.0f} {unit}"
    return f"{bps / 1e3:.0f} kbit/s"
