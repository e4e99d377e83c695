"""The brake holds up what it should, nothing else, and is gone with the process that it holds up."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit import capabilities
from chaoskit.faults._file_brake import brake

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not capabilities.find("seccomp-notify").available, reason="no system calls can be held up here"
    ),
]
HOLD_S = 0.2


def in_child(body: Callable[[], bool]) -> bool:
    """Fork, return whether ``body`` was true there; it has changed the process for good."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if body() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def took_s(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start


def test_reading_writing_and_syncing_take_longer(tmp_path: Path) -> None:
    def body() -> bool:
        brake(str(tmp_path), HOLD_S).engage()
        fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        actions = [
            lambda: os.write(fd, b"12"), lambda: os.pread(fd, 1, 0), lambda: os.fsync(fd),
            lambda: os.writev(fd, [b"3"]), lambda: os.ftruncate(fd, 1), lambda: os.sendfile(1, fd, 0, 0),
        ]  # fmt: skip
        return all(took_s(action) >= HOLD_S for action in actions) and os.fstat(fd).st_size == 1

    assert in_child(body)


def test_other_files_pipes_and_sockets_do_not(tmp_path: Path) -> None:
    def body() -> bool:
        brake(str(tmp_path / "slow"), 30.0).engage()
        with open(tmp_path / "slower", "w+") as file:  # begins with the same letters
            file.write("x")
            file.flush()
            os.fsync(file.fileno())
        reader, writer = os.pipe()
        os.write(writer, b"x")
        ours, theirs = socket.socketpair()
        ours.send(b"x")
        return os.read(reader, 1) + theirs.recv(1) == b"xx"

    assert in_child(body)


def test_what_is_started_later_is_held_up_and_what_was_there_is_not(tmp_path: Path) -> None:
    def body() -> bool:
        go, times = threading.Event(), {}

        def write(name: str) -> None:
            times[name] = min(took_s(lambda: (tmp_path / name).write_text("x")) for _ in range(5))

        def wait_and_write() -> None:
            go.wait()
            write("before")  # a loaded machine holds up some, a brake all

        before = threading.Thread(target=wait_and_write)
        before.start()
        brake(str(tmp_path), HOLD_S).engage()
        after = threading.Thread(target=write, args=("after",))
        after.start()
        go.set()
        before.join()
        after.join()
        return times["before"] < HOLD_S <= times["after"]

    assert in_child(body)


def test_threads_wait_side_by_side(tmp_path: Path) -> None:
    def body() -> bool:
        brake(str(tmp_path), 1.0).engage()
        files = [tmp_path / str(number) for number in range(25)]
        writers = [threading.Thread(target=file.write_text, args=("x",)) for file in files]

        def all_of_them() -> None:
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()

        return 1.0 <= took_s(all_of_them) < 25.0  # one after the other they would take that long

    assert in_child(body)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_a_wait_and_the_helper_goes_with_it(tmp_path: Path, number: signal.Signals) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            made = brake(str(tmp_path), None)
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                os.write(writer, children.read().encode())
            made.engage()
            os.write(os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT), b"x")
        finally:
            os._exit(0)
    helper = os.pidfd_open(int(os.read(reader, 20)))
    while not (tmp_path / "file").exists():
        os.sched_yield()
    os.kill(pid, number)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -number
    poll = select.poll()
    poll.register(helper, select.POLLIN)
    assert poll.poll(20_000), "the helper outlives what it holds up"
    for fd in (reader, writer, helper):
        os.close(fd)
    assert (tmp_path / "file").stat().st_size == 0
