"""From the options of ``chaoskit matrix`` to a request; every problem is found before any is said."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from chaoskit.cli.option_values import Found, Library, as_typed, did_you_mean
from chaoskit.cli.reporting import Format, read_format
from chaoskit.cli.shared_options import (
    OF_THIS_RUN,
    SharedOptions,
    as_words,
    chosen_scenarios,
    from_anywhere,
    read_shared,
)
from chaoskit.matrix import asking, columns
from chaoskit.matrix.request import MatrixRequest
from chaoskit.matrix.values import NONE, PROFILE, Column
from chaoskit.model import Profile, Scenario
from chaoskit.redacting import Redactor
from chaoskit.reports import output_file
from chaoskit.secret_shapes import HIDDEN

REPEATS_MAX = 1000
_FORMS = ("alone", "without")
_REMEMBERED = tuple(f.name for f in dataclasses.fields(SharedOptions) if f.name not in OF_THIS_RUN)
"""What a matrix that is gone on with is asked again, where it is not given anew; and its columns."""


@dataclass(frozen=True, slots=True)
class MatrixOptions(SharedOptions):
    """What the user typed. None: not given."""

    columns: tuple[str, ...] = ()
    resume: str | None = None
    html: str | None = None
    markdown: str | None = None
    json: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: the request, and the files that get a copy of a report. ``profile`` is how the user
    called it."""

    request: MatrixRequest
    form: Format
    copies: tuple[tuple[str, Path], ...]
    profile: str | None = None


def read(options: MatrixOptions, library: Library) -> Asked:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = Found(library)
    folder = None if options.resume is None else Path(options.resume)
    if folder is not None:
        options = found.attempt(lambda: _with_remembered(options, folder)) or options
        found.raise_any()
    scenarios = chosen_scenarios(options.selectors, options.keyword, found)
    run = read_shared(options, scenarios, found, REPEATS_MAX)
    chosen = _columns(options.columns, scenarios, run.profile, found)
    form, wrong = read_format(options.form)
    found.problems += wrong
    copies = _copies(options, found)
    behind = options.behind or ()
    if any(HIDDEN in word for word in behind):
        found.add(
            "secrets among the arguments of the program were not kept", "give all of them again: -- ARGS"
        )
    found.raise_any()
    redactor = Redactor.of(os.environ, words=behind)
    request = MatrixRequest(
        run=dataclasses.replace(run, command=redactor.command(as_typed())),
        columns=chosen,
        folder=folder,
        asked=_asked(options, redactor),
        again=("chaoskit", "matrix", *as_words(options)),
        behind=("--", *redactor.words(behind)) if behind else (),
    )
    return Asked(request, form, copies, options.profile)


def _with_remembered(options: MatrixOptions, folder: Path) -> MatrixOptions:
    """The options with those of the matrix in ``folder`` where they are not given."""
    known = asking.read(folder)
    for name in _of_another_program(options, known):
        known.pop(name, None)
    plain = MatrixOptions()
    changes: dict[str, str | tuple[str, ...]] = {}
    for name in (*_REMEMBERED, "columns"):
        if getattr(options, name) == getattr(plain, name) and name in known:
            changes[name] = known[name]
    return dataclasses.replace(options, **changes)  # type: ignore[arg-type]  # asking.read knows the kinds


def _of_another_program(options: MatrixOptions, known: asking.Options) -> tuple[str, ...]:
    """The options that are remembered of a program whose place another takes. Its arguments stay, except
    those of a whole command."""
    given = options.script is not None or options.module is not None
    was_command = known.get("launcher") == "command"
    if given and was_command and options.launcher is None:
        return ("launcher", "behind")
    if options.launcher is not None and (options.launcher == "command") != was_command:
        return ("script", "module", "behind")
    return ("script", "module") if given else ()


def _asked(options: MatrixOptions, redactor: Redactor) -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    """What was given, with files that can be found from anywhere, and without secrets."""
    given = {name: from_anywhere(name, getattr(options, name)) for name in (*_REMEMBERED, "columns")}
    given["behind"] = redactor.words(options.behind or ())
    return tuple((name, value) for name, value in given.items() if value)


def _columns(
    names: tuple[str, ...], scenarios: tuple[Scenario, ...], profile: Profile | None, found: Found
) -> tuple[Column, ...]:
    """The columns that are named: ``alone``, ``without``, ``alone-GUARD``, ``without-GUARD``, ``none``."""
    if not names:
        return ()
    parts = found.attempt(
        lambda: dict.fromkeys(p for s in scenarios for p in columns.parts_of(columns.tested(s, profile)))
    )
    known = {column.name: column for column in (NONE, PROFILE, Column("alone"), Column("without"))}
    known |= {c.name: c for part in parts or () for form in _FORMS for c in [_column(form, part)]}
    chosen = []
    for name in names:
        if name in known:
            chosen.append(known[name])
        elif scenarios and parts is not None:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            found.add(f"--column {name!r}: there is no column of that name", hint)
    return tuple(chosen)


def _column(form: str, part: str) -> Column:
    return Column("alone", part) if form == "alone" else Column("without", part)


def _copies(options: MatrixOptions, found: Found) -> tuple[tuple[str, Path], ...]:
    given = (("--html", options.html), ("--markdown", options.markdown), ("--json", options.json))
    copies = tuple((option, Path(text)) for option, text in given if text is not None)
    for option, path in copies:
        found.problems += output_file.problems(path, option)
    paths = [os.path.realpath(path) for _, path in copies if not output_file.is_special(path)]
    for twice in dict.fromkeys(p for p in paths if paths.count(p) > 1):
        found.add(f"{twice} is given for several reports", "give each a file of its own")
    return copies
