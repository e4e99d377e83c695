"""What a claims JSON says, as values: for the pages that are made of it, and to compare two of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoskit.claims.values import Answer
from chaoskit.errors import InvalidInput, Problem
from chaoskit.reports.claims.json_output import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class TrialRow:
    """What one scenario showed of a claim."""

    scenario: str
    timeouts: str
    answer: Answer
    says: str


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a claim on one backend."""

    name: str
    backend: str
    told: str
    source: tuple[str, ...]
    setting: tuple[str, ...]
    meant_for: tuple[str, ...]
    answer: Answer
    says: str
    trials: tuple[TrialRow, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """One run of claims."""

    torch: str
    python: str
    kernel: str
    cores: int
    load: float
    chaoskit: str
    repeats: int
    seed: int
    wall_s: float
    interrupted: bool
    run_dir: str
    rows: tuple[Row, ...]
    not_run: tuple[tuple[str, str], ...] = ()  # backends, and why

    @property
    def backends(self) -> tuple[str, ...]:
        """On which the claims were run."""
        return tuple(dict.fromkeys(row.backend for row in self.rows))

    @property
    def version(self) -> str:
        """The release of torch that the page is named after: ``2.13``."""
        return ".".join(self.torch.partition("+")[0].split(".")[:2])


def read(text: str, file: str) -> Page:
    """Return what the JSON ``text`` says. Raises InvalidInput where it is none of ours."""
    try:
        raw = json.loads(text)
        if raw["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"its schema_version is {raw['schema_version']!r}, not {SCHEMA_VERSION}")
        return Page(
            _text(raw["torch"]), _text(raw["python"]), _text(raw["kernel"]), int(raw["cores"]),
            float(raw["load"]), _text(raw["chaoskit"]), int(raw["repeats"]), int(raw["seed"]),
            float(raw["wall_s"]), bool(raw["interrupted"]), _text(raw["run_dir"]),
            tuple(_row(one) for one in raw["claims"]),
            tuple((_text(key), _text(why)) for key, why in raw.get("not_run", {}).items()),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
        hint = "give a file that `chaoskit claims --json FILE` has written"
        raise InvalidInput([Problem(f"is no JSON of claims: {why}", file, hint=hint)]) from None


def load(path: Path) -> Page:
    """Return the page in a file. Raises InvalidInput."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput([Problem(f"cannot be read: {reason}", str(path))]) from None
    return read(text, str(path))


def _row(raw: dict[str, Any]) -> Row:
    trials = tuple(
        TrialRow(_text(t["scenario"]), _text(t["timeouts"]), Answer(t["answer"]), _text(t["says"]))
        for t in raw["trials"]
    )
    source, setting, meant_for = (tuple(map(_text, raw[key])) for key in ("source", "setting", "meant_for"))
    return Row(
        _text(raw["name"]), _text(raw["backend"]), _text(raw["told"]), source, setting, meant_for,
        Answer(raw["answer"]), _text(raw["says"]), trials,
    )  # fmt: skip


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise TypeError(f"{raw!r:.40} is no text")
    return raw


_NO_ANSWER = frozenset({Answer.NOT_RUN, Answer.UNCLEAR, Answer.UNSTEADY})


def compared(before: Page, now: Page) -> list[tuple[Row, Row]]:
    """Return the claims that have an answer in both."""
    known = {(row.name, row.backend): row for row in before.rows}
    pairs = ((known[row.name, row.backend], row) for row in now.rows if (row.name, row.backend) in known)
    return [(a, b) for a, b in pairs if not {a.answer, b.answer} & _NO_ANSWER]


def changed(before: Page, now: Page) -> list[tuple[Row, Row]]:
    """Return the claims that have an answer in both and not the same one."""
    return [(a, b) for a, b in compared(before, now) if a.answer is not b.answer]


def unanswered(page: Page) -> Sequence[Row]:
    """Return the claims that were run and have no answer."""
    return [row for row in page.rows if row.answer in (Answer.UNCLEAR, Answer.UNSTEADY)]
