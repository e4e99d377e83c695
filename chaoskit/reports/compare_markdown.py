"""A comparison of two runs in Markdown, of bounded size. What a file said stands in code."""

from __future__ import annotations

from typing import Final

from chaoskit.compare.comparison import Comparison
from chaoskit.reports.compare_sections import Standing, conclusion, heading, sections, standing, unchanged
from chaoskit.reports.markdown_text import CHARACTERS_MAX, code

_MARK: Final[dict[Standing, str]] = {"broke": "❌", "failing": "⚠️", "unclear": "❔", "kept": "✅"}


def render(found: Comparison) -> str:
    """Return the comparison, of at most :data:`CHARACTERS_MAX` characters."""
    lines = [f"## {_MARK[standing(found)]} {conclusion(found)}", ""]
    lines += [f"- {code(heading(which, side))}" for which, side in (("A", found.a), ("B", found.b))]
    lines += ["", unchanged(found) + "."]
    room = CHARACTERS_MAX - sum(len(line) + 1 for line in lines) - 200
    left_out = 0
    for section in sections(found):
        body = [code(line) for line in section.lines]
        title = f"\n### {section.title[0].upper()}{section.title[1:]}\n"
        room -= len(title) + 1
        if room < 0:
            left_out += len(body)
            continue
        lines.append(title)
        for line in body:
            room -= len(line) + 3
            if room < 0:
                left_out += 1
                continue
            lines.append(f"- {line}")
    if left_out:
        lines += ["", f"{left_out} more lines are left out; `--format json` has all."]
    return "\n".join(lines) + "\n"
