"""``chaoskit claims``: runs what people are told about hangs and settings, and says what it really does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from chaoskit.cli.option_values import Found, as_typed, library
from chaoskit.cli.printing import say, say_json
from chaoskit.errors import ChaoskitError, ExitCode

if TYPE_CHECKING:
    from chaoskit.claims.running import ClaimsRequest, Engine
    from chaoskit.claims.values import Claim
    from chaoskit.cli.reporting import Format
    from chaoskit.model import Backend
    from chaoskit.reports.claims.page import Page

REPEATS_MAX = 1_000


@click.command("claims")
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...")
@click.option("--list", "only_list", is_flag=True, help="List the claims; run nothing.")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="gloo|nccl",
    help="Run them on this backend. May be repeated (default: gloo, and nccl where there is a GPU).",
)
@click.option("--repeat", metavar="N", help="Runs of each arm (default: 3; fewer are no answer).")
@click.option("--jobs", metavar="N", help="At most N busy arms at a time (default: the number of cores).")
@click.option("--seed", metavar="S", help="The seed of everything random (default: drawn, and printed).")
@click.option(
    "--runs-dir", default="runs", show_default=True, metavar="DIR", help="Where the run directory is made."
)
@click.option(
    "--format", "form", default="text", show_default=True, metavar="text|json", help="What stdout gets."
)
@click.option("--json", "json_file", metavar="FILE", help="Also write the JSON to FILE.")
@click.option("--markdown", metavar="FILE", help="Also write a page in Markdown to FILE.")
@click.option("--against", metavar="FILE", help="Compare with the JSON of an earlier run, of another torch.")
def claims(**typed: object) -> None:
    """Run what people are told about hangs and settings; say what it does on the torch that is here.

    Each claim is run with and without its setting, three times. Nothing is stated but what was seen.
    FILE is a claim of your own, a YAML file as those in chaoskit/claims/told.

    Exit codes: 0 every claim that was run has an answer, whatever it is; 1 with --against, an answer has
    changed; 2 one has no answer (its runs differ, or show nothing), none could be run, or with --against
    none has an answer in both; 64 wrong usage, 70 chaoskit's own fault, 130 interrupted.

    \b
    chaoskit claims
    chaoskit claims blocking-wait debug-detail
    chaoskit claims --against docs/claims/torch-2.13.json
    """
    from chaoskit import engine

    options = Options(**typed)  # type: ignore[arg-type]  # click gives the fields by name
    if options.only_list:
        _list(options)
        return
    from chaoskit.cli.telling_first import tell_left_out

    asked = read(options)
    tell_left_out(sys.stderr)
    sys.exit(execute(asked, engine.run, sys.stdout, sys.stderr))


@dataclass(frozen=True, slots=True)
class Options:
    """What the user typed. None: not given."""

    names: tuple[str, ...] = ()
    only_list: bool = False
    backends: tuple[str, ...] = ()
    repeat: str | None = None
    jobs: str | None = None
    seed: str | None = None
    runs_dir: str = "runs"
    form: str = "text"
    json_file: str | None = None
    markdown: str | None = None
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be done: the claims, and where it is told."""

    request: ClaimsRequest
    form: Format
    json_file: Path | None
    markdown: Path | None
    against: Page | None


def read(options: Options) -> Asked:
    """Return what the options ask for. Raises InvalidInput with all that is wrong with them."""
    from chaoskit.claims import reading
    from chaoskit.claims.running import ClaimsRequest
    from chaoskit.claims.values import REPEATS_MIN
    from chaoskit.cli.reporting import read_format
    from chaoskit.reports import output_file
    from chaoskit.reports.claims import page

    found = Found(library())
    chosen = found.attempt(lambda: reading.find(options.names)) or []
    backends = [found.backend(one) for one in options.backends]
    form, wrong = read_format(options.form)
    targets = {"--json": options.json_file, "--markdown": options.markdown}
    paths = {option: None if text is None else Path(text) for option, text in targets.items()}
    for option, path in paths.items():
        wrong += [] if path is None else output_file.problems(path, option)
    earlier = options.against
    against = None if earlier is None else found.attempt(lambda: page.load(Path(earlier)))
    absent = () if options.backends else _absent()
    there: tuple[Backend, ...] = ("gloo",) if absent else ("gloo", "nccl")
    request = ClaimsRequest(
        tuple(chosen),
        tuple(dict.fromkeys(one for one in backends if one is not None)) or there,
        found.whole("--repeat", options.repeat, 1, REPEATS_MAX) or REPEATS_MIN,
        found.seed(options.seed),
        found.jobs(options.jobs),
        found.runs_dir(options.runs_dir),
        as_typed(),
        absent,
    )
    found.problems += wrong
    found.raise_any()
    return Asked(request, form, paths["--json"], paths["--markdown"], against)


def _absent() -> tuple[tuple[Backend, str], ...]:
    """NCCL with the reason, where it is not to be had."""
    from chaoskit import capabilities

    nccl = capabilities.find("nccl")
    return () if nccl.available else (("nccl", nccl.detail),)


def _list(options: Options) -> None:
    from chaoskit.claims import reading
    from chaoskit.reports.claims.json_output import setting_text

    chosen = reading.find(options.names)
    if options.form == "json":
        say_json({"claims": [_listed(one) for one in chosen]})
        return
    for one in chosen:
        say(one.name)
        say(f"    {one.told}")
        tried = ", ".join(dict.fromkeys(trial.scenario.name for trial in one.trials))
        given = "; ".join(setting_text(one.setting))
        say(f"    tried on {tried}{f', with {given}' if given else ''}")


def _listed(claim: Claim) -> dict[str, object]:
    return {
        "name": claim.name,
        "told": claim.told,
        "source": list(claim.source),
        "meant_for": list(claim.meant_for),
        "scenarios": [trial.scenario.name for trial in claim.trials],
    }


def execute(asked: Asked, engine: Engine, stdout: IO[str], stderr: IO[str]) -> ExitCode:
    """Run what is asked, report it, and return the exit code."""
    from chaoskit.claims.running import run
    from chaoskit.claims.values import REPEATS_MIN
    from chaoskit.cli.reporting import emit_written, guarded
    from chaoskit.reports.claims import json_output, markdown, page, terminal
    from chaoskit.reports.claims.progress import ClaimsProgress
    from chaoskit.reports.console import console_for

    if asked.request.repeats < REPEATS_MIN:
        line = f"--repeat {asked.request.repeats}: fewer than {REPEATS_MIN} runs of each arm are no answer"
        console_for(stderr).print(line, markup=False, highlight=False, soft_wrap=True)
    with ClaimsProgress(console_for(stderr)) as observer:
        report = run(asked.request, engine, observer)
    text = json_output.render(report)
    made = page.read(text, "the report")
    texts: dict[Path | None, Callable[[], str]] = {
        asked.json_file: lambda: text,
        asked.markdown: lambda: markdown.render(made),
    }
    written = []
    try:
        for target, content in texts.items():
            if target is not None:
                _write(target, content())
                written.append(target)
    finally:
        with guarded(stdout):
            _tell(asked, made, text, stdout)
            stdout.flush()
    if asked.form == "text":
        emit_written(written, stdout)
    elif asked.against is not None:  # stdout is the JSON's alone
        terminal.print_changes(asked.against, made, console_for(stderr))
    return exit_code(made, asked.against)


def _tell(asked: Asked, made: Page, text: str, stdout: IO[str]) -> None:
    from chaoskit.reports.claims import terminal
    from chaoskit.reports.console import console_for

    if asked.form == "json":
        stdout.write(text)
        return
    console = console_for(stdout)
    terminal.print_page(made, console)
    if asked.against is not None:
        terminal.print_changes(asked.against, made, console)


def exit_code(made: Page, against: Page | None) -> ExitCode:
    """Return what the answers come to: a claim that is not true is an answer as good as any."""
    from chaoskit.claims.values import Answer
    from chaoskit.reports.claims.page import changed, compared, unanswered

    if made.interrupted:
        return ExitCode.INTERRUPTED
    if against is not None and changed(against, made):
        return ExitCode.NOT_HELD
    if against is not None and not compared(against, made):
        return ExitCode.INCONCLUSIVE
    nothing_run = all(row.answer is Answer.NOT_RUN for row in made.rows)
    return ExitCode.INCONCLUSIVE if nothing_run or unanswered(made) else ExitCode.OK


def _write(path: Path, text: str) -> None:
    from chaoskit.reports import output_file

    try:
        with output_file.replaced(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise ChaoskitError(f"{path} could not be written: {error.strerror or error}") from None
