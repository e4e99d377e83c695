"""Who did it, from a history that holds neither the plan nor the injections.

Each rule in :mod:`chaoskit.judge.rules` looks for one kind of guilt; the first in ``ORDER`` that
finds something decides. The order is one of causes, not of likelihood: what can only be a
consequence of something else is asked last. A rule says who, what and in which operation, and what it saw;
what else speaks for it is added in :mod:`chaoskit.judge.grounds`.
"""

from __future__ import annotations

from collections.abc import Callable

from chaoskit.history import History
from chaoskit.judge import grounds
from chaoskit.judge.job import Job
from chaoskit.judge.rules import (
    absent,
    configuration,
    divergence,
    first_end,
    host,
    network,
    replica,
    stopped_early,
    teardown,
    wrong_result,
)
from chaoskit.model import Blame, Kind

ORDER: tuple[Callable[[Job], Blame | None], ...] = (
    configuration.find,  # the ranks disagree about who they are: all else follows
    teardown.find,  # the work was done everywhere: nobody's collective is to blame
    replica.guarded,  # a guard ended the job because the ranks' states differ
    divergence.unfinished,  # two ranks sit in different operations: deaths then are consequences
    host.find,  # all ranks of a host ended, or stopped, by no doing of theirs
    host.store,  # the store was lost, and no rank before it
    network.guarded,  # a guard ended the job and names an interface, a link or a host
    network.find,  # nobody had ended before paths did not carry: all who wait are victims
    configuration.claimed,  # errors that speak of addresses
    first_end.find,  # the first rank that ended, or froze, by its own doing, as no victim does
    divergence.harmful,  # an operation that was not the same on all ranks, and completed: with garbage
    first_end.weakly,  # the first that ended as victims may, too
    absent.find,  # alive and not where the others wait; or all wait for each other, in a circle
    first_end.unprovoked,  # an error of a lost peer, though none was lost
    divergence.silent,  # everything completed, but not with the same thing
    replica.find,  # everything completed, but the ranks do not hold the same state
    wrong_result.find,
    stopped_early.find,  # nobody even waited
)


def find(history: History) -> Blame:
    """Return who is to blame for the end of this job. Takes the blind history; blinds it if it is not."""
    job = Job.of(history.blind())
    for rule in ORDER:
        blame = rule(job)
        if blame is not None:
            return grounds.complete(job, blame)
    return Blame(kind=Kind.UNKNOWN, reason="the evidence names nobody")
