"""What is special about a program and a launcher that nobody here wrote.

A built-in workload says when its work is done and forms its group as planned; a user's program may leave as
it likes, never form a group, start ranks of its own, or be started again by its launcher. May not blame.
"""

from __future__ import annotations

import re
from collections import Counter

from chaoskit.history import (
    OWN_RANKS,
    History,
    Identity,
    Injected,
    LauncherEnded,
    LauncherStarted,
    Reached,
    Started,
)
from chaoskit.judge.job import P2P, Job, RankView, names
from chaoskit.judge.wording import named
from chaoskit.model import Plan

SAID_CHARS = 300
_ERROR = re.compile(r"\berror\b|Error:|cannot|can't|no such|not found|invalid|denied", re.IGNORECASE)


def is_watched(plan: Plan) -> bool:
    """Is it a program that runs as it is? It has to complete, so no way to end badly could earn it a pass."""
    return not plan.injections and not plan.workload.is_built_in


def unlike_the_plan(plan: Plan, history: History, job: Job) -> str:
    """Return how what was started differs from one start of each planned process, or an empty text."""
    ended = history.first(LauncherEnded)
    if not job.ranks and ended is not None:
        how = "was ended" if ended.by else f"ended with {ended.exit_code}"
        return f"the launcher {how} before it had started any rank{last_line(ended.said)}"
    if not job.ranks and history.first(LauncherStarted) is not None:
        return "the launcher started no rank that joined this run"
    starts = Counter(e.slot for e in history.all(Started))
    if again := sorted(job.view(slot).rank for slot, count in starts.items() if count > 1):
        times = max(starts.values())
        return f"the launcher started {names(again)} {times} times: attempts cannot be judged as one run"
    if (job.external or not plan.workload.is_built_in) and len(job.ranks) < len(plan.ranks):
        joined = f"{len(job.ranks)} of {len(plan.ranks)} ranks joined this run"
        return f"{joined}{last_line(ended.said) if ended is not None else ''}"
    return _spawned(history, job)


def _spawned(history: History, job: Job) -> str:
    pids: dict[int, set[int]] = {}
    for event in history.all(Identity):
        pids.setdefault(event.slot, set()).add(event.pid)
    spawning = {e.slot for e in history.all(Reached) if e.what == OWN_RANKS}
    several = sorted(
        job.view(slot).rank
        for slot, known in pids.items()
        if slot >= 0 and (len(known) > 1 or slot in spawning)
    )
    if not several:
        return ""
    return (
        f"{names(several)} started ranks of its own: the launcher starts one process for each rank already, "
        "so take mp.spawn out, or start the program without a launcher"
    )


def independent(plan: Plan, job: Job) -> str:
    """Say so where the processes of a program never became one job, and none of them failed."""
    if plan.workload.is_built_in or any(v.entered or v.exit_code != 0 for v in job.ranks):
        return ""
    return f"never called init_process_group: {len(job.ranks)} independent processes, nothing to judge"


def may_leave(plan: Plan, history: History, job: Job) -> bool:
    """Is ``exit(0)`` in a function a way out? In a program it is, unless a fault hit it, a rank waits, or
    some ranks leave by it with an error and others do not."""
    if plan.workload.is_built_in or history.all(Injected):
        return False
    hiding = {v.raised is not None for v in job.ranks}  # an error that some ranks left by, with 0
    return len(hiding) == 1 and not any(v.waiting for v in job.ranks)


def swallowed(job: Job) -> tuple[str, bool]:
    """Say which operations failed in a job whose ranks all ended 0, and whether the script came out of it.

    It did where each rank that lost an operation completed another afterwards (it formed the group again):
    then it may have done all its work, or not. Failed sends and receives alone may tell
    of a peer's end by design.
    """
    hit = [v for v in job.ranks if v.failed]
    if not hit:
        return "", False
    first = min((f for v in hit for f in v.failed), key=lambda f: f.t_s)
    on = names([v.rank for v in hit if _lost(v, first.op, first.nth)])
    said = f"{first.op} #{first.nth} failed on {on}"
    told = all(f.op in P2P for v in hit for f in v.failed)
    return f"{said} and the error was swallowed", told or all(_went_on(v) for v in hit)


def _lost(view: RankView, op: str, nth: int) -> bool:
    return any((f.op, f.nth) == (op, nth) for f in view.failed)


def _went_on(view: RankView) -> bool:
    last_s = max(f.t_s for f in view.failed)
    return any(e.t_s > last_s and e.seq in view.completed for e in view.entered)


def tried_alike(job: Job) -> bool:
    """Did all ranks fail in the same operations and go on (a script tries what its backend cannot do)?"""
    tried = {tuple(sorted((f.group, f.op, f.nth) for f in v.failed)) for v in job.ranks}
    return len(tried) == 1 and all(v.failed and _went_on(v) for v in job.ranks)


def stopped_apart(job: Job) -> str:
    """Say in which group the members' last collectives differ, or an empty text.

    Numbers of optimizer steps are not compared: one rank may have a model of its own.
    """
    for group, members in job.groups:
        last = {v.rank: newest(v, group) for v in job.ranks if v.rank in members}
        if len(set(last.values())) > 1:
            each = ((r, f"{e[0]} #{e[1]}" if e else "none") for r, e in sorted(last.items()))
            told = ", ".join(f"rank {r}: {what}" for r, what in each)
            return f"the last collectives of group {named(group, members)} differ ({told})"
    return ""


def only_p2p(job: Job) -> bool:
    """Did the ranks exchange messages, without a collective that shows that all came as far?"""
    ops = {e.op for v in job.ranks for e in v.entered}
    return bool(ops & P2P) and not ops - P2P - {"init"}


def newest(view: RankView, group: str) -> tuple[str, int] | None:
    """The last operation of the group, which tells how many there were where older ones are lost."""
    known = [e for e in view.entered if e.group == group and e.op not in P2P]
    return (known[-1].op, known[-1].nth) if known else None


def last_line(said: str) -> str:
    """Return what a launcher said last of what went wrong, ready to be put behind a sentence."""
    lines = [" ".join(line.split()) for line in said.splitlines()]
    lines = [line for line in lines if any(c.isalpha() for c in line)]
    errors = [line for line in lines if _ERROR.search(line)]
    return f": {(errors or lines)[-1][-SAID_CHARS:]}" if lines else ""
