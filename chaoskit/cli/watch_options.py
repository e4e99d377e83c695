"""From the options of ``chaoskit watch``, as typed, to a request, or to all that is wrong with them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from chaoskit.cli import outputs
from chaoskit.cli.option_values import Found, Library, as_typed
from chaoskit.cli.outputs import Outputs
from chaoskit.cli.program import ProgramOptions, read_program, read_ranks
from chaoskit.cli.reporting import Format, read_format
from chaoskit.model import Launcher, Workload
from chaoskit.request import WatchRequest

_NO_PROGRAM = Workload("")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What the user typed. None: not given."""

    words: tuple[str, ...] = ()
    module: str | None = None
    behind: tuple[str, ...] | None = None
    launcher: str | None = None
    ranks: str | None = None
    profile: str | None = None
    within: str | None = None
    timeout: str | None = None
    backend: str = "gloo"
    seed: str | None = None
    runs_dir: str = "runs"
    form: str = "text"
    junit: str | None = None
    html: str | None = None
    markdown: str | None = None
    github: bool = False
    native: bool = False


@dataclass(frozen=True, slots=True)
class AskedToWatch:
    """What is to be done: the request, and how to report."""

    request: WatchRequest
    form: Format
    outputs: Outputs = outputs.NONE


def read(options: WatchOptions, library: Library) -> AskedToWatch:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    found = Found(library)
    program, launcher = _program(options, found)
    request = WatchRequest(
        program=program or _NO_PROGRAM,
        launcher=launcher,
        profile=found.profile(options.profile),
        timeout_s=found.duration("--timeout", options.timeout),
        backend=found.backend(options.backend) or "gloo",
        seed=found.seed(options.seed),
        runs_dir=found.runs_dir(options.runs_dir),
        command=as_typed(),
        native=options.native,
    )
    ranks = read_ranks(options.ranks, program, found)
    stall_s = found.duration("--within", options.within)
    if ranks is not None:
        request = dataclasses.replace(request, ranks=ranks)
    if stall_s is not None:
        request = dataclasses.replace(request, stall_s=stall_s)
    form, wrong = read_format(options.form)
    found.problems += wrong
    reports = outputs.read(options.html, options.markdown, options.junit, options.github)
    found.problems += reports.problems()
    found.raise_any()
    return AskedToWatch(request, form, reports)


def _program(options: WatchOptions, found: Found) -> tuple[Workload | None, Launcher | None]:
    """The program; words behind ``--`` without a program before it are a whole command."""
    script = options.words[0] if options.words else None
    if len(options.words) > 1:
        found.add(
            f"one script, and then {' '.join(options.words[1:])!r}",
            f"its arguments go behind --: chaoskit watch {script} -- {' '.join(options.words[1:])}",
        )
        return None, None
    alone = script is None and options.module is None
    if alone and not options.behind and options.launcher != "command":
        found.add(
            "no program to watch",
            "as chaoskit watch train.py, chaoskit watch -m pkg.train, or chaoskit watch -- torchrun ...",
        )
        return None, None
    launcher = options.launcher or ("command" if alone else None)
    if alone and launcher != "command":
        found.add(
            f"--launcher {launcher}: starts a script or a module, and there is none before --",
            "as chaoskit watch train.py --launcher torchrun -- ARGS",
        )
        return None, None
    return read_program(ProgramOptions(script, options.module, launcher, options.behind), found)
