"""What was found wrong with profiles: text in the style of a compiler, JSON, and annotations for GitHub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from chaoskit.checking.case import Case, Subject
from chaoskit.checking.finding import Finding, Level
from chaoskit.checking.target import Target
from chaoskit.model import JsonValue
from chaoskit.profiles.variable import NEWEST
from chaoskit.reports.annotations import annotation
from chaoskit.reports.wording import plural

SCHEMA_VERSION: Final = 1
_GITHUB: Final = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}
_SHOWN_BY_GITHUB: Final = 10


@dataclass(frozen=True, slots=True)
class Checked:
    """One file, and what is to be said of it."""

    subject: Subject
    target: Target
    findings: tuple[Finding, ...]

    def count(self, level: Level) -> int:
        return sum(f.level is level for f in self.findings)


def text(checked: Checked) -> str:
    """Return the findings, one and its hint in a few lines, and a last line that counts them."""
    return "\n".join([*(_said(f, checked.subject.file) for f in checked.findings), summary(checked)])


def _said(finding: Finding, file: str) -> str:
    where = f"{file}:{finding.line}" if finding.line else file
    hint = f"\n    {finding.hint}" if finding.hint else ""
    return f"{where}: {finding.level}: {_message(finding)} [{finding.rule}]{hint}"


def _message(finding: Finding) -> str:
    if not finding.subject or finding.message.startswith(finding.subject):
        return finding.message
    return f"{finding.subject}: {finding.message}"


def summary(checked: Checked) -> str:
    """Return what was found and against what it was checked, in one line."""
    counted = Counter(f.level for f in checked.findings)
    said = [plural(counted[level], level.value) for level in Level if counted[level]]
    return f"{checked.subject.file}: {', '.join(said) or 'nothing found'} ({against(checked)})"


def against(checked: Checked) -> str:
    target = checked.target
    if target.torch is None:
        torch = "no torch is installed: what depends on it was not checked; --torch names one"
    else:
        torch = f"torch {target.torch_said}"
        if target.torch > NEWEST:
            torch += f", newer than what is known here ({'.'.join(map(str, NEWEST))})"
    return f"{torch}; {', '.join(Case(checked.subject, target).implementations)}"


def as_json(files: Sequence[Checked]) -> JsonValue:
    return {"schema_version": SCHEMA_VERSION, "files": [_entry(one) for one in files]}


def _entry(checked: Checked) -> JsonValue:
    subject, target = checked.subject, checked.target
    return {
        "file": subject.file,
        "kind": subject.kind,
        "torch": target.torch_said,
        "nccl": ".".join(map(str, target.nccl)) if target.nccl is not None else "",
        "implementations": list(Case(subject, target).implementations),
        "errors": checked.count(Level.ERROR),
        "warnings": checked.count(Level.WARNING),
        "notes": checked.count(Level.NOTE),
        "findings": [{**asdict(f), "level": f.level.value} for f in checked.findings],
    }


def github(files: Sequence[Checked]) -> Iterator[str]:
    """Yield annotations; GitHub shows ten of each level, so the last of more counts the rest."""
    for level, name in _GITHUB.items():
        found = [(one, f) for one in files for f in one.findings if f.level is level]
        shown = found if len(found) <= _SHOWN_BY_GITHUB else found[: _SHOWN_BY_GITHUB - 1]
        for one, finding in shown:
            file = "" if one.subject.kind == "environment" else one.subject.file
            said = _message(finding) + (f"\n{finding.hint}" if finding.hint else "")
            yield annotation(name, f"chaoskit: {finding.rule}", said, file, finding.line)
        if left := len(found) - len(shown):
            yield annotation(name, "chaoskit", f"{left} more; GitHub shows {_SHOWN_BY_GITHUB} of each kind")
