"""Text that Markdown takes for text, and the rows of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from chaoskit.reports.wording import LONGEST_TEXT, safe

CHARACTERS_MAX: Final = 60_000
"""Of a report: a comment on GitHub may have 65,536."""


def code(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return ``text`` as inline code, in which Markdown finds neither links nor mentions nor HTML."""
    shown = safe(text, longest=longest)
    if not shown.strip():
        return ""
    mark = fence(shown, 1)
    return f"{mark} {shown} {mark}" if "`" in shown or shown != shown.strip() else f"{mark}{shown}{mark}"


def fence(text: str, least: int) -> str:
    """Return backticks, ``least`` or more, that do not occur in ``text``."""
    return "`" * max([least, *(1 + len(run) for run in re.findall("`+", text))])


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a table; the cells are Markdown already."""
    return f"| {' | '.join(cells)} |"
