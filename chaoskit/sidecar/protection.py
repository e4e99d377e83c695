"""What the guard ``sidecar`` does in a keeper: looks at its rank, tells the other keepers, ends the job.

Decisions are those of :mod:`chaoskit.sidecar.policy`; here they meet the rank, the connections and the clock.
Rank 0's keeper is the one that all others report to. It stays until they are gone, so that somebody judges
the job to its end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass
from typing import Final

from chaoskit.sidecar import processes
from chaoskit.sidecar.keeper import Keeper, Watcher
from chaoskit.sidecar.links import Address, Kind, Listener, Message, Peer
from chaoskit.sidecar.policy import JobPolicy, Limits, Lost, RankPolicy, Seen, ended_how
from chaoskit.sidecar.saying import say
from chaoskit.sidecar.shared import Shared, Word

EXIT_CODE: Final = 90
_BEAT_S: Final = 0.5
_ORDERS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NOT_RUNNING_S: Final = 1.0
"""A keeper that ran so late was itself suspended: what it did not hear in between counts for nothing."""
_LINGER_S: Final = 0.3
"""How much later the keepers of the other ranks leave than that of the lost one: a launcher names the first
that it sees end, and looks every 0.1 s or so."""
_UNHEARD_S: Final = 1.0
"""A keeper that missed a beat may have been stopped."""
_STRANGER_S: Final = 30.0
"""How long a connection may take to show the token. Who has it shows it at once."""
_STRANGERS: Final = 64
"""How many may be about to show it, above one for each rank."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The rank as its launcher's variables name it; ``rank`` is -1 where they do not."""

    rank: int
    world_size: int
    host: str
    this_host_only: bool
    """All ranks run on this host, as far as can be told."""


class Protection(Watcher):
    """Made before the fork. :attr:`shared`, :attr:`address` and :meth:`hand_over` are the rank's part."""

    def __init__(self, limits: Limits, identity: Identity) -> None:
        self.identity = identity
        self.shared = Shared()
        self.address: Address | None = None
        """Where the others find the keeper of rank 0; set in rank 0 alone."""
        self._limits = limits.noticeable()
        self._ear, self._mouth = socket.socketpair()
        self._listener = None
        if identity.rank == 0 and identity.world_size > 1:
            self._listener = Listener(identity.this_host_only)
            self.address = self._listener.address

    # ---- in the rank

    def in_rank(self) -> None:
        self.shared.write_here()
        self._ear.close()
        if self._listener is not None:
            self._listener.close()

    def hand_over(self, connection: socket.socket, token: str) -> None:
        """Give the keeper a connection to the keeper of rank 0. Raises OSError where it is gone."""
        socket.send_fds(self._mouth, [token.encode()], [connection.fileno()])

    # ---- in the keeper

    def attach(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._rank_policy = RankPolicy(self._limits)
        self._job = JobPolicy(self._limits)
        self._job.joined(self.identity.rank)
        self._hub: Peer | None = None  # towards rank 0's keeper
        self._members: dict[int, Peer] = {}  # at rank 0's keeper: the others
        self._strangers: list[Peer] = []  # there, oldest first: have not shown the token
        self._hosts = {self.identity.rank: self.identity.host}  # of ranks that have left, too
        self._beat_at = self._ticked_at = time.monotonic()
        self._told = False
        self._over = False  # the job is lost, or this keeper is on its own
        self._sees_rank = True
        self._mouth.close()
        keeper.watch(self._ear, selectors.EVENT_READ, lambda _: self._hear_rank())
        if self._listener is not None:
            self._listener.socket.setblocking(False)
            keeper.watch(self._listener.socket, selectors.EVENT_READ, lambda _: self._accept())

    def stopped(self, t: float) -> None:
        self._job.stopped(self.identity.rank, t)
        self._report("stopped")

    def continued(self, t: float) -> None:
        self._job.continued(self.identity.rank, t)
        self._report("continued")

    def signalled(self, number: int, t: float) -> None:
        if number in _ORDERS and not processes.ignores(self._keeper.pid, number):
            self._told = True
            if number == signal.SIGTERM:
                self._rank_policy.told_to_end(t)

    def ended(self, exit_code: int, t: float) -> None:
        self._hear_rank()  # it may have handed over its connection in its last moment
        done = bool(self.shared.read(Word.WORK_DONE))
        self._job.ended(self.identity.rank, exit_code, done, self._told, t)
        message = self._message("ended", exit_code=exit_code, work_done=done, told=self._told)
        if self._hub is not None:
            self._hub.send(message)
        if exit_code and self._limits.on_failure and not self._told and not self._over and self._linked:
            _say(f"{self._named(Lost(self.identity.rank, ended_how(exit_code)))}; ending the other ranks")

    def stays(self) -> bool:
        return bool(self._members) and not self._over

    def next_due(self) -> float | None:
        due = self._job.next_due() if self._listener is not None and not self._over else None
        return self._beat_at if due is None else min(self._beat_at, due)

    def tick(self, t: float) -> None:
        late, self._ticked_at = t - self._ticked_at, t
        if late > _NOT_RUNNING_S:
            self._postpone(late)
        if t >= self._beat_at:
            self._beat_at = t + _BEAT_S
            self._beat(t)
        if self._listener is not None and not self._over:
            lost = self._job.verdict(t)
            if lost is not None:
                self._end_job(lost)

    def closing(self) -> None:
        for peer in [*self._members.values(), *([self._hub] if self._hub else [])]:
            peer.send(self._message("bye"))
            peer.close()

    # ---- the rank

    @property
    def _linked(self) -> bool:
        return self._hub is not None or bool(self._members)

    def _hear_rank(self) -> None:
        """Take over the connection that the rank has made; an end means that it cannot tell any more."""
        try:
            token, fds, *_ = socket.recv_fds(self._ear, 256, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            token, fds = b"", []
        if not token:
            self._keeper.forget(self._ear)
            self._sees_rank = False  # another program now (exec), or about to end
            return
        for fd in fds:
            os.set_inheritable(fd, False)
            self._hub = Peer(
                self._keeper, socket.socket(fileno=fd), token.decode(), self._heard_from_hub, self._hub_gone
            )
            self._hub.rank = 0
            self._hub.send(self._message("hello"))
            if self._keeper.is_stopped:
                self._report("stopped")

    def _beat(self, now: float) -> None:
        for peer in list(self._members.values()):
            peer.send(self._message("beat"))
            self._check_silence(peer, now)
        for peer in [peer for peer in self._strangers if now - peer.heard_at > _STRANGER_S]:
            self._hang_up(peer)
        if self._hub is not None:
            self._hub.send(self._message("beat"))
            self._check_silence(self._hub, now)
        if self._keeper.exit_code is None and not self._keeper.ending:
            why = self._rank_policy.wrong(self._look(), now)
            if why:
                step = self.shared.read(Word.STEP)
                self._own_rank_lost(f"{why}, last step {step}" if step else why)

    def _look(self) -> Seen:
        read = self.shared.read
        return Seen(
            beat=read(Word.BEAT_NS) if self._sees_rank else 0,
            progress=read(Word.PROGRESS) if self._sees_rank and read(Word.FOLLOWED) else 0,
            allowed_until=read(Word.ALLOWED_UNTIL_NS) * 1e-9,
            excused=self._keeper.is_stopped or processes.state(self._keeper.pid) in ("T", "t"),
            leaving=self._sees_rank and bool(read(Word.LEAVING)),
        )

    def _own_rank_lost(self, why: str) -> None:
        lost = Lost(self.identity.rank, why, alive=True)
        if self._hub is not None:
            self._hub.send(self._message("lost", why=why, alive=True))
        self._job.lost(lost.rank, why, alive=True)
        self._end_job(lost)

    def _check_silence(self, peer: Peer, now: float) -> None:
        if self._sees_stopped(peer, now):
            wait_s = self._limits.stopped_wait_s
            if wait_s and peer.stopped_at is not None and now - peer.stopped_at >= wait_s:
                self._peer_lost(peer, f"has a keeper that has been stopped for {wait_s:g} s")
        elif peer.open and now - peer.heard_at > self._limits.silent_s:
            why = f"cannot be reached: nothing heard of its host for {self._limits.silent_s:g} s"
            self._peer_lost(peer, why)

    def _sees_stopped(self, peer: Peer, now: float) -> bool:
        """Is that keeper on this host, and stopped? Then it is not silent: it has the wait of a stopped rank,
        and is heard again when it goes on."""
        missed = now - peer.heard_at > _UNHEARD_S or peer.stopped_at is not None
        if missed and peer.host == self.identity.host and processes.is_stopped_keeper(peer.pid):
            peer.stopped_at = peer.heard_at if peer.stopped_at is None else peer.stopped_at
            peer.heard_at = now
            return True
        peer.stopped_at = None
        return False

    def _postpone(self, seconds: float) -> None:
        self._rank_policy.postpone(seconds)
        self._job.postpone(seconds)
        for peer in [*self._members.values(), *self._strangers, *([self._hub] if self._hub else [])]:
            peer.heard_at += seconds
            if peer.stopped_at is not None:
                peer.stopped_at += seconds

    # ---- the other keepers

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            connection, _ = self._listener.socket.accept()
            stranger = Peer(
                self._keeper, connection, self._listener.token, self._heard_from_member, self._member_gone
            )
            self._strangers.append(stranger)
            if len(self._strangers) > self.identity.world_size + _STRANGERS:
                self._hang_up(self._strangers[0])

    def _hang_up(self, stranger: Peer) -> None:
        self._strangers.remove(stranger)
        stranger.close()

    def _member_gone(self, peer: Peer) -> None:
        if peer in self._strangers:
            self._strangers.remove(peer)
        self._peer_lost(peer, "is lost: its keeper was killed or its host is gone")

    def _heard_from_member(self, peer: Peer, message: Message) -> None:
        now, rank = time.monotonic(), message.rank
        if peer in self._strangers:
            self._strangers.remove(peer)
        match message.kind:
            case "hello":
                peer.rank, peer.host, peer.pid = rank, message.host, message.pid
                self._members[rank] = peer
                self._hosts[rank] = message.host
                self._job.joined(rank)
                peer.send(self._message("hello"))
                self._tell_of_the_end(peer)
            case "stopped":
                self._job.stopped(rank, now)
            case "continued":
                self._job.continued(rank, now)
            case "ended":
                self._job.ended(rank, message.exit_code, message.work_done, message.told, now)
            case "lost":
                self._job.lost(rank, message.why, message.alive)
            case "bye":
                self._job.left(rank)
                self._members.pop(rank, None)
                peer.close()
            case _:
                pass

    def _heard_from_hub(self, peer: Peer, message: Message) -> None:
        match message.kind:
            case "hello" | "beat":
                peer.host, peer.pid = message.host, message.pid
            case "end":
                self._over = True
                self._end_rank(Lost(message.rank, message.why, message.alive), message.host)
            case "bye":
                self._over = True
                self._hub = None
                peer.close()
            case _:
                pass

    def _hub_gone(self, peer: Peer) -> None:
        self._peer_lost(peer, "is lost: its keeper was killed or its host is gone")

    def _peer_lost(self, peer: Peer, why: str) -> None:
        peer.close()
        if peer is self._hub:
            self._hub = None
            if not self._over and self._limits.on_failure:
                self._over = True
                self._end_rank(Lost(0, why), peer.host)
        elif self._members.get(peer.rank) is peer:
            self._members.pop(peer.rank)
            if self._limits.on_failure:
                self._job.lost(peer.rank, why)

    # ---- ending

    def _end_job(self, lost: Lost) -> None:
        """At rank 0's keeper: tell everybody, and end the own rank if it is not gone."""
        self._over = True
        for peer in list(self._members.values()):
            self._tell_of_the_end(peer)
        self._end_rank(lost, self._hosts.get(lost.rank, ""))

    def _tell_of_the_end(self, peer: Peer) -> None:
        lost = self._job.verdict(time.monotonic()) if self._over else None
        if lost is not None:
            host = self._hosts.get(lost.rank, "")
            peer.send(Message("end", lost.rank, host, why=lost.why, alive=lost.alive))

    def _end_rank(self, lost: Lost, host: str = "") -> None:
        own = self.identity.rank
        if self._keeper.ending or self._keeper.exit_code is not None:
            return
        what = f"{self._named(lost, host)}; ending rank {own} (exit {EXIT_CODE})"
        grace_s = self._limits.grace_s
        linger_s = 0.0 if lost.rank == own else _LINGER_S + (grace_s if lost.alive else 0.0)
        self._keeper.end(EXIT_CODE, grace_s, what, linger_s)
        _say(what if own >= 0 else f"this process {lost.why}; ending it (exit {EXIT_CODE})")

    def _named(self, lost: Lost, host: str = "") -> str:
        return f"rank {lost.rank} (host {host or self.identity.host}) {lost.why}"

    def _report(self, kind: Kind) -> None:
        if self._hub is not None:
            self._hub.send(self._message(kind))

    def _message(
        self,
        kind: Kind,
        *,
        exit_code: int = 0,
        work_done: bool = False,
        told: bool = False,
        why: str = "",
        alive: bool = False,
    ) -> Message:
        me = self.identity
        return Message(kind, me.rank, me.host, exit_code, work_done, told, why, alive, os.getpid())


def _say(text: str) -> None:
    say(f"guard sidecar: {text}")
