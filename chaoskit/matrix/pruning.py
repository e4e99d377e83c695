"""Which cells are worth running, and what is said of those that are not. Pure.

Nothing is left out whose result could not be told from what was run: a part without effect here changes
nothing, and where the fault does no harm without any guard there is nothing for a guard to hold.
"""

from __future__ import annotations

from collections.abc import Collection

from chaoskit.matrix.values import Column, Mark
from chaoskit.model import Backend, Launcher, Profile, Scenario
from chaoskit.profiles.variables import lookup

Left = tuple[Mark, str]

NOTHING_TO_HOLD = "without any guard the contract is kept: there is nothing to hold"
NO_EFFECT = "no effect here, as the job under the profile said"
_QUIET_TWIN = "not run: the profile as a whole is quiet about this healthy twin"


def inapplicable(
    scenario: Scenario, backend: Backend, profile: Profile, launcher: Launcher = "forkserver"
) -> frozenset[str]:
    """Return the parts that have no effect in this scenario by what is known of them, without running it."""
    unplayed = ("sidecar", "scheduler") if launcher == "forkserver" else ("launcher", "scheduler")
    multiple = scenario.topology.hosts > 1
    guards = {
        guard.name
        for guard in profile.guards
        if backend not in guard.backends
        or guard.lives_in in unplayed  # nobody plays them: another launcher has rules of its own
        or (guard.serves_store and not multiple)
    }
    unread = {name for name, _ in profile.env if (found := lookup(name).backends) and backend not in found}
    return frozenset(guards | unread)


def left_out(column: Column, healthy: bool, base: Mark, profile: Mark, idle: Collection[str]) -> Left | None:
    """Return what is said of a cell instead of running it; None: run it.

    ``base`` is the mark without any guard, ``profile`` that of the profile, ``idle`` the parts that have no
    effect here.
    """
    if base is Mark.SKIPPED or profile is Mark.SKIPPED:
        return Mark.SKIPPED, "this machine, or the program, cannot run the scenario"
    if column.part in idle:
        return Mark.NOT_APPLICABLE, NO_EFFECT
    if base is Mark.NOT_NEEDED:
        return Mark.NOT_NEEDED, NOTHING_TO_HOLD
    if base is Mark.FALSE_ALARM:
        return Mark.NOT_RUN, "not run: this healthy twin does not complete without any guard either"
    if base not in (Mark.BITES, Mark.QUIET):
        return Mark.NOT_RUN, "not run: without a clear result without any guard nothing can be earned"
    if healthy and column.form == "without" and profile is Mark.QUIET:
        return Mark.NOT_RUN, _QUIET_TWIN
    return None
