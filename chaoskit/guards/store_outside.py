"""Keeps the job's store in a process that is no rank's, on a host that has none: the guard, its rule as
values, and that process itself.

``python -m chaoskit.guards.store_outside --port 29500`` is the process for any launcher; it needs torch
alone, and ends by SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NoReturn

from chaoskit.errors import InvalidInput, usage
from chaoskit.guards.group_kill import Kill, ended_how
from chaoskit.model import Guard
from chaoskit.network import STORE_HOST

_CANNOT_SERVE = 1


@dataclass(frozen=True, slots=True)
class StoreOutside(Guard):
    """The job's TCPStore lives apart from the ranks, on a host without any, so that the loss of rank 0 or of
    its host is seen like any other: by default rank 0 hosts the store, and its clients ignore their timeouts
    while it is frozen. When the store itself is lost, every rank is ended (SIGTERM, and SIGKILL ``grace_s``
    later): at once where its launcher sees it end, ``silent_s`` after it was stopped, or after its host
    stopped answering. A store that goes on in time is forgiven.

    Only where the ranks are on several hosts; on one, the loss of the store's host is the loss of the job.
    chaoskit's own launcher runs the store on a virtual host ``store``. torchrun keeps it in its agent on the
    first host: apart from rank 0, but not from that one's host. Under any other launcher, run it on a host
    that has no rank (a login node, a pod of its own)::

        python -m chaoskit.guards.store_outside --port 29500 [--host NAME]

    It says which variables the ranks need: MASTER_ADDR and MASTER_PORT, and
    ``TORCHELASTIC_USE_AGENT_STORE=True``, by which torch makes every rank a client of ``env://``. One store
    serves one job, once: what a job leaves in it would meet the next one. Nobody ends the job for the loss
    of such a store; torch's and the guards' own timeouts and the ``sidecar`` guard do not need it once
    the process group has formed.

    Example::

        guards:
          store_outside: {silent: 30s, grace: 2s}
    """

    name: ClassVar[str] = "store_outside"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "launcher"
    exit_codes: ClassVar[dict[int, str]] = {
        -signal.SIGTERM: "ended by the launcher because the job's store is lost",
        -signal.SIGKILL: "ended by the launcher after the grace period",
    }
    serves_store: ClassVar[bool] = True

    silent_s: float = 30.0
    grace_s: float = 2.0

    def policy(self, ranks: int = 0) -> StoreOutsidePolicy:
        """Return a fresh policy for a job."""
        return StoreOutsidePolicy(self)


class StoreOutsidePolicy:
    """What the rule says about one job; fed and asked as ``group_kill``'s is. Of a store whose host does not
    answer nobody learns anything before ``silent_s`` are over."""

    def __init__(self, rule: StoreOutside) -> None:
        self._rule = rule
        self._silent_since: float | None = None  # its host
        self._stopped_since: float | None = None
        self._ended: tuple[float, str] | None = None
        self._plan: list[tuple[float, Kill]] = []
        self._triggered = False

    # The ends of ranks are others' business.
    def on_end(self, slot: int, exit_code: int, work_done: bool, t: float) -> None: ...
    def on_stop(self, slot: int, t: float) -> None: ...
    def on_continue(self, slot: int, t: float) -> None: ...

    def on_store_end(self, exit_code: int, t: float) -> None:
        """The process of the store ended."""
        self._ended = (t, ended_how(exit_code))

    def on_store_stop(self, t: float) -> None:
        """The process of the store was stopped."""
        self._stopped_since = t

    def on_store_continue(self, t: float) -> None:
        """The process of the store goes on."""
        self._stopped_since = None

    def on_host_lost(self, host: str, slots: Sequence[int], t: float) -> None:
        """``host`` does not answer from ``t`` on."""
        if host == STORE_HOST:
            self._silent_since = t

    def on_host_back(self, host: str, t: float) -> None:
        """``host`` answers again."""
        if host == STORE_HOST:
            self._silent_since = None

    def due(self, t: float) -> list[Kill]:
        """Return what is to be sent now, each once."""
        wait = self._wait()
        if wait is not None and wait[0] <= t:
            self._trigger(t, wait[1])
        now = [kill for at, kill in self._plan if at <= t]
        self._plan = [(at, kill) for at, kill in self._plan if at > t]
        return now

    def next_due(self) -> float | None:
        """Return the time of the next thing that becomes due, None when there is none."""
        wait = self._wait()
        return min([at for at, _ in self._plan] + ([wait[0]] if wait is not None else []), default=None)

    def _wait(self) -> tuple[float, str] | None:
        """When the rule acts as things are, and the reason it gives then."""
        if self._triggered:
            return None
        store, silent_s = f"the store on host {STORE_HOST}", self._rule.silent_s
        if self._silent_since is not None:
            found = "is stopped" if self._ended is None else self._ended[1]
            return self._silent_since + silent_s, f"{store} has not answered for {silent_s:g} s: it {found}"
        if self._ended is not None:
            return self._ended[0], f"{store} {self._ended[1]}"
        if self._stopped_since is not None:
            return self._stopped_since + silent_s, f"{store} has been stopped for {silent_s:g} s"
        return None

    def _trigger(self, t: float, reason: str) -> None:
        self._triggered = True
        late = f"{reason}; alive {self._rule.grace_s:g} s after SIGTERM"
        self._plan.append((t, Kill(None, signal.SIGTERM, reason)))
        self._plan.append((t + self._rule.grace_s, Kill(None, signal.SIGKILL, late)))


def serve(port: int, ready: Callable[[int], object]) -> None:
    """Hold a store at ``port`` of every address of this host (0: any free port), call ``ready`` with the port
    once it listens, and never return. Raises RuntimeError where it cannot listen."""
    from torch._C._distributed_c10d import TCPStore

    libuv = os.environ.get("USE_LIBUV", "1") == "1"
    store = TCPStore("127.0.0.1", port, None, True, wait_for_workers=False, use_libuv=libuv)
    ready(store.port)
    while True:
        time.sleep(1.0)  # not pause(): a signal right before it would wake nobody


def variables(host: str, port: int) -> dict[str, str]:
    """Return what the ranks need in their environment to use a store there."""
    return {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise usage(message, self.format_usage().strip())


def main(words: Sequence[str]) -> int:
    """Serve until told to end; print, as lines for a shell, what the ranks need."""
    parser = _Parser(
        prog="python -m chaoskit.guards.store_outside",
        description="Hold the store of one job, on a host where no rank of it runs.",
    )
    parser.add_argument("--port", type=int, default=0, help="where it listens; any free port if not given")
    parser.add_argument("--host", default=socket.gethostname(), help="by which name ranks reach it")
    try:
        asked = parser.parse_args(words)
        if not 0 <= asked.port < 1 << 16:
            parser.error(f"--port {asked.port}: expected 1 to 65535, or 0 for any that is free")
    except InvalidInput as error:
        print(f"chaoskit: {error}", file=sys.stderr)
        return error.exit_code

    def say(port: int) -> None:
        for name, value in variables(asked.host, port).items():
            print(f"export {name}={value}", flush=True)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        serve(asked.port, say)
    except KeyboardInterrupt:
        return 0
    except RuntimeError as error:  # DistNetworkError
        why = str(error).split("\n", 1)[0]
        print(f"chaoskit: no store can be served at port {asked.port}: {why}", file=sys.stderr)
    return _CANNOT_SERVE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
