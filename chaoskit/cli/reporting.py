"""Hands the results of ``run`` and ``judge`` to the reports and the streams. Thin: no words of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Literal

from chaoskit.cli.printing import abandon_output
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
