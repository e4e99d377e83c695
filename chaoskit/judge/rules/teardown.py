"""The work was done on every rank, and then something went wrong at exit."""

from __future__ import annotations

import signal

from chaoskit.judge.job import Job, names
from chaoskit.model import Blame, Kind


def find(job: Job) -> Blame | None:
    """Return an abort or a hang at teardown; no rank is at fault (torch's own, see docs)."""
    if not job.ranks or not all(v.work_done for v in job.ranks):
        return None
    hung = [v.rank for v in job.ranks if v.alive_at_deadline]
    if hung:
        return Blame(
            kind=Kind.HUNG_IN_TEARDOWN, reason=f"{names(hung)} finished the work and hung while tearing down"
        )
    aborted = [v.rank for v in job.ranks if v.ended_itself and v.exit_code == -signal.SIGABRT]
    if aborted and all(v.exit_code in (0, -signal.SIGABRT) for v in job.ranks):
        return Blame(
            kind=Kind.ABORT_AT_TEARDOWN, reason=f"{names(aborted)} finished the work and aborted at exit"
        )
    return None
