"""The files of `chaoskit cost`: whether they can be written, and their writing. A file is whole or not there.

One that cannot be written does not keep the others from being so.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoskit import private
from chaoskit.cost.values import CostReport
from chaoskit.errors import ChaoskitError, Problem
from chaoskit.reports import output_file

RECORD = "cost.json"
"""The report in the run directory: what was measured is never lost."""
_SUMMARY = "GITHUB_STEP_SUMMARY"
_OPTIONS = ("--json", "--markdown", "--html", "--plots")


@dataclass(frozen=True, slots=True)
class CostFiles:
    """The file of each report, None where it is not asked for; ``plots`` is a folder."""

    json: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    plots: Path | None = None

    @classmethod
    def read(cls, *texts: str | None) -> CostFiles:
        """Return what the options ask for, in the order of the fields."""
        return cls(*(None if text is None else Path(text) for text in texts))

    @property
    def single(self) -> tuple[tuple[str, Path], ...]:
        """The options with one file each that were given."""
        named = (("--json", self.json), ("--markdown", self.markdown), ("--html", self.html))
        return tuple((option, path) for option, path in named if path is not None)

    def problems(self) -> list[Problem]:
        """Return why a file could not be written; creates the folders. Asked before anything runs."""
        found: list[Problem] = []
        for option, path in self.single:
            found += output_file.problems(path, option)
        real = [os.path.realpath(path) for _, path in self.single]
        found += [
            Problem("is given for several reports", path, hint="give each a file of its own")
            for path in dict.fromkeys(real)
            if real.count(path) > 1
        ]
        return [*found, *self._problems_of_folder()]

    def _problems_of_folder(self) -> list[Problem]:
        if self.plots is None:
            return []
        try:
            self.plots.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.plots, prefix=".chaoskit-"):
                return []
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            hint = "give --plots a folder you may write to"
            return [Problem(f"cannot be written: {reason}", str(self.plots), hint=hint)]


def without_files(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command without the options that name files: measured again, it replaces none. What stands
    behind ``--`` is the program's."""
    kept: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            return (*kept, word, *left)
        if word in _OPTIONS:
            next(left, None)
        elif word.partition("=")[0] not in _OPTIONS:
            kept.append(word)
    return tuple(kept)


def write(files: CostFiles, report: CostReport, limit: float | None) -> list[Path]:
    """Write every report asked for, and the record; return the files asked for. Raises ChaoskitError."""
    written, failed = [], []
    for path, make in _makers(files, report, limit):
        try:
            if path == files.markdown and _is_step_summary(path):
                with path.open("ab") as stream:
                    stream.write(make())
            elif path.name == RECORD and path != files.json:
                private.write(path, make().decode())
            else:
                with output_file.replaced(path) as stream:
                    stream.write(make())
            written.append(path)
        except OSError as error:
            failed.append(f"{path}: could not be written: {error.strerror or error}")
    if failed:
        raise ChaoskitError("\n".join(failed))
    return [path for path in written if path.name != RECORD or path == files.json]


def _makers(
    files: CostFiles, report: CostReport, limit: float | None
) -> Iterator[tuple[Path, Callable[[], bytes]]]:
    """Yield each file with what makes it; what a report needs is imported when it is made."""
    from chaoskit.reports.cost import json_output, markdown

    if report.run_dir and os.path.isdir(report.run_dir):
        yield Path(report.run_dir, RECORD), lambda: json_output.render(report, limit).encode()
    if files.json is not None:
        yield files.json, lambda: json_output.render(report, limit).encode()
    if files.markdown is not None:
        yield files.markdown, lambda: markdown.render(report, limit).encode("utf-8", "backslashreplace")
    if files.html is not None:
        from chaoskit.reports.cost import html

        yield files.html, lambda: html.render(report, limit).encode("utf-8", "backslashreplace")
    if files.plots is not None:
        from chaoskit.reports.cost import plots

        for plot in plots.plots(report):
            svg = plot.svg
            yield files.plots / f"{plot.name}.svg", lambda svg=svg: svg  # type: ignore[misc]


def _is_step_summary(path: Path) -> bool:
    """All steps of a GitHub job add to that file."""
    summary = os.environ.get(_SUMMARY)
    return bool(summary) and os.path.realpath(path) == os.path.realpath(str(summary))
