"""Takes the roll of a job through the store before its process group forms, so that a wrong launch is
named."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from chaoskit.guards import interfaces, torch_hooks, uncaught
from chaoskit.guards.context import GuardContext, say
from chaoskit.guards.early_store import Place, open_store, place_of
from chaoskit.guards.roll import Entry, conflict, missing, myself
from chaoskit.model import Guard

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store, TCPStore

_SILENT_S = 1.0
"""How long after the wait a store that does not even answer is given up."""
_TELL_S = 5.0
"""How long a process that knows of its own trouble tries to tell the others; at most a quarter of the
wait."""
_OWN_TROUBLE_SHARE = 0.2
"""A rank that cannot resolve the address gives up this share of the wait earlier, so that its own words come
before those of ranks that only miss it."""
_SETTLE_S = 0.3
"""After a conflict, how long others may still come, so that the odd one out can be told from the rest."""
_LINGER_S = 2.0
"""How long the host of the store stays so that the others can read what is wrong; at most half the wait."""
_HINT = "expected each rank once, with one WORLD_SIZE; check what the launcher gives that process"
_ADDRESS_HINT = "expected rank 0 to listen there; check MASTER_ADDR and MASTER_PORT, and what rank 0 says"
_OUTSIDE_HINT = (
    "expected the store there, which no rank holds; check MASTER_ADDR and MASTER_PORT, and that it runs"
)


@dataclass(frozen=True, slots=True)
class Census(Guard):
    """Before the process group forms, every rank signs a roll in the store: RANK, LOCAL_RANK, WORLD_SIZE,
    host, pid, launcher. All ranks go on once all have signed and nothing contradicts; else every rank that
    can know exits 80 with one line that names what is wrong:

    - at once: a rank claimed twice, differing WORLD_SIZE, a rank beyond it, LOCAL_RANK missing on some ranks,
      RANK or another variable of env:// missing, an interface of GLOO_SOCKET_IFNAME (NCCL_SOCKET_IFNAME) that
      does not exist or has no address, MASTER_PORT taken by another program (on rank 0);
    - after ``wait_s``: ranks that did not come, MASTER_ADDR that cannot be resolved or refuses (names may
      be published and rank 0 may start later than this rank, so both are tried until then), a port that
      answers but not as a store.

    A rank that comes late but within ``wait_s`` is healthy. Every rank needs this guard. Works for env:// and
    tcp:// and for a store that the script brings; not for file://. The store is the one that torch uses
    next (rank 0 hosts it, or the launcher does); keys are under ``chaoskit/census``. A process beyond
    WORLD_SIZE that comes after the roll was closed ends itself only.
    """

    name: ClassVar[str] = "census"
    lives_in: ClassVar[Literal["rank", "sidecar", "launcher", "scheduler"]] = "rank"
    exit_codes: ClassVar[dict[int, str]] = {80: "the job is not launched as it says: see the line on stderr"}

    wait_s: float = 300.0

    def arm(self, rank: GuardContext) -> tuple[str, ...]:
        """Stand in front of ``init_process_group``."""
        torch_hooks.around_init(_Taker(self.wait_s, rank))
        return (f"wait={self.wait_s:g}s",)


class _Taker:
    """Takes the roll in one process."""

    def __init__(self, wait_s: float, rank: GuardContext) -> None:
        self._wait_s = wait_s
        self._rank = rank
        self._taken = 0
        self._own = ""  # what this process finds wrong with itself
        self._stuck = ("", "")  # why it does not get on, as of now, and what to do
        self._open: Store | None = None  # keeps the server alive until torch shares it

    def before_init(self, given: dict[str, Any]) -> None:
        method = given.get("init_method") or "env://"
        reachable = given.get("store") is not None or method.startswith(("env://", "tcp://"))
        if not reachable or given.get("backend") in ("mpi", "fake"):
            self._rank.armed(Census.name, (f"init_method={method}",), applicable=False)
            return
        self._taken += 1
        wait_s = self._wait_s
        entry, place = _read_environment(given, method)
        say(f"census: {entry}, torch {_torch_version()}")
        self._own = conflict([entry])
        if self._own:
            wait_s = min(_TELL_S, wait_s * 0.25)
        self._stuck = _silent(place), _hint_of(place)
        bound = threading.Timer(wait_s + _SILENT_S, lambda: self._fire(*self._stuck))
        bound.daemon = True
        bound.start()
        try:
            self._take(entry, place, time.monotonic() + wait_s)
        finally:
            bound.cancel()

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        self._open = None

    def _take(self, entry: Entry, place: Place, until: float) -> None:
        if (not place.host and place.store is None) or entry.world_size == 1:
            if self._own:
                self._fire(self._own)
            return
        self._open = store = self._store(entry, place, until)
        roll = _Roll(store, self._taken, entry, until, self._wait_s)
        try:
            problem = roll.verdict()
            if problem:  # known, though not all may come to hear it
                self._stuck = problem, _HINT
            if problem and place.hosted_here:
                roll.linger(min(_LINGER_S, self._wait_s * 0.5))
        except RuntimeError as error:  # of the store
            self._fire(f"the store at {place.host}:{place.port} went away ({_short(error)})", _hint_of(place))
        if problem:
            self._fire(problem)

    def _store(self, entry: Entry, place: Place, until: float) -> Store:
        if place.store is not None:
            return place.store
        if not place.hosted_here:
            self._reach(place, until)
        try:
            return _open(place, until, serve=place.hosted_here)
        except RuntimeError as error:  # DistNetworkError
            taken = "EADDRINUSE" in str(error) or "in use" in str(error)
            if not (place.hosted_here and taken):
                does = "host" if place.hosted_here else "reach"
                self._fire(
                    f"cannot {does} the store at {place.host}:{place.port} ({_short(error)})", _hint_of(place)
                )
        other = _within(min(1.0, self._wait_s * 0.25), lambda: _open(place, until, serve=False))
        if other is None:
            where = f"MASTER_PORT {place.port} is taken on {socket.gethostname()}"
            hint = "end that program or choose a free port"
            self._fire(f"{where} by another program", hint, local=True)
        return other  # another process claims rank 0: sign its roll, so that everybody learns it

    def _reach(self, place: Place, until: float) -> None:
        """Wait until something listens at the store's address."""
        pause, begun = 0.02, time.monotonic()
        where = f"MASTER_ADDR:MASTER_PORT {place.host}:{place.port}"
        self._stuck = f"nothing answers at {where} (no answer)", _hint_of(place)
        unresolved_until = until - _OWN_TROUBLE_SHARE * self._wait_s
        while True:
            local = False
            left = until - time.monotonic()
            try:
                socket.create_connection((place.host, place.port), timeout=max(0.05, min(5.0, left))).close()
                self._stuck = _silent(place), _hint_of(place)
                return
            except socket.gaierror as error:
                problem = f"MASTER_ADDR {place.host} cannot be resolved here ({error.strerror})"
                local = True
            except OSError as error:
                problem = f"nothing answers at {where} ({error.strerror or 'no answer'})"
            self._stuck = problem, _hint_of(place)
            if time.monotonic() + pause >= (unresolved_until if local else until):
                tried_s = time.monotonic() - begun
                self._fire(f"{problem}, tried for {tried_s:.3g} s", _hint_of(place), local=local)
            time.sleep(pause)
            pause = min(pause * 1.3, 0.25)

    def _fire(self, problem: str, hint: str = _HINT, *, local: bool = False) -> NoReturn:
        if self._own and hint is not _HINT:  # the store is not to be had, but what is wrong is known
            problem, hint = self._own, _HINT
        local = local or bool(self._own)
        uncaught.end(self._rank, uncaught.Ending(Census.name, 80, f"{problem}; {hint}", local))


class _Roll:
    """The roll in the store, as one rank signs and reads it. The first to sign keeps it; the others wait
    for what that one says, and say it themselves if their own wait is over first."""

    def __init__(self, store: Store, taken: int, entry: Entry, until: float, wait_s: float) -> None:
        from torch._C._distributed_c10d import PrefixStore

        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = PrefixStore(f"chaoskit/census/{attempt}.{taken}", store)
        self._entry = entry
        self._until = until
        self._wait_s = wait_s
        self._expected = 0  # how many will sign in all, as far as can be told

    def verdict(self) -> str:
        """Sign, wait for the others, and return what is wrong; '' where nothing is."""
        ticket = self._store.add("signed", 1)
        self._store.set(f"entry/{ticket}", self._entry.to_json())
        said = self._keep() if ticket == 1 else self._wait_for_verdict(ticket)
        with contextlib.suppress(RuntimeError):  # the host did not stay; what it said is known
            self._store.add("read", 1)
        return "" if said == "ok" else said

    def linger(self, seconds: float) -> None:
        """Stay until all who signed have read the verdict, or ``seconds`` are over; after a conflict also a
        quarter of that for ranks that have yet to come (in place of a duplicate none will)."""
        now = time.monotonic()
        while time.monotonic() < now + seconds:
            read, signed = self._store.add("read", 0), self._store.add("signed", 0)
            if read >= signed and (signed >= self._expected or time.monotonic() > now + seconds * 0.25):
                return
            time.sleep(0.01)

    def _keep(self) -> str:
        """Read entries as they come; say what is wrong, or ok."""
        entries = [self._entry]
        while not conflict(entries) and len(entries) < self._entry.world_size:
            if not self._read_next(entries, self._until):
                return self._say(missing(entries, self._wait_s))
        if conflict(entries):
            settled = min(self._until, time.monotonic() + min(_SETTLE_S, self._wait_s * 0.1))
            expected = max(e.world_size for e in entries)
            while len(entries) < expected and self._read_next(entries, settled):
                pass
            yet_to_come = set(range(expected)) - {e.rank for e in entries}
            self._expected = len(entries) + len(yet_to_come)
        return self._say(conflict(entries) or "ok")

    def _wait_for_verdict(self, ticket: int) -> str:
        if not self._comes("verdict", self._until):
            return self._say(self._found_so_far())
        said = self._store.get("verdict").decode()
        if said == "ok" and ticket > self._entry.world_size:
            mine = self._entry
            claims = f"all {mine.world_size} ranks are here already; this one too claims rank {mine.rank}"
            return conflict([mine]) or claims
        return said

    def _found_so_far(self) -> str:
        entries: list[Entry] = []
        for _ in range(self._store.add("signed", 0)):
            self._read_next(entries, time.monotonic() + 0.1)
        return (
            conflict(entries)
            or missing(entries, self._wait_s)
            or "the rank that keeps the roll does not answer"
        )

    def _read_next(self, entries: list[Entry], until: float) -> bool:
        key = f"entry/{len(entries) + 1}"
        if not self._comes(key, until):
            return False
        entries.append(Entry.from_json(self._store.get(key)))
        return True

    def _comes(self, key: str, until: float) -> bool:
        """Wait for ``key``; False where it does not come until then."""
        try:
            self._store.wait([key], timedelta(seconds=max(0.001, until - time.monotonic())))
        except RuntimeError:  # DistStoreError: the wait timed out, or the host of the store is gone
            return False
        return True

    def _say(self, problem: str) -> str:
        """Make ``problem`` the verdict unless there is one; return the verdict."""
        return self._store.compare_set("verdict", "", problem).decode()


def _read_environment(given: dict[str, Any], method: str) -> tuple[Entry, Place]:
    """Return who this process is and where the store is; what is missing becomes the entry's trouble."""
    problems: list[str] = []

    def read(variable: str, argument: object) -> int:
        if isinstance(argument, int) and argument >= 0:
            return argument
        text = os.environ.get(variable, "")
        if not text.strip().isdigit():
            problems.append(f"{variable} is {f'{text!r}, no number' if text else 'not set'}")
            return -1
        return int(text)

    rank, world_size = read("RANK", given.get("rank", -1)), read("WORLD_SIZE", given.get("world_size", -1))
    if given.get("store") is None and not method.startswith("tcp://"):
        read("MASTER_PORT", None)
        if not os.environ.get("MASTER_ADDR"):
            problems.append("MASTER_ADDR is not set")
    problems += interfaces.problems(str(given.get("backend") or ""))
    return myself(rank, world_size, ", ".join(problems)), place_of(given)


def _silent(place: Place) -> str:
    return f"what listens at {place.host}:{place.port} takes connections but does not answer as a store"


def _hint_of(place: Place) -> str:
    return _OUTSIDE_HINT if place.hosted_by_launcher else _ADDRESS_HINT


def _open(place: Place, until: float, *, serve: bool) -> TCPStore:
    return open_store(place.host, place.port, until - time.monotonic(), serve=serve)


def _within(seconds: float, get: Callable[[], TCPStore]) -> TCPStore | None:
    """Return what ``get`` returns, or None where it raises or needs longer; it may then never return at
    all."""
    found: list[TCPStore] = []

    def run() -> None:
        try:
            found.append(get())
        except RuntimeError:
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
