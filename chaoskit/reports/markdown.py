"""A summary in Markdown, for a merge request or the summary page of a CI job.

Everything that a file or a rank said stands in code, inline or in a block, where Markdown finds neither
links nor mentions nor HTML. What is not held stands first, and the whole is of bounded size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaoskit.model import Result, ScenarioResult, Status, Verdict
from chaoskit.reports.judged import Judged, is_watch, result_in_words
from chaoskit.reports.markdown_text import CHARACTERS_MAX, code, fence, table_row
from chaoskit.reports.repeats import Same, by_arm
from chaoskit.reports.wording import (
    LONGEST_NAME,
    culprits_of,
    facts_of,
    latency_of,
    origin_of,
    outcome_of,
    plural,
    safe,
    seconds,
    words,
)

_FOR_TABLE = CHARACTERS_MAX // 2
_FOR_ENDING = 1_000
_ORDER = (Result.NOT_HELD, Result.INCONCLUSIVE, Result.SKIPPED, Result.NOT_NEEDED, Result.HELD)
_MARK = {
    Result.NOT_HELD: "❌",
    Result.INCONCLUSIVE: "❔",
    Result.SKIPPED: "➖",
    Result.NOT_NEEDED: "⚪",
    Result.HELD: "✅",
}
_EXPLAINED = (Result.NOT_HELD, Result.INCONCLUSIVE)
_LONGEST_FACT = 600
_LONGEST_DETAIL = 6_000


def render(judged: Judged) -> str:
    """Return the summary, of at most :data:`CHARACTERS_MAX` characters."""
    results = sorted(judged.scenarios, key=lambda r: _ORDER.index(r.result))
    parts = [_heading(judged)]
    rows = [row for result in results for row in _rows(result, judged.name_of(result))]
    shown = _that_fit(rows, _FOR_TABLE)
    if shown:
        head = "| scenario | result | arm | outcome | latency of bound | culprit |\n|---|---|---|---|---|---|"
        parts.append("\n".join([head, *shown]))
    if len(shown) < len(rows):
        parts.append(f"{plural(len(rows) - len(shown), 'more row')} left out.")
    details = [
        d
        for result in results
        if result.result in _EXPLAINED
        for d in _details(result, judged.name_of(result))
    ]
    room = CHARACTERS_MAX - _FOR_ENDING - sum(len(p) + 2 for p in parts)
    kept = _that_fit(details, room)
    parts += kept
    if len(kept) < len(details):
        parts.append(f"Details of {plural(len(details) - len(kept), 'more arm')} left out.")
    origin, run_dir = (
        code(t, LONGEST_NAME) for t in (origin_of(judged.seed, judged.torch), str(judged.run_dir))
    )
    parts.append(f"{origin}, run directory {run_dir}")
    return "\n\n".join(parts) + "\n"


def _that_fit(texts: list[str], room: int) -> list[str]:
    kept = []
    for text in texts:
        room -= len(text) + 2
        if room < 0:
            break
        kept.append(text)
    return kept


def _heading(judged: Judged) -> str:
    in_order = sorted(judged.scenarios, key=lambda r: list(Result).index(r.result))
    counts = Counter(map(result_in_words, in_order))
    said = ", ".join(f"{count} {what}" for what, count in counts.items()) or "nothing was judged"
    total = f"{plural(len(judged.scenarios), 'scenario')}, {plural(len(judged.verdicts), 'arm')}"
    total += f" in {seconds(judged.wall_s)}" if judged.wall_s > 0 else ""
    cut = "\n\nInterrupted: what was not finished is not judged." if judged.interrupted else ""
    return f"### chaoskit: {said}\n\n{total}.{cut}"


def _rows(result: ScenarioResult, called: str) -> Iterator[str]:
    name = f"{called} [{result.backend}]"
    said = f"{_MARK[result.result]} {result_in_words(result)}"
    groups = [group for arm in by_arm(result.verdicts) for group in arm.groups]
    for same in groups:
        yield table_row([_cell(name), said, *_arm_cells(same)])
        name, said = "", ""
    if not groups:
        yield table_row([_cell(name), said, "", "", "", _cell(result.reason)])


def _arm_cells(same: Same) -> Iterator[str]:
    verdict = same.first
    yield _cell(verdict.arm) + (f" ×{len(same.verdicts)}" if len(same.verdicts) > 1 else "")
    yield outcome_of(verdict) + ("" if verdict.status is Status.PASS else f" ({words(verdict.status)})")
    yield latency_of(verdict)
    yield _cell(culprits_of(verdict))


def _details(result: ScenarioResult, called: str) -> Iterator[str]:
    """Yield a block for each arm that is not as it should be; the scenario's reason, where none is."""
    groups = [g for arm in by_arm(result.verdicts) for g in arm.groups if g.first.status is not Status.PASS]
    for same in groups:
        arm = same.first.arm
        yield _folded(called if is_watch(result) else f"{called} / {arm}", _facts(same.first))
    if not groups:
        yield _folded(called, f"reason: {safe(result.reason, longest=_LONGEST_FACT)}")


def _facts(verdict: Verdict) -> str:
    lines = [f"{label}: {safe(value, longest=_LONGEST_FACT)}" for label, value in facts_of(verdict)]
    shown = _that_fit(lines, _LONGEST_DETAIL)
    left = len(lines) - len(shown)
    return "\n".join([*shown, f"({plural(left, 'more line')} left out)"] if left else shown)


def _folded(title: str, text: str) -> str:
    mark = fence(text, 3)
    head = f"<details><summary><code>{_html(safe(title, longest=LONGEST_NAME))}</code></summary>"
    return f"{head}\n\n{mark}text\n{text}\n{mark}\n\n</details>"


def _html(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\\", "&#92;"), ("`", "&#96;")):
        text = text.replace(char, entity)
    return text


def _cell(text: str) -> str:
    """Return ``text`` as code in a cell of a table, in which ``|`` would end it even there."""
    # Renderers differ in what they make of a backslash before it.
    return code(text, LONGEST_NAME).replace("|", r"\x7c")
