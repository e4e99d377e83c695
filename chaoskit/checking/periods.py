"""The durations of a profile, and which has to be shorter than which. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from chaoskit.checking.case import Case
from chaoskit.checking.finding import Level
from chaoskit.checking.launchers import SHUTDOWN, carries_out, launcher_knob, reads_shutdown, scheduler_knob
from chaoskit.guards.launcher_gaps import LAUNCHERS

_DUMP: Final = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"
_DUMP_DEFAULT_MS: Final = 15_000
_SLEEPS: Final = 4
"""The legacy watchdog sleeps so many times the dump's wait before it ends the rank."""
_TORCHRUN_GRACE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Period:
    """A duration, what messages call it, and its line. ``knob`` is what a user turns to change it, where that
    is not ``name``; '' where nothing does."""

    name: str
    seconds: float
    line: int = 0
    knob: str | None = None

    @property
    def to_turn(self) -> str:
        return self.name if self.knob is None else self.knob


@dataclass(frozen=True, slots=True)
class Limit:
    """``first`` must be shorter than ``second``; ``why`` says what happens otherwise."""

    first: Period
    second: Period
    level: Level
    why: str
    hint: str = ""
    may_be_equal: bool = False

    @property
    def is_kept(self) -> bool:
        if self.may_be_equal:
            return self.first.seconds <= self.second.seconds
        return self.first.seconds < self.second.seconds


def text(seconds: float) -> str:
    """Return a duration as profiles write it."""
    return f"{seconds:g}s" if seconds < 120 or seconds % 60 else f"{seconds / 60:g}m"


def limits(case: Case) -> Iterator[Limit]:
    """Yield each rule for which both durations are known."""
    yield from _of_a_stuck_job(case)
    yield from _of_the_start(case)
    yield from _of_an_end(case)


def _setting(case: Case, guard: str, setting: str) -> Period | None:
    seconds = case.seconds(guard, setting)
    return None if seconds is None else Period(f"{guard}.{setting}", seconds, case.line(guard))


def _limit(
    first: Period | None,
    second: Period | None,
    level: Level,
    why: str,
    hint: str = "",
    may_be_equal: bool = False,
) -> Iterator[Limit]:
    if first is not None and second is not None:
        yield Limit(first, second, level, why, hint, may_be_equal)


# ---------------------------------------------------------------- a job that stands still


def _of_a_stuck_job(case: Case) -> Iterator[Limit]:
    collective = _setting(case, "timeouts", "collective") or _setting(case, "folklore_init", "timeout")
    watchdog = _setting(case, "progress_watchdog", "timeout")
    heartbeat = _setting(case, "step_heartbeat", "timeout")
    out_of_memory = _setting(case, "oom_exit", "idle")
    healthy = "it ends ranks that wait for a peer within their timeout, and the one to blame is not named"
    for later in (watchdog, _setting(case, "folklore_watchdog", "timeout")):
        yield from _limit(collective, later, Level.ERROR, healthy)
    if watchdog is None:
        yield from _limit(collective, heartbeat, Level.ERROR, healthy)
    after_the_peers = "the peers time out before, and the rank that is out of memory looks like their victim"
    yield from _limit(out_of_memory, collective, Level.WARNING, after_the_peers)
    if collective is None:
        yield from _limit(out_of_memory, watchdog, Level.WARNING, "the watchdog ends the rank before")
    vain = "the heartbeat is for a rank that moves in vain; one that stands still is the watchdog's to end"
    yield from _limit(watchdog, heartbeat, Level.WARNING, vain)
    yield from _limit(
        _end_by_nccl(case, collective), watchdog, Level.WARNING,
        "NCCL's own watchdog is ended while it waits for the dump of the flight recorder",
        f"set {_DUMP} to 500, or the watchdog higher",
    )  # fmt: skip


def _end_by_nccl(case: Case, collective: Period | None) -> Period | None:
    """When the legacy NCCL group ends a rank whose collective timed out."""
    if collective is None or case.target.backend not in ("nccl", "nccl-legacy"):
        return None
    if "nccl-legacy" not in case.implementations:
        return None
    setting = case.setting(_DUMP)
    if setting is not None and not re.fullmatch(r"[0-9]{1,9}", setting.value):
        return None
    wait_ms = _DUMP_DEFAULT_MS if setting is None else int(setting.value)
    seconds = collective.seconds + _SLEEPS * wait_ms / 1000
    line = collective.line if setting is None else setting.line
    return Period(f"{collective.name} + {_SLEEPS} × {_DUMP}", seconds, line)


# ---------------------------------------------------------------- the start


def _of_the_start(case: Case) -> Iterator[Limit]:
    init = _setting(case, "timeouts", "init")
    census = _setting(case, "census", "wait")
    watchdog, heartbeat = _start(case, "progress_watchdog"), _start(case, "step_heartbeat")
    forming = [period for period in (census, init) if period is not None]
    if forming:
        whole = Period(" + ".join(p.name for p in forming), sum(p.seconds for p in forming), forming[0].line)
        early = "ranks that still wait for late peers within these are ended"
        yield from _limit(whole, watchdog, Level.WARNING, early)
        yield from _limit(whole, heartbeat, Level.WARNING, early)
    late = "census ends a job whose last rank comes late, though the init timeout still allows it"
    yield from _limit(init, census, Level.NOTE, late, may_be_equal=True)


def _start(case: Case, guard: str) -> Period | None:
    """What a guard gives the start: its own setting, or that of all other times."""
    if case.is_guess(guard, "start"):
        return None
    return _setting(case, guard, "start") or _setting(case, guard, "timeout")


# ---------------------------------------------------------------- a job that is told to end


def _of_an_end(case: Case) -> Iterator[Limit]:
    grace = _setting(case, "sigterm_exit", "grace")
    keeper = _setting(case, "sidecar", "sigterm_wait")
    launcher, scheduler = _launcher_grace(case), _scheduler_grace(case)
    cut = "SIGKILL comes before what a rank still has to save is saved"
    yield from _limit(
        grace, keeper, Level.WARNING, "the keeper takes the rank for lost before its grace is over"
    )
    # group_kill acts once a rank has failed; then nothing consistent is left to save, and its grace may be
    # shorter. It counts only where it is all that is known of how the launcher ends a job (below).
    yield from _limit(grace, launcher, Level.ERROR, cut)
    unsaid = "ranks are killed before their keepers do it, and nobody says why"
    yield from _limit(keeper, launcher or scheduler, Level.WARNING, unsaid)
    given_up = "SIGKILL comes before the launcher has ended its ranks, and before it can say why"
    yield from _limit(launcher or _group_kill_grace(case), scheduler, Level.ERROR, given_up)
    yield from _limit(grace, scheduler, Level.ERROR, cut)


def _group_kill_grace(case: Case) -> Period | None:
    """The grace of the rule, where something follows it."""
    guard, period = case.guard("group_kill"), _setting(case, "group_kill", "grace")
    if guard is None or period is None or not carries_out(case, guard):
        return None
    if case.target.launcher is None:
        return period
    # A launcher takes no setting from a profile: the profile says what it does.
    knob = f"the grace of {LAUNCHERS[case.target.launcher].shown}, and {period.name},"
    return replace(period, knob=knob)


def _launcher_grace(case: Case) -> Period | None:
    knob = launcher_knob(case)
    if case.target.launcher_grace_s is not None:
        return Period("--launcher-grace", case.target.launcher_grace_s, knob=knob)
    setting = case.setting(SHUTDOWN)
    if setting is not None and re.fullmatch(r"[0-9]{1,9}", setting.value) and reads_shutdown(case):
        return Period(setting.name, float(setting.value), setting.line)
    if case.target.launcher == "torchrun":
        return Period("torchrun's own grace", _TORCHRUN_GRACE_S, knob=knob)
    return None


def _scheduler_grace(case: Case) -> Period | None:
    seconds = case.target.scheduler_grace_s
    return None if seconds is None else Period("--kill-wait", seconds, knob=scheduler_knob(case))
