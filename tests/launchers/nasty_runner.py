"""A runner that starts arms of nasty ranks until its input ends. It, its server or a warden gets killed."""

from __future__ import annotations

import contextlib
import select
import sys
import tempfile

from chaoskit.errors import LaunchFailed
from chaoskit.launchers import kernel
from chaoskit.launchers.forkserver import Server, ServerPool
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.launchers.running import RunningArm


def begin(server: Server, folder: str) -> RunningArm:
    launch = ArmLaunch(folder, 4, load_plan="", target="launchers.rank_targets:nasty")
    return server.start_arm(launch)


def hear_some(arm: RunningArm) -> None:
    """Read on until a rank has stopped, or the arm is gone: a server that was found dead takes it along."""
    with contextlib.suppress(EOFError, OSError):
        while b'"Stopped"' not in arm.connection.recv_bytes():
            pass


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ServerPool(preload=()) as pool:
        with contextlib.suppress(LaunchFailed):  # the server was killed before
            pool.server().wait_ready()
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            server = pool.server()
            try:
                arms = [begin(server, folder) for _ in range(2)]
            except LaunchFailed:
                continue  # the server was killed: the pool starts another
            hear_some(arms[0])
            for arm in arms:
                assert arm.close(), "an arm left something"
            left = [pid for pid in kernel.children(server.pid) if kernel.state(pid) not in ("", "Z")]
            assert not left, f"the server has {left}"


if __name__ == "__main__":
    main()
