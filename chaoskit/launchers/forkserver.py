"""The runner's side: fork servers, one per set of start-up settings, and the arms they started.

Own instances instead of ``multiprocess``'s one global server, because a variable that torch reads at its
import needs a server of its own. ``multiprocess`` serves the forks and passes the descriptors; what is sent
to the child says nothing of a main module, so the user's script is never imported a second time.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from multiprocess import forkserver as mp_forkserver
from multiprocess import popen_forkserver, reduction, util

from chaoskit.errors import LaunchFailed
from chaoskit.launchers import kernel, server_main, sweep
from chaoskit.launchers.launch import ArmLaunch
from chaoskit.launchers.running import RunningArm
from chaoskit.launchers.start import WardenStart
from chaoskit.model import Plan
from chaoskit.rank.program import SCRATCH_VARIABLE

Env = tuple[tuple[str, str], ...]
PRELOAD: Final = (
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch._dynamo",  # the first optimizer step imports it, 3.5 s in every rank if it is not here
    "torch.optim",
    "torch.utils.data",
    "encodings.idna",  # looking up a host name needs it
    "chaoskit.codec",
    "chaoskit.faults.*",
    "chaoskit.guards.*",
    "chaoskit.workloads.*",
    "chaoskit.rank.bootstrap",
)
"""``package.*`` is every module of the package. What is not here is imported by each rank of each arm."""
PRELOAD_FOR_HOSTS: Final = ("chaoskit.hosts.switch",)
"""What builds virtual hosts: 0.25 s of a core, once instead of in the switch of each arm."""
_READY_LIMIT_S: Final = 180.0
"""Loading torch for the first time from a cold disk took up to a minute."""
_FORK_LIMIT_S: Final = 60.0
_CLOSE_LIMIT_S: Final = 10.0


LEFT_OUT: Final = ("TORCH_", "TORCHELASTIC_", "NCCL_", "GLOO_", "C10D_", "PYTORCH_")
"""Variables of the caller that the ranks do not get: they would change what every profile does, the control
too. One that is to be tested belongs into a profile."""


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of the caller's environment the ranks are given."""
    return {name: value for name, value in environment.items() if not name.startswith(LEFT_OUT)}


class ServerPool:
    """The servers of one run. Use as a context manager; nothing stays after :meth:`close`.

    ``keep_all``: the ranks get the caller's variables of torch and its backends too (nothing is compared)."""

    def __init__(self, preload: tuple[str, ...] = PRELOAD, keep_all: bool = False) -> None:
        self._preload = preload
        self._keep_all = keep_all
        self._servers: dict[Env, Server] = {}

    def server(self, env: Env = ()) -> Server:
        """Return the server whose start-up environment has ``env`` on top of ours; start it if need be.

        Does not wait until it has loaded torch. Raises LaunchFailed outside of the main thread: a
        server dies with the thread that started it.
        """
        key = tuple(sorted(env))
        server = self._servers.get(key)
        if server is None or not server.alive:
            if server is not None and threading.current_thread() is not threading.main_thread():
                raise LaunchFailed(f"the fork server has ended: {server.log() or 'it left no word'}")
            if server is not None:
                server.close()
            server = self._servers[key] = Server(key, self._preload, self._given())
        return server

    def launcher_environment(self, plan: Plan, arm_dir: Path) -> Env:
        """Return all that a launcher of the user's is started with."""
        environment = {**self._given(), **dict(plan.profile.env)}
        environment[SCRATCH_VARIABLE] = str(arm_dir / "scratch")
        # The programs that belong to this interpreter (torchrun, …) come before others of the same name.
        beside = os.path.dirname(sys.executable)
        environment["PATH"] = os.pathsep.join(filter(None, (beside, environment.get("PATH", ""))))
        return tuple(sorted(environment.items()))

    def _given(self) -> dict[str, str]:
        return dict(os.environ) if self._keep_all else inherited(os.environ)

    def give_up_loading(self) -> None:
        """End the servers that are still loading, and with it all waiting for them. For a signal handler."""
        for server in self._servers.values():
            server.give_up_loading()

    def close(self) -> None:
        """End all servers with all their arms."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Server:
    """One fork server. Threads may share it; only the main thread may make one."""

    def __init__(
        self, env: Env, preload: tuple[str, ...] = PRELOAD, given: Mapping[str, str] | None = None
    ) -> None:
        given = inherited(os.environ) if given is None else given
        if threading.current_thread() is not threading.main_thread():
            raise LaunchFailed(
                "a fork server ends with the thread that started it: start it from the main thread"
            )
        self._lock = threading.RLock()
        self._arms: dict[int, RunningArm] = {}  # by the warden's pid
        self._ready = False
        self._log = os.memfd_create("chaoskit-server-log", os.MFD_CLOEXEC)
        alive_r, self._alive = os.pipe2(os.O_CLOEXEC)
        self._status, status_w = os.pipe2(os.O_CLOEXEC)
        with _private_listener() as (listener, self._address):
            passed = (listener.fileno(), alive_r, status_w)
            self._process = subprocess.Popen(
                [sys.executable, *util._args_from_interpreter_flags(), "-c", _command(passed, preload)],
                env={"OMP_NUM_THREADS": "1", **given, **dict(env)},
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                pass_fds=passed, start_new_session=True,
            )  # fmt: skip
        os.close(alive_r)
        os.close(status_w)
        _servers.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        """Return the end of what the server and its wardens printed; normally nothing."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, 4000, max(0, size - 4000)).decode(errors="replace").strip()

    def wait_ready(self, limit_s: float = _READY_LIMIT_S) -> None:
        """Return once torch is loaded. Raises LaunchFailed with what went wrong instead."""
        with self._lock:
            if self._ready:
                return
            said = _read_all(self._status, limit_s)
            if said != server_main.READY:
                why = said.decode(errors="replace").strip() or self.log() or "it ended without a word"
                raise LaunchFailed(f"the fork server did not come up: {why}")
            self._ready = True

    def give_up_loading(self) -> None:
        """End the server unless it is ready; :meth:`wait_ready` then raises. Takes no lock."""
        if not self._ready and self._process.returncode is None:
            self._process.kill()

    def start_arm(self, launch: ArmLaunch) -> RunningArm:
        """Start the arm's warden, which starts its ranks. Raises LaunchFailed."""
        from multiprocess.connection import Pipe

        with self._lock:
            self.wait_ready()
            ours, theirs = Pipe(duplex=True)
            try:
                descriptors = [theirs.fileno(), *(fd for fd in launch.descriptors if fd >= 0)]
                popen = _WardenPopen(WardenStart(launch), self._address, descriptors)
            except (OSError, EOFError) as error:
                ours.close()  # a warden that was forked all the same sees this and ends
                raise LaunchFailed(f"the fork server started no arm: {error!r}\n{self.log()}") from error
            finally:
                theirs.close()
            arm = RunningArm(popen.pid, ours, popen.sentinel, self)
            self._arms[arm.pid] = arm
            return arm

    def let_go(self) -> None:
        """In a forked child of the runner: do not keep the lifelines of server and wardens open."""
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1
        for arm in self._arms.values():
            arm.let_go()
        self._arms.clear()

    def forget(self, arm: RunningArm) -> None:
        """The arm is closed: its warden is gone."""
        with self._lock:
            self._arms.pop(arm.pid, None)

    def end_orphans(self, limit_s: float) -> bool:
        """End what killed wardens have left to this server. Return whether nothing of it is left."""
        with self._lock:  # no warden may be in the making, it would look like an orphan
            return not self.alive or sweep.kill_orphans(self.pid, set(self._arms), limit_s)

    def close(self) -> None:
        """End all arms and the server."""
        self.give_up_loading()
        with self._lock:
            for arm in list(self._arms.values()):
                arm.close()
            if self._alive < 0:
                return
            os.close(self._alive)
            self._alive = -1
        try:
            # A server that was never used may still be loading torch, and has started nothing yet.
            self._process.wait(_CLOSE_LIMIT_S if self._ready else 0.0)
        except subprocess.TimeoutExpired:
            sweep.kill_tree(self.pid)
            self._process.wait()
        for fd in (self._status, self._log):
            os.close(fd)
        self._address.close()


_servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _let_go_of_all() -> None:
    for server in _servers:
        server.let_go()


os.register_at_fork(after_in_child=_let_go_of_all)


class _Address:
    """Where a server listens: a socket that has no name any more, held by a descriptor of ours.

    A name in the temporary folder would stay behind when we are killed, and an abstract one would let
    every user of the machine run code as this one.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def connect(self, client: socket.socket) -> None:
        client.connect(f"/proc/self/fd/{self._fd}")

    def close(self) -> None:
        os.close(self._fd)


@contextlib.contextmanager
def _private_listener() -> Iterator[tuple[socket.socket, _Address]]:
    with tempfile.TemporaryDirectory(prefix="chaoskit-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder, secrets.token_hex(4)))
        listener.bind(path)
        listener.listen(128)
        yield listener, _Address(os.open(path, os.O_PATH | os.O_CLOEXEC))


def _command(given: tuple[int, int, int], preload: tuple[str, ...]) -> str:
    arguments = ", ".join(map(str, given))
    return (
        f"import sys; sys.path[:] = {_search_path()!r}; from chaoskit.launchers.server_main import main; "
        f"main({arguments}, {os.getpid()}, {preload!r})"
    )


def _search_path() -> list[str]:
    """Where we find modules, with the current folder by its name."""
    return [os.path.abspath(entry) for entry in sys.path]


def _read_all(fd: int, limit_s: float) -> bytes:
    """Read to the end of the pipe. Raises LaunchFailed when that does not come in time."""
    deadline = time.monotonic() + limit_s
    parts: list[bytes] = []
    while True:
        if not kernel.readable_within(fd, deadline - time.monotonic()):
            raise LaunchFailed(f"the fork server was not ready within {limit_s:g} s")
        part = os.read(fd, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)


class _WardenPopen(popen_forkserver.Popen):  # type: ignore[misc] # multiprocess has no types
    """Starts ``process_obj`` in the server behind ``address`` with ``descriptors``.

    The pipe that multiprocess would keep open to say that the parent lives, its resource tracker and the
    server's own lifeline are not given to the child, so that nothing but the runner holds any of them.
    """

    sentinel: int
    pid: int

    def __init__(self, process_obj: WardenStart, address: _Address, descriptors: list[int]) -> None:
        self._address = address
        self._descriptors = descriptors
        super().__init__(process_obj)

    def _launch(self, process_obj: WardenStart) -> None:
        buffer = io.BytesIO()
        reduction.dump({"sys_path": _search_path(), "dir": os.getcwd()}, buffer)
        reduction.dump(process_obj, buffer)
        self.sentinel, writer = self._fork_in_server()
        self.finalizer: Any = None  # RunningArm closes the sentinel
        try:
            with open(writer, "wb") as pipe:
                pipe.write(buffer.getbuffer())
            if not kernel.readable_within(self.sentinel, _FORK_LIMIT_S):
                raise TimeoutError(f"no answer within {_FORK_LIMIT_S:g} s")
            self.pid = mp_forkserver.read_signed(self.sentinel)
        except BaseException:
            os.close(self.sentinel)
            raise

    def _fork_in_server(self) -> tuple[int, int]:
        """As ForkServer.connect_to_new_process: return where pid and exit code come from, where data goes."""
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        parent_r, child_w = os.pipe2(os.O_CLOEXEC)
        child_r, parent_w = os.pipe2(os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX) as client:
                self._address.connect(client)
                reduction.sendfds(client, [child_r, child_w, nothing, nothing, *self._descriptors])
        except BaseException:
            os.close(parent_r)
            os.close(parent_w)
            raise
        finally:
            for fd in (nothing, child_r, child_w):
                os.close(fd)
        return parent_r, parent_w
