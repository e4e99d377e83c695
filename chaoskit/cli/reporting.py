"""Hands the results of ``run`` and ``judge`` to the reports and the streams. Thin: no words of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from chaoskit.cli.outputs import Outputs, annotated, folders_of, named, write
from chaoskit.cli.printing import abandon_output, plain
from chaoskit.errors import ChaoskitError, Problem
from chaoskit.reports.judged import Judged

if TYPE_CHECKING:
    from rich.console import Console

Format = Literal["text", "json"]


def read_format(text: str) -> tuple[Format, list[Problem]]:
    """Return what ``--format`` asks for, and what is wrong with it."""
    if text == "json":
        return "json", []
    problem = Problem(f"--format {text!r}: expected text or json")
    return "text", [] if text == "text" else [problem]


def emit(judged: Judged, form: Format, stream: IO[str], program: str = "") -> None:
    """Write the report of ``judged`` to ``stream``. Raises ChaoskitError as :func:`guarded` does.

    ``program`` is the name of what was watched, where it was a watch and the name is known.
    """
    with guarded(stream):
        if form == "json":
            from chaoskit.reports import json_output

            stream.write(json_output.render(judged))
        else:
            from chaoskit.reports.console import console_for

            _print(judged, console_for(stream), program)
        stream.flush()


def tell(
    judged: Judged, outputs: Outputs, form: Format, stdout: IO[str], stderr: IO[str], program: str = ""
) -> None:
    """Write the files asked for, and the report to ``stdout``, which a file that fails does not keep back.

    Raises ChaoskitError for a file that could not be written. Annotations are for a GitHub job, which reads
    both streams: where stdout has to be JSON they go to ``stderr``.
    """
    written: list[Path] = []
    folders = folders_of(judged)
    judged = named(judged, folders, program) if judged.is_watch else judged
    try:
        written = write(outputs, judged, folders)
    finally:
        emit(judged, form, stdout, program)
        if outputs.github:
            emit_annotations(judged, stderr if form == "json" else stdout)
    if form == "text":
        emit_written(written, stdout)


def emit_annotations(judged: Judged, stream: IO[str]) -> None:
    """Print what a GitHub job takes for annotations. Raises as :func:`emit`."""
    with guarded(stream):
        stream.write(_printable(annotated(judged), stream))
        stream.flush()


def emit_written(paths: Iterable[Path], stream: IO[str]) -> None:
    """Say which files there are now. Raises as :func:`emit`."""
    with guarded(stream):
        for path in paths:
            stream.write(_printable(f"written: {plain(str(path))}\n", stream))
        stream.flush()


def _printable(text: str, stream: IO[str]) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _print(judged: Judged, console: Console, program: str) -> None:
    if judged.is_watch:
        from chaoskit.cli.arm_files import watched
        from chaoskit.reports.watched import print_watched

        print_watched(judged, watched(judged, program), console)
        return
    from chaoskit.reports.terminal import print_summary

    print_summary(judged, console)


@contextmanager
def guarded(stream: IO[str]) -> Iterator[None]:
    """Write to ``stream`` inside.

    A reader that has gone away is its own business; a report that is lost for another reason
    (a full disk) raises ChaoskitError, as the caller would take what is there for the whole.
    """
    try:
        yield
    except BrokenPipeError:
        _abandon(stream)
    except OSError as error:
        _abandon(stream)
        raise ChaoskitError(f"the report could not be written: {error.strerror or error}") from None


def _abandon(stream: IO[str]) -> None:
    if stream is sys.stdout:
        abandon_output()
