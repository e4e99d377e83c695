"""What ended the job: guards that fired, policies of the launcher, timeouts of the ranks themselves.

That is not who is to blame: it is who noticed, and saw to it that nobody waits for ever.
"""

from __future__ import annotations

from chaoskit.judge.job import OUTSIDE, Job, RankView

LOST_PEER = "lost connection"


def find(job: Job) -> tuple[str, ...]:
    """Return their names in order of time. That a rank lost its peer counts where nothing else ended anybody:
    the end of each rank brings it about on others."""
    found: list[tuple[float, str]] = []
    lost: list[tuple[float, str]] = []
    for view in job.ranks:
        if view.fired is not None:
            found.append((view.fired.t_s, view.fired.guard))
        found += [(s.t_s, s.guard) for s in view.signals if s.guard != OUTSIDE]
        if view.raised is None:
            continue
        at = min((f.t_s for f in view.failed), default=view.raised.t_s)  # before a guard that answers to it
        if view.raised.category == "timeout":
            found.append((at, f"{_of(view)} timeout"))
        elif view.raised.category == "peer_lost":
            lost.append((at, LOST_PEER))
    return tuple(dict.fromkeys(name for _, name in sorted(found or lost)))


def _of(view: RankView) -> str:
    """Which timeout it was: that of forming the process group, or of an operation."""
    first = min(view.failed, key=lambda f: f.t_s, default=None)
    op = first.op if first is not None else (view.last.op if view.last is not None else "init")
    return "init" if op == "init" else "collective"
