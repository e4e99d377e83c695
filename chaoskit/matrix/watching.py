"""Notices that a program of the user's changes while a matrix runs, also where it is put back."""

from __future__ import annotations

from collections.abc import Iterable

from chaoskit.matrix.program import Stamps, stamps
from chaoskit.model import Workload


class Watch:
    """Knows the files of programs as they were when it was made. Files are only stamped, not read."""

    def __init__(self, programs: Iterable[Workload]) -> None:
        found = {program: stamps(program) for program in programs if not program.is_built_in}
        self._first: dict[Workload, Stamps] = {p: s for p, s in found.items() if s is not None}
        self._edited: dict[str, None] = {}

    def look(self) -> None:
        """Look again. What changed stays so."""
        for program, first in self._first.items():
            if program.name not in self._edited and stamps(program) != first:
                self._edited[program.name] = None

    @property
    def edited(self) -> tuple[str, ...]:
        """The programs that were seen to change."""
        return tuple(self._edited)
