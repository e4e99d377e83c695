"""Fork servers of our own: start-up settings, failures that are told, no trace in the runner."""

from __future__ import annotations

import ast
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaoskit.errors import LaunchFailed
from chaoskit.history import ArmEnded, ArmStarted, Ended, Started
from chaoskit.launchers import kernel
from chaoskit.launchers.forkserver import ServerPool
from chaoskit.launchers.launch import ArmLaunch

pytestmark = pytest.mark.timeout(300)
Start = Callable[..., Any]


@pytest.fixture
def pool() -> Iterator[ServerPool]:
    with ServerPool(preload=()) as pool:
        yield pool


def test_each_start_up_environment_has_a_server_of_its_own(pool: ServerPool, start: Start) -> None:
    plain, other = pool.server(), pool.server((("CHAOSKIT_TEST_VARIABLE", "yes"),))
    assert pool.server() is plain
    assert pool.server((("CHAOSKIT_TEST_VARIABLE", "yes"),)) is other
    found = []
    for server in (plain, other):
        arm = start("show_process", on=server)
        arm.finish()
        found.append(ast.literal_eval(arm.output(0))["variable"])
    assert found == [None, "yes"]
    assert "CHAOSKIT_TEST_VARIABLE" not in os.environ


def test_a_preload_that_fails_is_told() -> None:
    missing = "no_such_module_anywhere"
    with (
        ServerPool(preload=("json", missing)) as pool,
        pytest.raises(LaunchFailed, match=f"No module named '{missing}'"),
    ):
        pool.server().start_arm(ArmLaunch("unused", 1))


def test_a_whole_package_is_preloaded() -> None:
    with ServerPool(preload=("launchers.*",)) as pool, pytest.raises(LaunchFailed, match="last words"):
        pool.server().wait_ready()


def test_a_server_that_dies_while_it_loads_is_told() -> None:
    pool = ServerPool(preload=("launchers.ends_at_import",))
    with pool, pytest.raises(LaunchFailed, match="last words"):
        pool.server().wait_ready()


def test_only_the_main_thread_may_start_a_server(pool: ServerPool) -> None:
    raised: list[BaseException] = []

    def begin() -> None:
        try:
            pool.server()
        except LaunchFailed as error:
            raised.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


def test_arms_may_be_started_from_other_threads(pool: ServerPool, start: Start) -> None:
    server = pool.server()
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(start("finish", on=server).finish())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(events.all(ArmEnded)) for events in found] == [1] * 4


def test_a_killed_server_is_told_and_replaced(pool: ServerPool, start: Start) -> None:
    server = pool.server()
    arm = start("wait", ranks=2, on=server)
    arm.until(Started, 2)
    os.kill(server.pid, signal.SIGKILL)
    pidfd = os.pidfd_open(server.pid)
    select.select([pidfd], [], [], 30)
    os.close(pidfd)
    with pytest.raises(LaunchFailed, match="started no arm"):
        start("finish", on=server)
    arm.arm.end()  # the arms that run know nothing of it
    assert {e.by for e in arm.finish().all(Ended)} == {"supervisor"}
    assert start("finish", on=pool.server()).finish().slots == (0,)


def test_a_killed_server_leaves_a_sentinel_that_is_true(pool: ServerPool, start: Start) -> None:
    server = pool.server()
    arm = start("wait", on=server)
    arm.until(Started)
    os.kill(server.pid, signal.SIGKILL)
    assert not select.select([arm.arm.sentinel], [], [], 0.2)[0]
    assert arm.close()


def test_ranks_do_not_outlive_a_warden_that_nobody_can_clean_up_after(pool: ServerPool, start: Start) -> None:
    """Server and warden killed: the ranks themselves still end with their parent."""
    server = pool.server()
    arm = start("wait", ranks=2, on=server)
    arm.until(Started, 2)
    ranks = [os.pidfd_open(e.pid) for e in arm.events if isinstance(e, Started)]
    os.kill(server.pid, signal.SIGKILL)
    os.kill(arm.arm.pid, signal.SIGKILL)
    for pidfd in ranks:
        assert select.select([pidfd], [], [], 30)[0]
        os.close(pidfd)


def test_a_child_that_the_runner_forks_holds_no_lifeline(pool: ServerPool, start: Start) -> None:
    arm = start("wait", on=pool.server())
    arm.until(Started)
    child = os.fork()
    if child == 0:
        signal.pause()
    assert arm.close()
    pool.close()  # would wait for the child's copy of the lifeline
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_closing_the_pool_ends_what_runs(start: Start) -> None:
    pool = ServerPool(preload=())
    server = pool.server()
    arm = start("nasty", ranks=4, on=server)
    arm.until(Started, 4)
    pool.close()
    assert kernel.state(arm.arm.pid) == ""
    assert not server.alive


def test_a_server_that_nobody_waited_for_is_closed() -> None:
    with ServerPool() as pool:  # torch is still being loaded
        server = pool.server()
    assert not server.alive


def test_nothing_is_left_in_the_temporary_folder(pool: ServerPool, start: Start) -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    start("finish", on=pool.server()).finish()
    assert set(os.listdir(tempfile.gettempdir())) <= before


def test_what_the_server_prints_stays_off_the_terminal(pool: ServerPool) -> None:
    server = pool.server()
    server.wait_ready()
    ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)}
    theirs = {os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in (0, 1, 2)}
    assert theirs & ours <= {os.devnull}
    assert os.getsid(server.pid) == server.pid  # Ctrl-C in the terminal does not reach it


def test_the_limit_of_open_files_is_the_runners_in_the_ranks(pool: ServerPool, start: Start) -> None:
    """The warden needs four descriptors a rank and raises its own limit."""
    server = pool.server()
    server.wait_ready()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (40, hard))
    arm = start("show_open_files", ranks=16, on=server)
    assert len(arm.finish().slots) == 16
    assert arm.output(15) == "40\n"


def test_the_users_script_is_not_imported_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import json, os, sys
        print("imported", flush=True)
        from chaoskit.launchers.forkserver import ServerPool
        from chaoskit.launchers.launch import ArmLaunch
        with ServerPool(preload=()) as pool:
            launch = ArmLaunch(sys.argv[1], 2, load_plan="", target="launchers.rank_targets:finish")
            arm = pool.server().start_arm(launch)
            while json.loads(arm.connection.recv_bytes())["kind"] != "ArmEnded":
                pass
        """)
    )
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], env=env, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("imported\n", "")


def test_where_namespaces_are_refused_arms_run_in_our_network(start: Start) -> None:
    with ServerPool(preload=("launchers.refused_namespaces",)) as pool:
        arm = start("show_process", on=pool.server())
        assert not arm.finish().all(ArmStarted)[0].isolated
        assert ast.literal_eval(arm.output(0))["interfaces"] == [name for _, name in socket.if_nameindex()]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_server_with_torch_has_one_thread_and_its_ranks_can_compute_and_use_cuda(start: Start) -> None:
    with ServerPool() as pool:
        server = pool.server()
        server.wait_ready()
        assert len(os.listdir(f"/proc/{server.pid}/task")) == 1
        arm = start("compute_with_torch", ranks=2, on=server)
        arm.finish()
        assert arm.output(1).splitlines()[-1] == "('1', 499500.0)"
        # No CUDA context: a forked process could not use one.
        assert "libcuda.so" not in Path(f"/proc/{server.pid}/maps").read_text()
        held = [os.readlink(fd) for fd in Path(f"/proc/{server.pid}/fd").iterdir()]
        assert not [name for name in held if name.startswith("/dev/nvidia-uvm")]
        arm = start("show_cuda", on=server)
        arm.finish()
        assert ast.literal_eval(arm.output(0)) == {
            "initialized": False, "bad_fork": False, "only_for_loading": []
        }  # fmt: skip
