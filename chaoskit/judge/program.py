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
    Stepped,
)
from chaoskit.judge.job import P2P, Job, RankView, names
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


def left_alike(plan: Plan, history: History, job: Job) -> bool:
    """Return whether all ranks of a program did the same work, though some left by ``exit(0)`` in its midst.

    In a program ``exit(0)`` inside a function may be the normal way out. It is not where a rank took fewer
    steps or operations than the others, sits in one, or had a fault.
    """
    if plan.workload.is_built_in or history.all(Injected):
        return False
    steps = {e.slot: e.step for e in history.all(Stepped)}
    if len({steps.get(v.slot, 0) for v in job.ranks}) > 1 or any(v.failed or v.waiting for v in job.ranks):
        return False
    return all(_alike(job, group, members) for group, members in job.groups)


def _alike(job: Job, group: str, members: tuple[int, ...]) -> bool:
    last = {_newest(v, group) for v in job.ranks if v.rank in members}
    return len(last) <= 1


def _newest(view: RankView, group: str) -> tuple[str, int, int] | None:
    """The last operation of the group, which tells how many there were where older ones are lost."""
    known = [e for e in view.entered if e.group == group and e.op not in P2P]
    return (known[-1].op, known[-1].nth, known[-1].step) if known else None


def last_line(said: str) -> str:
    """Return what a launcher said last of what went wrong, ready to be put behind a sentence."""
    lines = [" ".join(line.split()) for line in said.splitlines()]
    lines = [line for line in lines if any(c.isalpha() for c in line)]
    errors = [line for line in lines if _ERROR.search(line)]
    return f": {(errors or lines)[-1][-SAID_CHARS:]}" if lines else ""
