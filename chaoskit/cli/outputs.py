"""The reports that go into files: which are asked for, whether they can be written, and their writing.

One place for ``run``, ``watch`` and ``report``. The reports themselves are imported when they are written.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from chaoskit.errors import ChaoskitError, Problem
from chaoskit.model import Status, Verdict
from chaoskit.reports import output_file
from chaoskit.reports.judged import Judged
from chaoskit.request import WATCH, ArmId

if TYPE_CHECKING:
    from chaoskit.reports.trace import TracedArm

STDOUT = Path("-")
"""As a target: the standard output."""
TRACED_MAX = 8
"""Arms in one trace: more make a page that nobody finds anything on."""
_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that a GitHub job shows as its summary: all steps and commands of a step add to it."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The file of each report, None where it is not asked for."""

    html: Path | None = None
    markdown: Path | None = None
    junit: Path | None = None
    trace: Path | None = None
    github: bool = False

    @property
    def files(self) -> tuple[tuple[str, Path], ...]:
        """The options that were given, with their files."""
        named = (
            ("--html", self.html),
            ("--trace", self.trace),
            ("--markdown", self.markdown),
            ("--junit", self.junit),
        )
        return tuple((option, path) for option, path in named if path is not None)

    def problems(self, *, stdout_free: bool = False) -> list[Problem]:
        """Return why a file could not be written; creates the folders. Asked before a run."""
        found: list[Problem] = []
        for option, path in self.files:
            if path != STDOUT:
                found += output_file.problems(path, option)
            elif not stdout_free:
                found.append(Problem(f"{option} -: the standard output has the verdicts", hint="give a file"))
        paths = [os.path.realpath(path) for _, path in self.files if _is_plain(path)]
        found += [
            Problem("is given for several reports", str(path), hint="give each a file of its own")
            for path in dict.fromkeys(paths)
            if paths.count(path) > 1
        ]
        return found


NONE = Outputs()


def _is_plain(path: Path) -> bool:
    try:
        return path != STDOUT and not output_file.is_special(path)
    except (OSError, ValueError):
        return False  # told by output_file.problems


def read(html: str | None, markdown: str | None, junit: str | None, github: bool) -> Outputs:
    """Return what the options of ``run`` and ``watch`` ask for."""
    page, summary, cases = (None if text is None else Path(text) for text in (html, markdown, junit))
    return Outputs(page, summary, cases, github=github)


Folders = tuple[Path, ...]
"""Those of one arm: several where its ranks have written on several machines."""


def folders_of(judged: Judged) -> tuple[Folders, ...]:
    """Return the folders of the verdicts of a run that has just been made."""
    from chaoskit import rundir

    ids = (ArmId(v.scenario, v.arm, v.backend, v.repeat, v.attempt) for v in judged.verdicts)
    return tuple((rundir.arm_dir(judged.run_dir, one),) for one in ids)


def write(
    outputs: Outputs, judged: Judged, folders: Sequence[Folders], stdout: IO[bytes] | None = None
) -> list[Path]:
    """Write every report asked for, and return the files. ``folders`` are those of the verdicts.

    One that cannot be written does not keep the others from being so; then ChaoskitError is raised.
    """
    writers: dict[str, Callable[[IO[bytes]], None]] = {
        "--html": lambda stream: _html(judged, folders, stream),
        "--markdown": lambda stream: _markdown(judged, stream),
        "--junit": lambda stream: _junit(judged, stream),
        "--trace": lambda stream: _trace(judged, folders, stream),
    }
    failed, written = [], []
    for option, path in outputs.files:
        what = option.removeprefix("--")
        try:
            with _opened(path, what, stdout) as stream:
                writers[option](stream)
        except BrokenPipeError:
            if path != STDOUT:
                failed.append(f"{path}: the {what} report could not be written: nobody reads it")
        except OSError as error:
            failed.append(f"{path}: the {what} report could not be written: {error.strerror or error}")
        else:
            written.append(path)
    if failed:
        raise ChaoskitError("\n".join(failed))
    return [path for path in written if path != STDOUT]


@contextmanager
def _opened(path: Path, what: str, stdout: IO[bytes] | None) -> Iterator[IO[bytes]]:
    if path == STDOUT and stdout is not None:
        yield stdout
        stdout.flush()
    elif what == "markdown" and _is_step_summary(path):
        with path.open("ab") as file:
            yield file
    else:
        with output_file.replaced(path) as file:
            yield file


def _is_step_summary(path: Path) -> bool:
    summary = os.environ.get(_SUMMARY)
    return bool(summary) and os.path.realpath(path) == os.path.realpath(str(summary))


# ---------------------------------------------------------------- the reports


def annotated(judged: Judged) -> str:
    """Return the lines that a GitHub job takes for annotations."""
    from chaoskit.reports import annotations

    return annotations.render(judged.scenarios, Path.cwd(), _names(judged))


def named(judged: Judged, folders: Sequence[Folders], program: str = "") -> Judged:
    """Return ``judged`` with the names of the programs that were watched; ``program``: one that is known."""
    from chaoskit.cli.arm_files import program_of
    from chaoskit.reports.judged import is_watch

    where, programs = iter(folders), []
    for result in judged.scenarios:
        first = [next(where, ()) for _ in result.verdicts][:1]
        found = next((name for paths in first for path in paths if (name := program_of(path))), "")
        programs.append((program or found) if is_watch(result) else "")
    return dataclasses.replace(judged, programs=tuple(programs))


def _names(judged: Judged) -> list[str]:
    return [judged.name_of(result) for result in judged.scenarios]


def _junit(judged: Judged, stream: IO[bytes]) -> None:
    from chaoskit.reports import junit

    stream.write(junit.render(judged.scenarios, _names(judged)))


def _markdown(judged: Judged, stream: IO[bytes]) -> None:
    from chaoskit.reports import markdown

    stream.write(markdown.render(judged).encode("utf-8", "backslashreplace"))


def _html(judged: Judged, folders: Sequence[Folders], stream: IO[bytes]) -> None:
    from chaoskit import arm_record
    from chaoskit.reports import html

    arms = (arm_record.read(f[0], v, *f[1:]) for f, v in zip(folders, judged.verdicts, strict=True))
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        html.write(judged, arms, text, versions_of(judged))
    finally:
        text.detach()  # also writes what it holds back; the stream is not its own to close


def _trace(judged: Judged, folders: Sequence[Folders], stream: IO[bytes]) -> None:
    from chaoskit.reports import trace

    about = {"run directory": str(judged.run_dir), "made by": "chaoskit", **versions_of(judged)}
    trace.write(_traced(judged, folders), stream, about)


def _traced(judged: Judged, folders: Sequence[Folders]) -> Iterator[TracedArm]:
    from chaoskit import arm_record
    from chaoskit.reports.trace import TracedArm

    with_history = to_trace(judged, folders)
    for (folder, *others), verdict in with_history:
        record = arm_record.read(folder, verdict, *others)
        ranks = record.plan.ranks if record.plan is not None else ()
        name = _name(verdict) if len(with_history) > 1 else ""
        yield TracedArm(name, record.recorded, {rank.slot: rank.host for rank in ranks})


def to_trace(judged: Judged, folders: Iterable[Folders]) -> list[tuple[Folders, Verdict]]:
    """Return the arms that a trace can show: those of which something was recorded, with their folders."""
    pairs = zip(folders, judged.verdicts, strict=True)
    return [(f, v) for f, v in pairs if v.status is not Status.SKIPPED and any(map(_has_history, f))]


def _has_history(folder: Path) -> bool:
    return (folder / "history.jsonl").is_file() or any(folder.glob("rank*/rank.region"))


def _name(verdict: Verdict) -> str:
    name = verdict.arm if verdict.scenario == WATCH else f"{verdict.scenario}/{verdict.arm}"
    name += f"@{verdict.backend}" if verdict.backend != "gloo" else ""
    name += f"[{verdict.repeat}]" if verdict.repeat > 1 else ""
    return name + (f"({verdict.attempt})" if verdict.attempt > 1 else "")


def versions_of(judged: Judged) -> Mapping[str, str]:
    """Return what the run was made with, as run.json has it."""
    try:
        raw = json.loads((judged.run_dir / "run.json").read_text(encoding="utf-8"))
        versions = raw["versions"]
        return {str(name): version for name, version in versions.items() if isinstance(version, str)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {"torch": judged.torch} if judged.torch else {}
