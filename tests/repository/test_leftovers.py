"""The check that tests leave nothing behind catches a leftover of each kind, and only those."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import leftovers
import pytest

PROJECT = Path(__file__).parents[2]
WAIT_FOR_INPUT = [sys.executable, "-c", "print(flush=True); input()"]

LEAKY_TEST = """
import subprocess, sys

PARENT = '''
import subprocess
orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
open("pid", "w").write(str(orphan.pid))
'''

def test_it():
    subprocess.run([sys.executable, "-c", PARENT], check=True)
"""


@pytest.fixture
def watch(tmp_path: Path) -> leftovers.Watch:
    """Of this process and ``tmp_path`` alone: elsewhere other runs make and remove things at any moment."""
    nowhere = tmp_path / "nowhere"
    return leftovers.Watch(os.getpid(), leftovers.Places(tmp_path, nowhere, nowhere, nowhere))


@pytest.fixture
def shm_watch(tmp_path: Path) -> leftovers.Watch:
    """Sees what others have in the shared memory of the machine, too."""
    return leftovers.Watch(os.getpid(), leftovers.Places(tmp_path))


@contextlib.contextmanager
def child(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is there (it has said so) and ends with the block."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def kinds(found: list[leftovers.Leftover]) -> set[str]:
    return {leftover.kind for leftover in found}


def test_nothing_is_found_where_nothing_is_left(watch: leftovers.Watch) -> None:
    assert watch.settled() == []


def test_a_process_is_found_with_its_command_and_its_test(watch: leftovers.Watch) -> None:
    with child(*WAIT_FOR_INPUT) as process:
        watch.note("tests/test_x.py::test_y")
        (found,) = watch.found()
        assert (found.kind, found.pid) == ("process", process.pid)
        assert "input()" in found.what
        assert "tests/test_x.py::test_y" in found.what
    assert watch.settled() == []


def test_a_stopped_process_is_found_and_ended(watch: leftovers.Watch) -> None:
    with child(*WAIT_FOR_INPUT) as process:
        process.send_signal(signal.SIGSTOP)
        leftovers.end(watch.found())
        assert process.wait(60) == -signal.SIGKILL


def test_a_process_from_before_the_watch_is_not_found(watch: leftovers.Watch) -> None:
    with child(*WAIT_FOR_INPUT):
        assert leftovers.Watch(os.getpid(), watch.places).found() == []
        assert kinds(watch.found()) == {"process"}


def test_a_listening_port_is_found_here_and_in_a_child(watch: leftovers.Watch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert [f"{port} of process {os.getpid()}"] == [f.what for f in watch.found()]
    assert watch.found() == []
    listen = "import socket; s = socket.create_server(('', 0)); print(flush=True); input()"
    with child(sys.executable, "-c", listen):
        assert kinds(watch.found()) == {"process", "listening port"}


def test_a_shared_memory_file_is_found(shm_watch: leftovers.Watch) -> None:
    path = Path("/dev/shm", f"chaoskit-test-{uuid.uuid4().hex}")
    path.touch()
    try:
        assert leftovers.Leftover("shared memory file", str(path)) in shm_watch.found()
    finally:
        path.unlink()
    assert str(path) not in [f.what for f in shm_watch.found()]


def test_a_shared_memory_file_in_use_by_another_run_is_not_found(
    shm_watch: leftovers.Watch, tmp_path: Path
) -> None:
    path = Path("/dev/shm", f"chaoskit-test-{uuid.uuid4().hex}")
    hold = f"f = open({str(path)!r}, 'w'); print(flush=True); input()"
    try:
        with child(*WAIT_FOR_INPUT) as other:
            elsewhere = leftovers.Watch(other.pid, leftovers.Places(tmp_path))
            with child(sys.executable, "-c", hold):  # belongs to us, and not to the run of the other
                assert str(path) in [f.what for f in shm_watch.found()]
                assert str(path) not in [f.what for f in elsewhere.found()]
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["pymp-abcd", "chaoskit-arm-1"])
def test_a_temporary_folder_is_found(watch: leftovers.Watch, tmp_path: Path, name: str) -> None:
    (tmp_path / "somebody-elses").touch()
    (tmp_path / name).mkdir()
    assert watch.found() == [leftovers.Leftover("temporary file", str(tmp_path / name))]


def test_a_named_network_namespace_is_found(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    places = leftovers.Places(tmp_path / "tmp", nowhere, tmp_path / "netns", nowhere)
    places.netns.mkdir()
    watch = leftovers.Watch(os.getpid(), places)
    (places.netns / "chaoskit-host-1").touch()
    (places.netns / "of-another-program").touch()
    assert watch.found() == [leftovers.Leftover("network namespace", str(places.netns / "chaoskit-host-1"))]


def test_a_process_in_a_network_namespace_of_its_own_is_found(watch: leftovers.Watch) -> None:
    new = subprocess.run(["unshare", "--net", "--user", "true"], capture_output=True)
    if new.returncode != 0:
        pytest.skip(f"no network namespaces here: {new.stderr.decode()}")
    with child("unshare", "--net", "--user", *WAIT_FOR_INPUT):
        assert kinds(watch.found()) == {"process", "network namespace"}


def test_a_cgroup_is_found(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    places = leftovers.Places(tmp_path / "tmp", nowhere, nowhere, tmp_path / "cgroup")
    (places.cgroups / "memory" / "of-another-program").mkdir(parents=True)
    watch = leftovers.Watch(os.getpid(), places)
    left = places.cgroups / "memory" / "chaoskit-arm-1"
    left.mkdir()
    assert watch.found() == [leftovers.Leftover("cgroup", str(left))]


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_run_that_leaves_a_process_fails_and_ends_it(tmp_path: Path) -> None:
    """The whole of it, in a pytest of its own: even an orphan is found, named and ended."""
    for name in ("conftest.py", "claims.py", "leftovers.py", "real_runs.py"):
        (tmp_path / name).write_bytes((PROJECT / "tests" / name).read_bytes())
    (tmp_path / "test_it.py").write_text(LEAKY_TEST)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", ".", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    pid = (tmp_path / "pid").read_text()
    assert "the tests left behind" in run.stdout
    assert f"process: {pid} (" in run.stdout
    assert "first seen in test_it.py::test_it" in run.stdout
    assert "1 passed, 1 error" in run.stdout
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is gone
        assert "Z" in Path("/proc", pid, "stat").read_text().split()[2]
