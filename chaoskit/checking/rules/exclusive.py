"""Settings that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.checking.case import Case
from chaoskit.checking.family import Rule, said_of
from chaoskit.checking.finding import Finding, Level
from chaoskit.profiles.torch_nccl import ASYNC_ERROR_HANDLING, BLOCKING_WAIT

_SOURCE = (
    "ProcessGroupNCCL.cpp: with blocking wait no watchdog thread is created; nccl2: pytorch/pytorch#192280"
)


@dataclass(frozen=True, slots=True)
class Exclusive(Rule):
    """Blocking wait and async error handling, both on: blocking wait wins, no watchdog thread is created, and
    async error handling, which is the watchdog's, does nothing."""

    name: ClassVar[str] = "exclusive"

    def check(self, case: Case) -> Iterator[Finding]:
        handling = case.effective(ASYNC_ERROR_HANDLING)
        waiting = case.effective(BLOCKING_WAIT)
        if handling is None or waiting is None or not case.is_on(BLOCKING_WAIT):
            return
        if not case.is_on(ASYNC_ERROR_HANDLING) or not _applies(case):
            return
        message = (
            f"{waiting.name} and {handling.name} exclude each other: blocking wait wins, there is no "
            f"watchdog, and {handling.name}={handling.value} does nothing"
        )
        hint = f"remove {waiting.name} (and let the watchdog end the rank), or set {handling.name}=0"
        yield said_of(waiting, Level.ERROR, message, hint, _SOURCE)


def _applies(case: Case) -> bool:
    torch = case.target.torch
    return any(
        by != "gloo" and (torch is None or BLOCKING_WAIT.is_read(torch, by) is not False)
        for by in case.implementations
    )
