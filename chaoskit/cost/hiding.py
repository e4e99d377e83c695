"""Keeps the secrets of what is compared out of everything that is told of it. Pure.

Profiles and environment files may give ranks a token; proofs and a rank's last words repeat it. Paths stay as
they are: they have to be found again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from chaoskit.cost.request import CostRequest
from chaoskit.cost.values import Case, Comparison, CostReport, Detection
from chaoskit.redacting import Redactor


class Hiding:
    """Knows the variables of all treatments, the arguments of the program, and the caller's environment."""

    def __init__(self, requests: Iterable[CostRequest], environment: Mapping[str, str]) -> None:
        profiles = {
            id(p): p for r in requests for p in (r.against.profile, *(t.profile for t in r.treatments))
        }
        words = [word for r in requests if r.program is not None for word in r.program.args]
        environments = [dict(profile.env) for profile in profiles.values()]
        self.redactor = Redactor.of(environment, *environments, words=words)
        shown = {
            f"{name}={value}": f"{name}={self.redactor.variable(name, value)}"
            for one in environments
            for name, value in one.items()
        }
        # A value may be too short to be replaced wherever it stands: behind its name it is never shown.
        self._pairs = sorted(((p, s) for p, s in shown.items() if p != s), key=lambda pair: -len(pair[0]))

    def text(self, text: str) -> str:
        """Return ``text`` without secrets."""
        for pair, shown in self._pairs:
            text = text.replace(pair, shown)
        return self.redactor.text(text)

    def comparison(self, comparison: Comparison) -> Comparison:
        plain, treated = (tuple(map(self.text, found)) for found in comparison.proofs)
        return dataclasses.replace(
            comparison,
            treatment=self.text(comparison.treatment),
            says=self.text(comparison.says),
            against=self.text(comparison.against),
            case=self._case(comparison.case),
            problem=self.text(comparison.problem),
            proofs=(plain, treated),
        )

    def report(self, report: CostReport) -> CostReport:
        """Return all of a report without secrets."""
        return dataclasses.replace(
            report,
            comparisons=tuple(map(self.comparison, report.comparisons)),
            detections=tuple(map(self._detection, report.detections)),
            notes=tuple(map(self.text, report.notes)),
        )

    def _case(self, case: Case) -> Case:
        return dataclasses.replace(case, name=self.text(case.name))

    def _detection(self, detection: Detection) -> Detection:
        treatment, outcome = self.text(detection.treatment), self.text(detection.outcome)
        return dataclasses.replace(detection, treatment=treatment, outcome=outcome)
