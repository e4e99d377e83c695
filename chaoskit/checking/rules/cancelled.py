"""Settings that another setting makes pointless."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from chaoskit.checking.case import Case, Setting
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.profiles.torch_nccl import BLOCKING_WAIT
from chaoskit.profiles.variables import VARIABLES

_OF_THE_WATCHDOG: Final = (
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_PROPAGATE_ERROR",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS",
    "TORCH_NCCL_DESYNC_DEBUG",
)
_BUFFER_ON_BY_DEFAULT: Final = (2, 8)


@dataclass(frozen=True, slots=True)
class Cancelled(Rule):
    """A setting without effect because of another one of the same file: what belongs to the watchdog under
    blocking wait, a heartbeat timeout whose monitor only logs, a dump of a flight recorder that is off."""

    name: ClassVar[str] = "cancelled"

    def check(self, case: Case) -> Iterator[Finding]:
        if "nccl-legacy" not in case.implementations:
            return
        yield from _under_blocking_wait(case)
        yield from _heartbeat(case)
        yield from _dump(case)


def _under_blocking_wait(case: Case) -> Iterator[Finding]:
    if not case.is_on(BLOCKING_WAIT):
        return
    for name in _OF_THE_WATCHDOG:
        if (setting := case.setting(name)) is not None:
            message = "belongs to the watchdog, which is not created under blocking wait"
            yield said_of(setting, Level.WARNING, message, "remove one of the two", BLOCKING_WAIT.source)


def _heartbeat(case: Case) -> Iterator[Finding]:
    monitoring = case.setting("TORCH_NCCL_ENABLE_MONITORING")
    heartbeat = case.setting("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
    if heartbeat is None or monitoring is None or not case.is_off(VARIABLES[monitoring.name]):
        return
    message = f"under {monitoring.name}={monitoring.value} the heartbeat monitor only logs and ends nothing"
    hint = "set TORCH_NCCL_ENABLE_MONITORING=1, or leave both out"
    yield said_of(heartbeat, Level.WARNING, message, hint, VARIABLES[monitoring.name].source)


def _dump(case: Case) -> Iterator[Finding]:
    dump = case.effective(VARIABLES["TORCH_NCCL_DUMP_ON_TIMEOUT"])
    if dump is None or not case.is_on(VARIABLES["TORCH_NCCL_DUMP_ON_TIMEOUT"]):
        return
    size, why = _recorder_is_off(case)
    if why:
        where = VARIABLES["TORCH_FR_BUFFER_SIZE"].source
        name = "TORCH_NCCL_TRACE_BUFFER_SIZE" if _is_before(case) else "TORCH_FR_BUFFER_SIZE"
        hint = f"set {name}=2000" if size is None else f"set {size.name} above 0"
        yield said_of(dump, Level.WARNING, f"there is nothing to dump: {why}", hint, where)


def _recorder_is_off(case: Case) -> tuple[Setting | None, str]:
    old = case.setting("TORCH_NCCL_TRACE_BUFFER_SIZE")
    size = old if _is_before(case) else case.effective(VARIABLES["TORCH_FR_BUFFER_SIZE"])
    if size is not None:
        return size, f"{size.name}={size.value} turns the flight recorder off" if size.value == "0" else ""
    return None, "before torch 2.8 the flight recorder is off by default" if _is_before(case) else ""


def _is_before(case: Case) -> bool:
    return case.target.torch is not None and case.target.torch < _BUFFER_ON_BY_DEFAULT
