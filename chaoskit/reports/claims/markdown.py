"""Claims in Markdown: the page of one torch, and the table over several. What files say stands escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from chaoskit.claims.values import Answer
from chaoskit.reports.claims.page import Page, Row, TrialRow
from chaoskit.reports.wording import plural, safe

LONGEST: Final = 1_500
MEANING: Final = {
    Answer.TRUE: "what is told came in every run; where it is about a setting, it did not come without it",
    Answer.PARTLY: "it came in some of the scenarios, not in others",
    Answer.NO_EFFECT: "with and without the setting the same was seen",
    Answer.NOT_NEEDED: "what is told came without the setting too, though in another way",
    Answer.NOT_SO: "something else was seen than what is told",
    Answer.HARMLESS: "healthy jobs completed with it; nothing more was looked at",
    Answer.HARMFUL: "a healthy job completed without it and not with it, in every run",
    Answer.UNSTEADY: "the runs differ",
    Answer.UNCLEAR: "nothing can be said, for the reason given",
    Answer.NOT_RUN: "not run, for the reason given",
}
_BACKENDS: Final = ("gloo", "nccl")
_SPECIAL = re.compile(r"([\\`*_\[\]|#~@!])")


def render(page: Page) -> str:
    """Return the page of one torch: every claim with what was seen, what breaks healthy jobs first."""
    lines = [
        f"# What the advice does on torch {text(page.torch)}",
        "",
        f"{plural(len(page.rows), 'claim')}, each run {page.repeats} times with and without its setting. "
        f"Python {text(page.python)}, Linux {text(page.kernel)}, {plural(page.cores, 'core')} "
        f"(load {page.load:g} when it began), seed {page.seed}, chaoskit {text(page.chaoskit)}. "
        "Nothing here is more than what was seen in these runs. Times are seconds from the fault to the end "
        "of the ranks that are spoken of.",
        "",
        *[line for backend in _BACKENDS if backend not in page.backends for line in _not_run(page, backend)],
        *(["Interrupted: what was not finished has no answer.", ""] if page.interrupted else []),
        "| claim | what is told | answer | what was seen |",
        "|---|---|---|---|",
    ]
    for row in sorted(page.rows, key=lambda row: _PLACE[row.answer]):
        seen = "<br>".join(_trial(trial) for trial in _distinct(row.trials))
        told = f"{text(row.told)} <br>({text('; '.join(row.source))})"
        lines.append(f"| {_anchor(row)} | {told} | **{row.answer}** | {seen or text(row.says)} |")
    lines += ["", *_legend({row.answer for row in page.rows}), "", *_again(page)]
    return "\n".join(lines) + "\n"


def versions(pages: Sequence[tuple[Page, str]]) -> str:
    """Return the table over several torches; beside each page the name of its file."""
    shown = sorted(pages, key=lambda one: [int(part) for part in re.findall(r"\d+", one[0].version)])
    keys = list(dict.fromkeys((row.name, row.backend) for page, _ in shown for row in page.rows))
    table = [{(row.name, row.backend): row for row in page.rows} for page, _ in shown]
    ran = {backend for page, _ in shown for backend in page.backends}
    differs = [key for key in keys if len(_answers(key, table)) > 1]
    lines = [
        "# What the advice does, by version of torch",
        "",
        "Made of the JSON files beside it by `docs/generate_claims.py`; each of them is what "
        "`make claims TORCH=…` saw on that torch, and stands in full on its own page. "
        "gloo and nccl are kept apart: what has no effect on gloo may have one on nccl.",
        "",
    ]
    lines += [f"**Nothing here was run on {name}.**\n" for name in _BACKENDS if name not in ran]
    heads = [f"[{text(page.torch)}]({file})" for page, file in shown]
    for title, chosen in (("Not the same on all of them", differs), ("The same", keys)):
        rest = [key for key in chosen if chosen is differs or key not in differs]
        if rest:
            lines += [f"## {title}", "", f"| claim | backend | {' | '.join(heads)} |"]
            lines += ["|" + "---|" * (2 + len(heads))]
            lines += [_over_versions(key, table) for key in rest]
            lines += [""]
    found = {row.answer for page, _ in shown for row in page.rows}
    return "\n".join([*lines, *_legend(found)]) + "\n"


def _not_run(page: Page, backend: str) -> list[str]:
    """What is not said here: what has no effect on gloo may have one on NCCL, of which it is told."""
    why = dict(page.not_run).get(backend, "")
    alone = sum(row.meant_for == (backend,) for row in page.rows)
    told = f" {plural(alone, 'claim')} of these are told of {backend} alone: " if alone else ""
    told += f"what is said of them is what they do on {', '.join(page.backends)}." if alone else ""
    return [f"**Not run on {backend}**{f' ({text(why)})' if why else ''}.{told}", ""]


def _answers(key: tuple[str, str], table: Sequence[dict[tuple[str, str], Row]]) -> set[Answer]:
    return {rows[key].answer for rows in table if key in rows}


def _over_versions(key: tuple[str, str], table: Sequence[dict[tuple[str, str], Row]]) -> str:
    cells = [str(rows[key].answer) if key in rows else "" for rows in table]
    meant_for = next(rows[key].meant_for for rows in table if key in rows)
    on = key[1] if key[1] in meant_for else f"{key[1]} (told of {', '.join(meant_for)})"
    return f"| {text(key[0])} | {text(on)} | {' | '.join(cells)} |"


def _distinct(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """Trials that were not run, all for the same reason, are one line."""
    if trials and all(t.answer is Answer.NOT_RUN for t in trials) and len({t.says for t in trials}) == 1:
        return [trials[0]]
    return list(trials)


def _trial(trial: TrialRow) -> str:
    where = f"{trial.scenario}, {trial.timeouts}" if trial.timeouts else trial.scenario
    return f"{text(where)}: {text(trial.says)}"


def _anchor(row: Row) -> str:
    return f"{text(row.name)} [{text(row.backend)}]" if row.backend != "gloo" else text(row.name)


def _legend(found: set[Answer]) -> list[str]:
    return [f"- **{answer}**: {meaning}" for answer, meaning in MEANING.items() if answer in found]


def _again(page: Page) -> list[str]:
    return [
        f"One of them again: `chaoskit claims NAME --seed {page.seed}`. Stacks, output and history of every "
        "run lie in the run directory that it prints; all exit codes and times are in the JSON."
    ]


_PLACE: Final = {
    answer: place
    for place, answer in enumerate(
        (
            Answer.HARMFUL, Answer.NOT_SO, Answer.PARTLY, Answer.UNSTEADY, Answer.UNCLEAR, Answer.NOT_NEEDED,
            Answer.TRUE, Answer.NO_EFFECT, Answer.HARMLESS, Answer.NOT_RUN,
        )
    )
}  # fmt: skip


def text(said: str) -> str:
    """Return ``said`` so that Markdown finds nothing in it: no HTML, no links, no mentions, no cells."""
    shown = safe(said, longest=LONGEST)
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", shown).replace("://", ":\u200b//")
