"""How long past the bound that a timeout implies the last rank ends. Budget: 0.5 s at the 99th percentile.

Every scenario whose hardened contract is written as a timeout (`within: {timeout: …}`) counts: the
overshoot is injection → last rank's end, less that timeout (as scaled for the run) times its factor.
Negative: another guard was faster.

    python benchmarks/overshoot.py [REPEATS]
"""

from __future__ import annotations

import sys
from dataclasses import replace

from _figures import Budget, end, figure, heading
from _runs import ArmRun, named, run

from chaoskit.model import Scenario, Span
from chaoskit.request import RunRequest

BUDGET = Budget(0.5, at=99)


def implied(scenario: Scenario) -> Span | None:
    """The span that the hardened contract derives from a timeout, without its own margin."""
    arm = scenario.arm("hardened")
    if arm is None or arm.expect.within is None or arm.expect.within.timeout is None:
        return None
    return replace(arm.expect.within, plus_s=0.0)


def overshoot_s(arm: ArmRun, span: Span) -> float | None:
    bound_s = span.seconds(arm.plan.profile.timeouts)
    return None if bound_s is None else arm.after_injection_s - bound_s


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    heading("exit past the bound that a timeout implies")
    spans = {s.name: span for s in named("all") if not s.healthy and (span := implied(s))}
    everything: list[float] = []
    scenarios = named(*spans)
    with run(RunRequest(scenarios, arms=("hardened",), repeat=repeats, seed=1)) as (_, arms):
        for name, span in spans.items():
            found = [overshoot_s(a, span) for a in arms if a.verdict.scenario == name]
            past = [x for x in found if x is not None]
            everything += past
            figure(name, past)
    end([figure("all of them", everything, BUDGET)])


if __name__ == "__main__":
    main()
