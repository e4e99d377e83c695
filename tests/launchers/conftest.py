"""A fork server without torch, and arms on it whose ranks run the functions of rank_targets.py."""

from __future__ import annotations

import os
import select
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaoskit import history
from chaoskit.history import ArmEnded, Event, History
from chaoskit.launchers.forkserver import Server, ServerPool
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.rank import region

LIMIT_S = 60.0


class RunningTest:
    """An arm under test: start it, wait for events, end it."""

    def __init__(
        self, server: Server, folder: Path, target: str, ranks: int, plan: str, **settings: Any
    ) -> None:
        self.folder = folder
        self.memfd = os.memfd_create("test")
        os.truncate(self.memfd, ranks * region.REGION_BYTES)
        self.doorbell, doorbell_w = os.pipe()
        self.release = os.eventfd(0, os.EFD_NONBLOCK)
        plan_file = folder / "plan.json"
        plan_file.write_text(str(folder / "undone"))
        launch = ArmLaunch(
            arm_dir=str(folder), ranks=ranks, plan_path=str(plan_file), memfd=self.memfd, doorbell=doorbell_w,
            release=self.release, target=f"launchers.rank_targets:{target}",
            load_plan=f"launchers.rank_targets:{plan}" if plan else "", **settings,
        )  # fmt: skip
        self.arm = server.start_arm(launch)
        os.close(doorbell_w)
        self.events: list[Event] = []

    def next(self) -> Event:
        """Wait for the next event. EOFError when the warden is gone."""
        assert self.arm.connection.poll(LIMIT_S), f"nothing came any more after {self.events}"
        event = history.from_line(self.arm.connection.recv_bytes().decode())
        self.events.append(event)
        return event

    def until(self, kind: type[Event], count: int = 1) -> Event:
        """Wait until ``count`` events of ``kind`` have come; return the last."""
        while len(found := [e for e in self.events if isinstance(e, kind)]) < count:
            self.next()
        return found[count - 1]

    def finish(self) -> History:
        """Wait for the end of the arm, close it, return all events."""
        self.until(ArmEnded)
        assert self.close()
        return History.of(self.events)

    def wait_for_doorbell(self) -> None:
        assert select.select([self.doorbell], [], [], LIMIT_S)[0]
        os.read(self.doorbell, 1)

    def output(self, slot: int, stream: str = "stdout") -> str:
        return (self.folder / f"rank{slot}" / f"{stream}.log").read_text()

    def close(self) -> bool:
        return self.arm.close()

    def free(self) -> None:
        self.close()
        for fd in (self.memfd, self.doorbell, self.release):
            os.close(fd)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests that do not harm it."""
    with ServerPool(preload=()) as pool:
        yield pool.server()


@pytest.fixture
def start(server: Server, tmp_path: Path) -> Iterator[Callable[..., RunningTest]]:
    """Start an arm: ``start(target, ranks=…, plan=…, on=server, **settings of ArmLaunch)``."""
    started: list[RunningTest] = []

    def begin(
        target: str, ranks: int = 1, plan: str = "", on: Server | None = None, **settings: Any
    ) -> RunningTest:
        folder = Path(tempfile.mkdtemp(dir=tmp_path, prefix="arm"))
        arm = RunningTest(on or server, folder, target, ranks, plan, **settings)
        started.append(arm)
        return arm

    yield begin
    for arm in started:
        arm.free()
