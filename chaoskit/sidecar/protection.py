"""What the guard ``sidecar`` does in a keeper: looks at its rank, tells the other keepers, ends the job.

Decisions are those of :mod:`chaoskit.sidecar.policy`; here they meet the rank, the connections and the clock.
Rank 0's keeper is the one that all others report to. It stays until they are gone, so that somebody judges
the job to its end. When a rank is lost, the keepers of the others leave after that rank's, see
:mod:`chaoskit.sidecar.leaving`.
"""

from __future__ import annotations

import dataclasses
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass
from typing import Final

from chaoskit.sidecar import processes
from chaoskit.sidecar.door import Door
from chaoskit.sidecar.keeper import Keeper, Watcher
from chaoskit.sidecar.leaving import Departure
from chaoskit.sidecar.links import Address, Kind, Listener, Message, Peer, Place
from chaoskit.sidecar.policy import JobPolicy, Limits, Lost, RankPolicy, Seen, ended_how
from chaoskit.sidecar.saying import say
from chaoskit.sidecar.shared import Shared, Word

EXIT_CODE: Final = 90
_BEAT_S: Final = 0.5
_ORDERS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NOT_RUNNING_S: Final = 1.0
"""A keeper that ran so late was itself suspended: what it did not hear in between counts for nothing."""
_ANSWER_S: Final = 2.0
"""How long the keeper of a rank that failed waits to be told which one was lost first: maybe another."""
_UNHEARD_S: Final = 1.0
"""A keeper that missed a beat may have been stopped."""
_KEEPER_LOST: Final = "is lost: its keeper was killed or its host is gone"


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
        self._place = Place(self.identity.host, processes.pid_namespace(), os.getpid())
        self._places = {self.identity.rank: self._place}  # of keepers that have left, too
        self._beat_at = self._ticked_at = time.monotonic()
        self._told = False
        self._over = False  # the job is lost, or this keeper is on its own
        self._lost: Lost | None = None  # by whom, once the job is being ended
        self._departure: Departure | None = None  # of that one's keeper, where it is not this one
        self._told_gone = False  # that it is gone
        self._answer_until: float | None = None  # a failed rank's keeper is to be told who was first
        self._sees_rank = True
        self._mouth.close()
        keeper.watch(self._ear, selectors.EVENT_READ, lambda _: self._hear_rank())
        if self._listener is not None:
            members = self._heard_from_member, self._peer_gone
            self._door = Door(keeper, self._listener, self.identity.world_size, *members)

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
        if self._hub is not None:
            self._hub.send(self._message("ended", exit_code=exit_code, work_done=done, told=self._told))
            if exit_code and self._limits.on_failure and not self._told and not self._over:
                self._answer_until = t + _ANSWER_S

    def stays(self) -> bool:
        if self._departure is not None:
            return not self._departure.over
        met_all = len(self._places) >= self.identity.world_size
        expecting = self._listener is not None and not met_all and self._door.is_waiting
        return not self._over and (bool(self._members) or expecting or self._answer_until is not None)

    def next_due(self) -> float | None:
        job = self._job.next_due() if self._listener is not None and not self._over else None
        departure = self._departure.next_due() if self._departure is not None else None
        return min(t for t in (self._beat_at, self._answer_until, departure, job) if t is not None)

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
        if self._departure is not None:
            self._departure.look(t)
            if self._departure.seen:
                self._tell_gone(t)
        if self._answer_until is not None and t >= self._answer_until:
            self._answer_until = None
            how = ended_how(self._keeper.exit_code or 0)
            _say(f"rank {self.identity.rank} {how}; rank 0's keeper does not say which one was lost first")

    def closing(self) -> None:
        """The connections stay open: that they close tells that the process ends."""
        for peer in self._peers():
            peer.send(self._message("bye"))
            peer.flush()

    # ---- the rank

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
                self._keeper, socket.socket(fileno=fd), token.decode(), self._heard_from_hub, self._peer_gone
            )
            self._hub.rank = 0
            self._hub.send(self._message("hello"))
            if self._keeper.is_stopped:
                self._report("stopped")

    def _beat(self, now: float) -> None:
        for peer in self._peers():
            peer.send(self._message("beat"))
            self._check_silence(peer, now)
        if self._listener is not None:
            self._door.look(now)
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
        if self._hub is not None:
            self._hub.send(self._message("lost", why=why))
        self._job.lost(self.identity.rank, why)
        if self._listener is None:  # else the job's verdict comes next: another may have been first
            self._over = True
            self._end_rank(Lost(self.identity.rank, why), self._place)

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
        if missed and self._place.sees(peer.place) and processes.keeper_state(peer.place.pid) in ("T", "t"):
            peer.stopped_at = peer.heard_at if peer.stopped_at is None else peer.stopped_at
            peer.heard_at = now
            return True
        peer.stopped_at = None
        return False

    def _postpone(self, seconds: float) -> None:
        self._rank_policy.postpone(seconds)
        self._job.postpone(seconds)
        if self._departure is not None:
            self._departure.postpone(seconds)
        if self._listener is not None:
            self._door.postpone(seconds)
        for peer in self._peers():
            peer.heard_at += seconds
            if peer.stopped_at is not None:
                peer.stopped_at += seconds

    # ---- the other keepers

    def _peers(self) -> list[Peer]:
        return [*self._members.values(), *([self._hub] if self._hub is not None else [])]

    def _heard_from_member(self, peer: Peer, message: Message) -> None:
        now, rank = time.monotonic(), message.rank
        match message.kind:
            case "hello":
                peer.rank, peer.place = rank, message.place
                self._members[rank] = peer
                self._places[rank] = message.place
                self._job.joined(rank)
                peer.send(self._message("hello"))
                if self._lost is not None:
                    self._tell_of_the_end(peer, self._lost)
            case "stopped":
                self._job.stopped(rank, now)
            case "continued":
                self._job.continued(rank, now)
            case "ended":
                self._job.ended(rank, message.exit_code, message.work_done, message.told, now)
            case "lost":
                self._job.lost(rank, message.why)
            case "gone" if self._lost is not None:
                self._tell_gone(now)
            case "bye":
                self._job.left(rank)
                peer.is_leaving = True
            case _:
                pass

    def _heard_from_hub(self, peer: Peer, message: Message) -> None:
        match message.kind:
            case "hello" | "beat":
                peer.place = message.place
            case "end":
                self._over = True
                self._end_rank(Lost(message.rank, message.why), message.place)
            case "gone" if self._departure is not None:
                self._departure.told(time.monotonic())
            case "bye":
                self._over = peer.is_leaving = True
            case _:
                pass

    def _peer_gone(self, peer: Peer) -> None:
        self._peer_lost(peer, _KEEPER_LOST, ends=True)

    def _peer_lost(self, peer: Peer, why: str, *, ends: bool = False) -> None:
        """Nothing more will be heard of it. ``ends``: its process is about to be gone."""
        peer.close()
        place = peer.place if ends else dataclasses.replace(peer.place, pid=0)
        if peer is self._hub:
            self._hub = None
            if not peer.is_known:  # nobody there took this rank in: rank 0 was done, most likely
                self._over = True
            if not self._over and self._limits.on_failure:
                self._over = True
                self._end_rank(Lost(0, why), place)
            if self._departure is not None:  # rank 0's, or nobody is left to tell of it
                self._departure.told(time.monotonic())
        elif self._members.get(peer.rank) is peer:
            self._members.pop(peer.rank)
            self._places[peer.rank] = dataclasses.replace(place, pid=0) if peer.is_leaving else place
            if self._limits.on_failure and not peer.is_leaving:
                self._job.lost(peer.rank, why)
            self._tell_what_nobody_sees()

    # ---- ending

    def _end_job(self, lost: Lost) -> None:
        """At rank 0's keeper: tell everybody, and end the own rank if it is not gone."""
        self._over, self._lost = True, lost
        for peer in list(self._members.values()):
            self._tell_of_the_end(peer, lost)
        self._end_rank(lost, self._places.get(lost.rank, Place()))
        self._tell_what_nobody_sees()

    def _tell_of_the_end(self, peer: Peer, lost: Lost) -> None:
        at = self._places.get(lost.rank, Place())
        peer.send(Message("end", lost.rank, at.host, why=lost.why, pid=at.pid, namespace=at.namespace))
        if self._told_gone:
            peer.send(self._message("gone"))

    def _end_rank(self, lost: Lost, place: Place) -> None:
        """End the own rank; leave after the keeper of the lost one, which is at ``place``."""
        self._answer_until = None
        if lost.rank != self.identity.rank and place.pid and self._departure is None:
            pid = place.pid if self._place.sees(place) else 0
            self._departure = Departure(pid, self._limits.grace_s, time.monotonic())
        if not self._keeper.ending:
            why = self._why(lost, place.host)
            if self._keeper.exit_code is None:
                self._keeper.end(EXIT_CODE, self._limits.grace_s, why)
            if why:
                _say(why)

    def _tell_what_nobody_sees(self) -> None:
        """At rank 0's keeper: if that of the lost rank is gone, and nobody can look whether its launcher has
        noticed, then that is all that will ever be known."""
        if self._lost is None or self._lost.rank == self.identity.rank or self._lost.rank in self._members:
            return
        gone = self._places.get(self._lost.rank, Place())
        others = [peer.place for peer in self._members.values()]
        if not any(place.sees(gone) for place in (self._place, *others)):
            self._tell_gone(time.monotonic())

    def _tell_gone(self, t: float) -> None:
        """That of the lost rank is gone: tell rank 0's keeper; there: tell everybody."""
        if not self._told_gone:
            self._told_gone = True
            if self._departure is not None:
                self._departure.told(t)
            for peer in self._peers():
                peer.send(self._message("gone"))

    def _why(self, lost: Lost, host: str) -> str:
        """What there is to say; '' where nothing is lost that this rank still took part in."""
        own, code = self.identity.rank, self._keeper.exit_code
        what = f"rank {lost.rank} (host {host or self.identity.host}) {lost.why}"
        if own < 0:
            return f"this process {lost.why}; ending it (exit {EXIT_CODE})"
        if code is None:
            return f"{what}; ending rank {own} (exit {EXIT_CODE})"
        if lost.rank == own:
            return f"{what}; ending the other ranks" if self._peers() else ""
        return f"{what}; rank {own} {ended_how(code)}, too" if code else ""

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
    ) -> Message:
        me = self.identity
        here = self._place
        return Message(kind, me.rank, me.host, exit_code, work_done, told, why, here.pid, here.namespace)


def _say(text: str) -> None:
    say(f"guard sidecar: {text}")
