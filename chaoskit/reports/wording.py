"""The words that all reports share: durations, outcomes, and text made safe to print.

What a rank, a script or a scenario file says is hostile until it went through :func:`safe`.
Stdlib only, so that the command line can use it before rich is imported.
"""

from __future__ import annotations

import math
import shlex
import signal
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaoskit.model import Operation, Verdict

Fact = tuple[str, str]
"""A label and what it labels: ``("where", "train.py:31")``."""

_NO_BOUND = ("completed", "corrupted", "masked")
"""Outcomes of jobs that ended without having to: their time is not to be read against the bound."""

DASH = "–"
"""What stands between the two hosts of a link; a hyphen where that cannot be printed."""
CULPRITS_SHOWN = 4
"""A network that falls apart has a link for each pair of hosts: more of them are counted."""

LONGEST_TEXT = 2000
"""Characters of one reason or message that a report shows."""
LONGEST_NAME = 200
"""Characters of one name that a report shows."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
"""Unicode categories that steer a terminal, reorder text or cannot be seen or encoded."""


def safe(text: str, *, longest: int = LONGEST_TEXT, ascii_only: bool = False) -> str:
    r"""Return ``text`` on one line, with control, bidi and invisible characters written as escapes.

    A line break becomes ``\n`` in two characters. ``##[``, which the runner of a GitHub job takes for a
    command anywhere in a line, is broken up. With ``ascii_only`` everything else that is not ASCII is escaped
    too. Longer text is cut, and the cut is stated.
    """
    cut = len(text) - longest
    shown = text[:longest] if cut > 0 else text
    shown = shown.replace(DASH, "-") if ascii_only else shown
    if not (shown.isascii() and shown.isprintable()):
        shown = "".join(c if _visible(c, ascii_only) else _escape(c) for c in shown)
    escaped = shown.replace("##[", r"#\x23[")
    return f"{escaped} [{cut} more characters]" if cut > 0 else escaped


def _visible(char: str, ascii_only: bool) -> bool:
    if " " <= char <= "~":
        return True
    return not ascii_only and unicodedata.category(char) not in _HIDDEN


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def plural(count: int, noun: str) -> str:
    """Return ``1 arm``, ``2 arms``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def seconds(value: float | None) -> str:
    """Return a duration for people: ``87 ms``, ``3.25 s``, ``602 s``; ``?`` where there is none."""
    if value is None or not math.isfinite(value):
        return "?"
    if value == 0:
        return "0 s"
    if abs(value) < 0.9995:
        return f"{value * 1000:.0f} ms"
    return f"{value:.3g} s" if abs(value) < 99.95 else f"{value:.0f} s"


def words(value: str) -> str:
    """Return an enumeration's value as words: ``not_held`` is *not held*."""
    return value.replace("_", " ")


def outcome_of(verdict: Verdict) -> str:
    """Return the outcome in words; where there is none, the status."""
    return words(verdict.outcome) if verdict.outcome is not None else words(verdict.status)


def culprits_of(verdict: Verdict) -> str:
    """Return who did it and what they did: ``rank 1 killed``; '' where nobody is named."""
    shown = [str(c) for c in verdict.culprits[:CULPRITS_SHOWN]]
    more = len(verdict.culprits) - len(shown)
    who = ", ".join(shown) + (f" and {more} more" if more else "")
    what = words(verdict.kind) if verdict.kind is not None else ""
    if verdict.ambiguous and who:
        who = f"one of {who} (ambiguous)" if len(verdict.culprits) > 1 else f"{who} (ambiguous)"
    elif verdict.sureness == "likely" and who:
        who = f"{who} (likely)"
    return " ".join(part for part in (who, what) if part)


def ended_by_of(verdict: Verdict) -> str:
    """Return what ended the job: ``ended by nic_check + group_kill``; '' where nothing had to."""
    return f"ended by {' + '.join(verdict.ended_by)}" if verdict.ended_by else ""


def operation(one: Operation) -> str:
    """Return ``all_reduce #9``, with its group where that is not the default one."""
    return f"{one.op} #{one.nth}" + ("" if one.group == "default" else f" of {one.group}")


def reason_of(verdict: Verdict) -> str:
    """Return the reason without the cause at its end, which a report says next to it."""
    for bracket in (")", ""):
        if verdict.cause and verdict.reason.endswith(verdict.cause + bracket):
            said = verdict.reason.removesuffix(verdict.cause + bracket).rstrip("; ")
            return (
                said.removesuffix("(").rstrip() if said.endswith("(") else said + bracket
            ) or verdict.reason
    return verdict.reason


def cause_of(verdict: Verdict) -> tuple[Fact, ...]:
    """Return what the culprit did and how sure that is; nothing where nobody is named."""
    if verdict.cause:
        sure = f" ({verdict.sureness})" if verdict.sureness is not None else ""
        return ((f"cause{sure}", verdict.cause),)
    return (("sureness", str(verdict.sureness)),) if verdict.sureness is not None else ()


def evidence_of(verdict: Verdict, most: int | None = None) -> tuple[Fact, ...]:
    """Return what the blame rests on, the strongest first; of more than ``most`` the others are counted."""
    shown = verdict.evidence if most is None else verdict.evidence[:most]
    left = len(verdict.evidence) - len(shown)
    if not shown:
        return ()
    last = f"{shown[-1]} (and {left} more)" if left else shown[-1]
    return tuple(("evidence", text) for text in (*shown[:-1], last))


def place_of(verdict: Verdict) -> tuple[Fact, ...]:
    """Return the line of the user's code at which it happened."""
    return (("where", verdict.where),) if verdict.where else ()


def victims_of(verdict: Verdict) -> tuple[Fact, ...]:
    """Return the ranks that failed or waited for want of another."""
    return (("suffered from it", ranks_of(verdict.victims)),) if verdict.victims else ()


def facts_of(verdict: Verdict) -> tuple[Fact, ...]:
    """Return all that a report in plain lines says of an arm: JUnit, a merge request, an annotation."""
    production = production_bound_of(verdict)
    facts = (
        ("status", words(verdict.status)),
        ("outcome", outcome_of(verdict)),
        ("culprit", culprits_of(verdict)),
        ("reason", reason_of(verdict)),
        *cause_of(verdict),
        *evidence_of(verdict),
        ("operation", operation(verdict.at) if verdict.at is not None else ""),
        *place_of(verdict),
        *victims_of(verdict),
        ("latency", latency_of(verdict)),
        ("production bound", f"{production} (extrapolated, not measured)" if production else ""),
        ("ended by", ", ".join(verdict.ended_by)),
        ("the others waited for", ", ".join(str(c) for c in verdict.stragglers)),
        *(("note", note) for note in verdict.notes),
        ("backend", verdict.backend),
        ("profile", verdict.profile),
        ("attempt", str(verdict.attempt) if verdict.attempt > 1 else ""),
        ("rerun", verdict.rerun),
    )
    return tuple((label, value) for label, value in facts if value)


def origin_of(seed: int | None, torch: str) -> str:
    """Return what a run can be told by: its seed, and the version of torch where that is known."""
    said = "several seeds" if seed is None else f"seed {seed}"
    return f"{said}, torch {torch}" if torch else said


def closer_look(run_dir: str) -> str:
    """Return the command that writes the report to look at."""
    return shlex.join(["chaoskit", "report", run_dir, "--html"])


def ranks_of(ranks: Iterable[int]) -> str:
    """Return ``rank 2``, ``ranks 0, 2`` or, for many in a row, ``ranks 0-63, 70``."""
    ordered = sorted(set(ranks))
    parts: list[str] = []
    while ordered:
        first = last = ordered.pop(0)
        while ordered and ordered[0] == last + 1:
            last = ordered.pop(0)
        run = range(first, last + 1)
        parts += [f"{first}-{last}"] if len(run) > 2 else [str(r) for r in run]
    noun = "rank" if len(parts) == 1 and "-" not in parts[0] else "ranks"
    return f"{noun} {', '.join(parts)}"


def end_of(exit_code: int | None) -> str:
    """Return how a process ended: ``exit 1``, ``SIGKILL``; None is one that chaoskit had to end."""
    if exit_code is None:
        return "ended by chaoskit"
    if exit_code >= 0:
        return f"exit {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def latency_of(verdict: Verdict) -> str:
    """Return the latency against the bound: ``87 ms of 2 s``; '' where there is neither."""
    if verdict.latency_s is not None:
        if verdict.outcome == "not_injected":
            return ""  # counted from nothing
        if verdict.outcome in _NO_BOUND:
            return seconds(verdict.latency_s)
        bound = f" of {seconds(verdict.bound_s)}" if verdict.bound_s is not None else ""
        return seconds(verdict.latency_s) + bound
    return f"bound {seconds(verdict.bound_s)}" if verdict.bound_s is not None else ""


def production_bound_of(verdict: Verdict) -> str:
    """Return the bound with the profile's own durations where the run used shortened ones."""
    production = verdict.production_bound_s
    if production is None or (verdict.bound_s is not None and math.isclose(production, verdict.bound_s)):
        return ""
    return f"in production ~{seconds(production)}" if verdict.arm != "control" else ""
