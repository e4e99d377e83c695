"""What a report speaks of. A value; nothing is computed from it here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaoskit.model import ScenarioResult, Verdict
from chaoskit.reports.wording import words
from chaoskit.request import WATCH, RunResult


@dataclass(frozen=True, slots=True)
class Judged:
    """What a report speaks of: a run, or run directories that were judged again.

    ``seed`` is None where several runs with different seeds are reported together.
    """

    run_dir: Path
    seed: int | None
    torch: str
    scenarios: tuple[ScenarioResult, ...]
    wall_s: float
    interrupted: bool = False
    programs: tuple[str, ...] = ()
    """Of each scenario, what was watched; '' where it is a scenario, or the name is not known."""

    @classmethod
    def of(cls, run: RunResult) -> Judged:
        """Return what a report says of ``run``."""
        return cls(run.run_dir, run.seed, run.torch, run.scenarios, run.wall_s, run.interrupted)

    @property
    def is_watch(self) -> bool:
        """Whether this is a program that was watched as it is, and no scenario."""
        return bool(self.scenarios) and all(is_watch(s) for s in self.scenarios)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(v for s in self.scenarios for v in s.verdicts)

    def name_of(self, result: ScenarioResult) -> str:
        """Return the name to show: of a watched program its own, where that is known."""
        if is_watch(result):
            for one, program in zip(self.scenarios, self.programs, strict=False):
                if one is result:
                    return program or result.name
        return result.name


def is_watch(result: ScenarioResult) -> bool:
    """Return whether ``result`` stands for a watched program: a scenario may be called so too."""
    return result.name == WATCH and all(v.arm == WATCH for v in result.verdicts)


def result_in_words(result: ScenarioResult) -> str:
    """Return ``not held``; of a watched program, which promises nothing but to end well, ``fail``."""
    if is_watch(result) and result.verdicts:
        return words(result.verdicts[-1].status)
    return words(result.result)
