"""From the options of ``chaoskit run``, as typed, to a request; every problem is found before any is said."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chaoskit.cli import keyword_expression, outputs
from chaoskit.cli.option_values import (
    BACKENDS,
    RANKS_MAX,
    SEED_MAX,
    Found,
    Library,
    as_typed,
    did_you_mean,
)
from chaoskit.cli.outputs import Outputs
from chaoskit.cli.program import ProgramOptions, read_program, read_ranks
from chaoskit.cli.reporting import Format, read_format
from chaoskit.gpu.sharing import WAYS
from chaoskit.model import Launcher, Scenario, Workload
from chaoskit.request import RunRequest

REPEATS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user typed. None: not given."""

    selectors: tuple[str, ...] = ()
    keyword: str | None = None
    stop_at_first: bool = False
    script: str | None = None
    module: str | None = None
    launcher: str | None = None
    within: str | None = None
    behind: tuple[str, ...] | None = None
    profile: str | None = None
    arms: tuple[str, ...] = ()
    backend: str | None = None
    ranks: str | None = None
    jobs: str | None = None
    seed: str | None = None
    repeat: str | None = None
    timeout: str | None = None
    time_scale: str | None = None
    require: tuple[str, ...] = ()
    runs_dir: str = "runs"
    form: str = "text"
    junit: str | None = None
    html: str | None = None
    markdown: str | None = None
    github: bool = False
    native: bool = False
    gpu_sharing: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: the request, and how to report."""

    request: RunRequest
    form: Format
    outputs: Outputs = outputs.NONE


def read(options: RunOptions, library: Library) -> Asked:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = Found(library)
    scenarios = chosen_scenarios(options.selectors or ("all",), options.keyword, found)
    program, launcher = _program(options, found)
    request = RunRequest(
        scenarios=scenarios,
        profile=found.profile(options.profile),
        arms=_arms(options.arms, scenarios, found),
        backend=found.one_of("--backend", options.backend, BACKENDS),
        ranks=read_ranks(options.ranks, program, found),
        jobs=found.whole("--jobs", options.jobs, 1, RANKS_MAX),
        seed=found.whole("--seed", options.seed, 0, SEED_MAX),
        repeat=found.whole("--repeat", options.repeat, 1, REPEATS_MAX) or 1,
        timeout_s=found.duration("--timeout", options.timeout),
        time_scale=time_scale(options.time_scale, found),
        require=_require(options.require, found),
        runs_dir=found.runs_dir(options.runs_dir),
        stop_at_first=options.stop_at_first,
        command=as_typed(),
        program=program,
        launcher=launcher,
        stall_s=found.duration("--within", options.within),
        native=options.native,
        gpu_sharing=found.one_of("--gpu-sharing", options.gpu_sharing, WAYS),
    )
    form, wrong = read_format(options.form)
    found.problems += wrong
    reports = outputs.read(options.html, options.markdown, options.junit, options.github)
    found.problems += reports.problems()
    found.raise_any()
    return Asked(request, form, reports)


def chosen_scenarios(names: tuple[str, ...], keyword: str | None, found: Found) -> tuple[Scenario, ...]:
    """Return the scenarios that are named and match ``keyword``."""
    chosen = found.attempt(lambda: found.library.select(list(names))) or []
    if keyword is None:
        return tuple(chosen)
    try:
        matches = keyword_expression.parse(keyword)
    except ValueError as error:
        found.add(f"-k {keyword!r}: {error}", "words joined by and, or, not and parentheses")
        return tuple(chosen)
    kept = tuple(s for s in chosen if matches((s.name, s.family, *s.tags)))
    if chosen and not kept:
        found.add(f"-k {keyword!r} matches none of {len(chosen)} scenarios", "see: chaoskit list")
    return kept


def _program(options: RunOptions, found: Found) -> tuple[Workload | None, Launcher | None]:
    """The user's own program and its launcher. Either may be given alone: a file may name the other."""
    given = ProgramOptions(options.script, options.module, options.launcher, options.behind)
    program, launcher = read_program(given, found)
    if options.behind and options.script is None and options.module is None and launcher != "command":
        found.add(
            f"what stands behind -- ({options.behind[0]} ...) belongs to a program, and none is given",
            "add --script FILE or --module NAME; names of scenarios go before --",
        )
    return program, launcher


def _arms(names: tuple[str, ...], scenarios: tuple[Scenario, ...], found: Found) -> tuple[str, ...]:
    known = dict.fromkeys(arm.name for scenario in scenarios for arm in scenario.arms)
    for name in names:
        if known and name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            found.add(f"--arm {name!r}: no scenario chosen has an arm of that name", hint)
    return names


def _require(names: tuple[str, ...], found: Found) -> tuple[str, ...]:
    known = [*BACKENDS, *(found.library.capabilities() if names else ())]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(dict.fromkeys(known))}"
            found.add(f"--require {name!r}: nothing of that name can be required", hint)
    return names


def time_scale(text: str | None, found: Found) -> float | None:
    """Return the factor of ``--time-scale``; None is *auto*."""
    if text in (None, "auto"):
        return None
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value <= 1000:
        found.add(f"--time-scale {text!r}: expected auto or a number above 0, as 0.01")
        return None
    return value
