"""The options that ``run`` and ``matrix`` have in common: how they are typed, and what they come to.

An option of a run that a matrix has as well is added here and nowhere else: a field, its words for click, and
how it is read. ``plan`` reads its own options of the same names by this, too.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from chaoskit.cli import keyword_expression
from chaoskit.cli.option_values import BACKENDS, Found, as_typed, did_you_mean
from chaoskit.cli.program import ProgramOptions, read_program, read_ranks
from chaoskit.model import Launcher, Scenario, Workload
from chaoskit.request import RunRequest

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """What the user typed. None: not given."""

    selectors: tuple[str, ...] = ()
    keyword: str | None = None
    script: str | None = None
    module: str | None = None
    launcher: str | None = None
    within: str | None = None
    behind: tuple[str, ...] | None = None
    profile: str | None = None
    backend: str | None = None
    ranks: str | None = None
    gpu_sharing: str | None = None
    jobs: str | None = None
    seed: str | None = None
    repeat: str | None = None
    timeout: str | None = None
    time_scale: str | None = None
    require: tuple[str, ...] = ()
    native: bool = False
    runs_dir: str = "runs"
    form: str = "text"


OF_THIS_RUN: Final = frozenset({"jobs", "native", "runs_dir", "form"})
"""Options that change no result: they are no part of what is asked again."""


def shared_options(*, one: str, profile: str, repeat: str, runs_dir: str) -> Callable[[F], F]:
    """Return a decorator that gives a click command the options. ``one`` is what is run (an arm, a cell), the
    others are the help texts that differ. The command's class is ProgramCommand, which reads ``behind``."""
    texts: tuple[tuple[tuple[str, ...], str, str], ...] = (
        (("--script",), "FILE", "Run this script of yours in place of each scenario's workload, with ARGS. "
         "It needs no change."),
        (("--module",), "NAME", "The same for a module, as for python -m."),
        (("--launcher",), "forkserver|torchrun|command", "What starts the ranks (default: forkserver). With "
         "command, ARGS are the whole command line."),
        (("--within",), "DURATION", "Time without any progress that your program may take before its fault "
         "(default: chosen for it)."),
        (("-k", "keyword"), "EXPR",
         "Keep scenarios whose name, family or tags match: 'memory and not cgroup'."),
        (("--profile",), "NAME|FILE", profile),
        (("--backend",), "gloo|nccl", "Use this backend instead of the scenario's."),
        (("--ranks", "--nproc-per-node", "ranks"), "N", "Start N ranks instead of the scenario's number."),
        (("--gpu-sharing",), "auto|host-ids|multi-rank", "How ranks share a GPU on nccl, where there are "
         "fewer GPUs than ranks (default: the scenario's)."),
        (("--jobs",), "N", f"At most N busy {one}s at a time (default: the number of cores)."),
        (("--seed",), "S", "The seed of everything random (default: drawn, and printed)."),
        (("--repeat",), "N", repeat),
        (("--timeout",), "DURATION", f"Bound each {one}, as 30s or 2m."),
        (("--time-scale",), "X|auto", "Multiply the profiles' durations by X (default: auto)."),
    )  # fmt: skip
    many = "A skip for want of WHAT is inconclusive. May be repeated."
    native = "Of a rank that hangs, read the stacks of native code too (slower)."
    added: list[Callable[[F], F]] = [
        click.argument("selectors", nargs=-1, metavar="[NAME|PATH|tag:TAG|all]..."),
        *(click.option(*names, metavar=metavar, help=text) for names, metavar, text in texts),
        click.option("--require", multiple=True, metavar="WHAT", help=many),
        click.option("--native", is_flag=True, help=native),
        click.option("--runs-dir", default="runs", show_default=True, metavar="DIR", help=runs_dir),
        click.option(
            "--format", "form", default="text", show_default=True, metavar="text|json",
            help="What stdout gets.",
        ),
    ]  # fmt: skip

    def decorate(command: F) -> F:
        for option in reversed(added):
            command = option(command)
        return command

    return decorate


def read_shared(
    options: SharedOptions, scenarios: tuple[Scenario, ...], found: Found, repeats_max: int
) -> RunRequest:
    """Return the request for ``scenarios``; what is wrong with the options is added to ``found``."""
    program, launcher = _program(options, found)
    return RunRequest(
        scenarios=scenarios,
        profile=found.profile(options.profile),
        backend=found.backend(options.backend),
        ranks=read_ranks(options.ranks, program, found),
        jobs=found.jobs(options.jobs),
        seed=found.seed(options.seed),
        repeat=found.whole("--repeat", options.repeat, 1, repeats_max) or 1,
        timeout_s=found.duration("--timeout", options.timeout),
        time_scale=_time_scale(options.time_scale, found),
        require=_require(options.require, found),
        runs_dir=found.runs_dir(options.runs_dir),
        command=as_typed(),
        program=program,
        launcher=launcher,
        stall_s=found.duration("--within", options.within),
        native=options.native,
        gpu_sharing=found.gpu_sharing(options.gpu_sharing),
    )


def chosen_scenarios(names: tuple[str, ...], keyword: str | None, found: Found) -> tuple[Scenario, ...]:
    """Return the scenarios that are named (none named: all) and match ``keyword``."""
    chosen = found.attempt(lambda: found.library.select(list(names or ("all",)))) or []
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


def as_words(options: SharedOptions) -> tuple[str, ...]:
    """Return the options as they are typed, but for the scenarios, the seed and what changes no result; and
    without what stands behind ``--``. Files are named so that they are found from anywhere."""
    words: list[str] = []
    for one in dataclasses.fields(SharedOptions):
        if one.name in OF_THIS_RUN | {"selectors", "keyword", "seed", "behind"}:
            continue
        value = from_anywhere(one.name, getattr(options, one.name))
        for text in value if isinstance(value, tuple) else (value,) if value else ():
            words += [f"--{one.name.replace('_', '-')}", text]
    return tuple(words)


def from_anywhere(name: str, value: Any) -> Any:
    """Return the value of the option ``name`` with absolute paths where it names files."""
    from chaoskit.scenario.selection import is_file

    if name == "selectors":
        return tuple(os.path.abspath(text) if is_file(text) else text for text in value)
    if value and (name == "script" or (name == "profile" and is_file(value))):
        return os.path.abspath(value)
    return value


def _program(options: SharedOptions, found: Found) -> tuple[Workload | None, Launcher | None]:
    """The user's own program and its launcher. Either may be given alone: a file may name the other."""
    given = ProgramOptions(options.script, options.module, options.launcher, options.behind)
    program, launcher = read_program(given, found)
    if options.behind and options.script is None and options.module is None and launcher != "command":
        found.add(
            f"what stands behind -- ({options.behind[0]} ...) belongs to a program, and none is given",
            "add --script FILE or --module NAME; names of scenarios go before --",
        )
    return program, launcher


def _require(names: tuple[str, ...], found: Found) -> tuple[str, ...]:
    known = [*BACKENDS, *(found.library.capabilities() if names else ())]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(dict.fromkeys(known))}"
            found.add(f"--require {name!r}: nothing of that name can be required", hint)
    return names


def _time_scale(text: str | None, found: Found) -> float | None:
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
