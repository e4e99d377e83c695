"""Settings that do harm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.checking.case import Case, Setting
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.profiles.torch_any import DETAIL_ENDS_HEALTHY_DDP_SINCE, DETAIL_SEEN
from chaoskit.profiles.torch_nccl import ASYNC_ERROR_HANDLING, BLOCKING_WAIT
from chaoskit.profiles.variable import NEWEST
from chaoskit.profiles.variables import VARIABLES

_FOLKLORE: Final = {
    "folklore_oom_handler": (
        "calls destroy_process_group() before it exits, which can wait for the peers",
        "the guard oom_exit",
    ),
    "folklore_watchdog": (
        "is a Python thread: blind while the GIL is held and before the group has formed, and it ends a "
        "healthy long checkpoint",
        "the guard progress_watchdog",
    ),
    "folklore_init": (
        "its timeout reaches neither new_group nor monitored_barrier, and its check comes after the forming",
        "the guards timeouts and census",
    ),
}


@dataclass(frozen=True, slots=True)
class Harmful(Rule):
    """Settings that are read, and break or weaken a job: a debug level that crashes healthy jobs, timeouts
    that are swallowed or end nobody, blocking wait where it guards nothing."""

    name: ClassVar[str] = "harmful"

    def check(self, case: Case) -> Iterator[Finding]:
        yield from _debug_level(case)
        if case.on_nccl:
            yield from _blocking_wait(case)
            yield from _error_handling(case)
            yield from _swallowed(case)
            yield from _nccl(case)
        for name, (message, instead) in _FOLKLORE.items():
            if case.guard(name) is not None:
                yield Finding(Level.WARNING, name, message, f"use {instead}", case.line(name))


def _debug_level(case: Case) -> Iterator[Finding]:
    setting = case.setting("TORCH_DISTRIBUTED_DEBUG")
    torch = case.target.torch
    if (
        setting is None
        or setting.value.upper() != "DETAIL"
        or torch is None
        or "gloo" not in case.implementations
    ):
        return
    if DETAIL_ENDS_HEALTHY_DDP_SINCE <= torch <= NEWEST:
        message = f"on torch {'.'.join(map(str, torch))} it ends healthy DDP jobs on gloo: signal 11"
        hint = "use INFO, or the guard collective_check"
        yield said_of(setting, Level.ERROR, message, hint, f"tried: {DETAIL_SEEN}")


def _blocking_wait(case: Case) -> Iterator[Finding]:
    setting, torch = case.effective(BLOCKING_WAIT), case.target.torch
    if setting is None or not case.is_on(BLOCKING_WAIT) or "nccl-legacy" not in case.implementations:
        return
    if torch is not None and torch >= (2, 8):
        message = (
            "since torch 2.8 synchronous collectives of the legacy group return no work, so nobody waits for "
            "them with a timeout, and blocking wait has no watchdog: they are not guarded at all"
        )
        hint = "remove it: by default the watchdog ends the rank"
        yield said_of(setting, Level.WARNING, message, hint, "ProcessGroupNCCL.cpp, collective()")


def _error_handling(case: Case) -> Iterator[Finding]:
    setting = case.effective(ASYNC_ERROR_HANDLING)
    if setting is None or case.is_on(BLOCKING_WAIT):
        return
    source = "ProcessGroupNCCL.hpp, ErrorHandlingMode"
    if setting.value.strip() == "0":
        message = "nobody ends a rank whose collective has timed out or failed"
        yield said_of(setting, Level.WARNING, message, "remove it: 3 is the default", source)
    elif setting.value.strip() == "2":
        message = "communicators are aborted and the process lives on: the script has to notice"
        yield said_of(setting, Level.NOTE, message, source=source)


def _swallowed(case: Case) -> Iterator[Finding]:
    rethrow = VARIABLES["TORCH_NCCL_RETHROW_CUDA_ERRORS"]
    setting = case.setting(rethrow.name)
    if setting is None or not case.is_off(rethrow) or "nccl-legacy" not in case.implementations:
        return
    if not case.is_on(VARIABLES["TORCH_NCCL_TEARDOWN_ON_TIMEOUT"]) and not case.is_on(BLOCKING_WAIT):
        message = "the watchdog then also swallows timeouts: the rank goes on"
        yield said_of(setting, Level.WARNING, message, "remove it: 1 is the default", rethrow.source)


def _nccl(case: Case) -> Iterator[Finding]:
    timeout = case.setting("NCCL_IB_TIMEOUT")
    if timeout is not None and re.fullmatch(r"[0-9]{1,9}", timeout.value):
        yield from _ib_timeout(timeout)
    launch = case.setting("CUDA_LAUNCH_BLOCKING")
    if launch is not None and launch.value == "1":
        message = "every kernel is waited for: for debugging only"
        yield said_of(launch, Level.NOTE, message)


def _ib_timeout(setting: Setting) -> Iterator[Finding]:
    """NCCL gives what it reads to a field of 8 bits (ibv_qp_attr.timeout), unchecked."""
    number, kept = int(setting.value), int(setting.value) & 0xFF
    if 1 <= number <= 31:
        return
    if number == kept:
        message = f"{number} is outside the timeouts of InfiniBand, 1 to 31 (4.096 µs × 2^N)"
    else:
        message = f"{number} is cut to 8 bits, which is {kept}, without a word"
    if kept == 0:
        message += "; 0 is no timeout at all: a lost peer is waited for"
    source = "NCCL, ncclIbRtsQp: qpAttr.timeout, a uint8_t of verbs.h"
    yield said_of(setting, Level.ERROR, message, "from 1 to 31; the default is 20", source)
