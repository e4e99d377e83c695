"""From the options of ``chaoskit matrix`` to a request; every problem is found before any is said."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from chaoskit.cli.option_values import (
    BACKENDS,
    RANKS_MAX,
    SEED_MAX,
    Found,
    Library,
    as_typed,
    did_you_mean,
)
from chaoskit.cli.reporting import Format, read_format
from chaoskit.cli.run_options import chosen_scenarios, time_scale
from chaoskit.gpu.sharing import WAYS
from chaoskit.matrix import asking, columns
from chaoskit.matrix.request import MatrixRequest
from chaoskit.matrix.values import NONE, PROFILE, Column
from chaoskit.model import Profile, Scenario
from chaoskit.reports import output_file
from chaoskit.scenario.selection import is_file

REPEATS_MAX = 1000
_FORMS = ("alone", "without")


@dataclass(frozen=True, slots=True)
class MatrixOptions:
    """What the user typed. None: not given."""

    selectors: tuple[str, ...] = ()
    keyword: str | None = None
    profile: str | None = None
    columns: tuple[str, ...] = ()
    backend: str | None = None
    ranks: str | None = None
    jobs: str | None = None
    seed: str | None = None
    repeat: str | None = None
    timeout: str | None = None
    time_scale: str | None = None
    require: tuple[str, ...] = ()
    gpu_sharing: str | None = None
    runs_dir: str = "runs"
    resume: str | None = None
    form: str = "text"
    html: str | None = None
    markdown: str | None = None
    json: str | None = None


_REMEMBERED = (
    "selectors", "keyword", "profile", "columns", "backend", "ranks", "seed", "repeat", "timeout",
    "time_scale", "require", "gpu_sharing",
)  # fmt: skip
"""What a matrix that is gone on with is asked again, where it is not given anew."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: the request, and the files that get a copy of a report."""

    request: MatrixRequest
    form: Format
    copies: tuple[tuple[str, Path], ...]


def read(options: MatrixOptions, library: Library) -> Asked:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = Found(library)
    folder = None if options.resume is None else Path(options.resume)
    if folder is not None:
        options = found.attempt(lambda: _with_remembered(options, folder)) or options
        found.raise_any()
    scenarios = chosen_scenarios(options.selectors or ("all",), options.keyword, found)
    profile = found.profile(options.profile)
    request = MatrixRequest(
        scenarios=scenarios,
        profile=profile,
        columns=_columns(options.columns, scenarios, profile, found),
        backend=found.one_of("--backend", options.backend, BACKENDS),
        ranks=found.whole("--ranks", options.ranks, 1, RANKS_MAX),
        jobs=found.whole("--jobs", options.jobs, 1, RANKS_MAX),
        seed=found.whole("--seed", options.seed, 0, SEED_MAX),
        repeat=found.whole("--repeat", options.repeat, 1, REPEATS_MAX) or 1,
        timeout_s=found.duration("--timeout", options.timeout),
        time_scale=time_scale(options.time_scale, found),
        require=_require(options.require, found),
        gpu_sharing=found.one_of("--gpu-sharing", options.gpu_sharing, WAYS),
        runs_dir=found.runs_dir(options.runs_dir),
        folder=folder,
        asked=_asked(options),
        command=as_typed(),
        again=_again(options),
    )
    form, wrong = read_format(options.form)
    found.problems += wrong
    copies = _copies(options, found)
    found.raise_any()
    return Asked(request, form, copies)


def _with_remembered(options: MatrixOptions, folder: Path) -> MatrixOptions:
    """The options with those of the matrix in ``folder`` where they are not given."""
    known = asking.read(folder)
    plain = MatrixOptions()
    changes: dict[str, str | tuple[str, ...]] = {}
    for name in _REMEMBERED:
        if getattr(options, name) == getattr(plain, name) and name in known:
            changes[name] = known[name]
    return dataclasses.replace(options, **changes)  # type: ignore[arg-type]  # asking.read knows the kinds


def _asked(options: MatrixOptions) -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    """What was given, with files that can be found from anywhere."""
    given = {name: getattr(options, name) for name in _REMEMBERED}
    given["selectors"] = tuple(os.path.abspath(s) if is_file(s) else s for s in options.selectors)
    if options.profile is not None:
        given["profile"] = _absolute(options.profile)
    return tuple((name, value) for name, value in given.items() if value)


def _absolute(profile: str) -> str:
    return os.path.abspath(profile) if is_file(profile) else profile


def _again(options: MatrixOptions) -> tuple[str, ...]:
    """How a cell is run again, but for its scenario and column."""
    words = ["chaoskit", "matrix"]
    for option, value in (
        ("--profile", options.profile and _absolute(options.profile)),
        ("--backend", options.backend),
        ("--ranks", options.ranks),
        ("--repeat", options.repeat),
        ("--timeout", options.timeout),
        ("--time-scale", options.time_scale),
        ("--gpu-sharing", options.gpu_sharing),
    ):
        words += [option, value] if value else []
    return tuple(words)


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


def _require(names: tuple[str, ...], found: Found) -> tuple[str, ...]:
    known = [*BACKENDS, *(found.library.capabilities() if names else ())]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(dict.fromkeys(known))}"
            found.add(f"--require {name!r}: nothing of that name can be required", hint)
    return names


def _copies(options: MatrixOptions, found: Found) -> tuple[tuple[str, Path], ...]:
    given = (("--html", options.html), ("--markdown", options.markdown), ("--json", options.json))
    copies = tuple((option, Path(text)) for option, text in given if text is not None)
    for option, path in copies:
        found.problems += output_file.problems(path, option)
    paths = [os.path.realpath(path) for _, path in copies if not output_file.is_special(path)]
    for twice in dict.fromkeys(p for p in paths if paths.count(p) > 1):
        found.add(f"{twice} is given for several reports", "give each a file of its own")
    return copies
