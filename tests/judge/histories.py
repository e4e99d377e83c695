"""Builds histories by hand: what a rank did, in a line or two, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoskit.history import (
    ArmEnded,
    Completed,
    DeadlineReached,
    Ended,
    Entered,
    Event,
    Finished,
    GuardFired,
    GuardNoticed,
    History,
    Identity,
    Injected,
    LinkChanged,
    OpFailed,
    PathState,
    PathTested,
    Raised,
    Reported,
    Sampled,
    Signalled,
    Started,
    Stopped,
)

FINGERPRINTS = {"all_reduce": 11, "broadcast": 22, "barrier": 33, "init": 0}


@dataclass
class Story:
    """A job of ``size`` ranks told event by event; times advance by a millisecond unless set.

    ``hosts`` is the host of each rank, ``uses`` the interfaces that its backend will use there."""

    size: int = 4
    hosts: tuple[str, ...] = ()
    uses: tuple[str, ...] | dict[str, tuple[str, ...]] = ()
    master: str = ""
    now: float = 100.0
    events: list[Event] = field(default_factory=list)
    seq: dict[int, int] = field(default_factory=dict)
    counts: dict[tuple[int, str, str], int] = field(default_factory=dict)
    step: dict[int, int] = field(default_factory=dict)
    last: dict[int, Entered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for slot in range(self.size):
            self.add(Started(self.tick(), slot, 1000 + slot))
            host = self.hosts[slot] if self.hosts else "host"
            uses = self.uses.get(host, ()) if isinstance(self.uses, dict) else self.uses
            self.add(
                Identity(
                    self.tick(), slot, slot, slot, self.size, host, 1000 + slot, "test", "2", self.master,
                    interfaces=uses,
                )
            )  # fmt: skip

    def tick(self, by: float = 0.001) -> float:
        self.now += by
        return self.now

    def add(self, event: Event) -> None:
        self.events.append(event)

    def enter(
        self, slot: int, op: str, *, group: str = "default", fingerprint: int | None = None, **kw: object
    ) -> None:
        self.seq[slot] = self.seq.get(slot, 0) + 1
        nth = self.counts[slot, group, op] = self.counts.get((slot, group, op), 0) + 1
        mark = FINGERPRINTS.get(op, 44) if fingerprint is None else fingerprint
        event = Entered(
            self.tick(), slot, op, group, nth, self.step.get(slot, 1), self.seq[slot], mark,
            str(kw.pop("site", f"train.py:{10 + len(op)}")), **kw,  # type: ignore[arg-type]
        )  # fmt: skip
        self.last[slot] = event
        self.add(event)

    def complete(self, slot: int) -> None:
        e = self.last[slot]
        self.add(Completed(self.tick(), slot, e.op, e.group, e.nth, e.step, e.seq))

    def fail(self, slot: int, message: str = "Connection closed by peer") -> None:
        e = self.last[slot]
        self.add(OpFailed(self.tick(), slot, e.op, e.group, e.nth, e.step, e.seq, message))

    def everyone(self, *ops: str, but: tuple[int, ...] = ()) -> None:
        """All ranks (but some) enter and complete each of ``ops``."""
        ranks = [r for r in range(self.size) if r not in but]
        for op in ops:
            for slot in ranks:
                self.enter(slot, op)
            for slot in ranks:
                self.complete(slot)

    def raised(self, slot: int, category: str, kind: str = "RuntimeError", message: str = "x") -> None:
        self.add(Raised(self.tick(), slot, kind, message, category, "train.py:99"))  # type: ignore[arg-type]

    def fired(self, slot: int, guard: str, code: int, message: str = "said", *blames: str) -> None:
        self.add(GuardFired(self.tick(), slot, guard, code, message, blames=blames))

    def noticed(self, slot: int, message: str, *blames: str, guard: str = "nic_check") -> None:
        self.add(GuardNoticed(self.tick(), slot, guard, message, blames))

    def signalled(self, slot: int, guard: str = "group_kill", reason: str = "rank 1 ended") -> None:
        self.add(Signalled(self.tick(), slot, 15, guard, reason))

    def link(self, host: str, up: bool, nic: str = "eth0") -> None:
        self.add(LinkChanged(self.tick(), -1, host, nic, up))

    def paths(
        self,
        hosts: tuple[str, ...],
        bad: dict[tuple[str, str], PathState] | None = None,
        nic: str = "eth0",
        both: bool = True,
    ) -> None:
        """All paths between ``hosts`` are tested: open but for ``bad`` (``both``: in both directions)."""
        wrong = dict(bad or {})
        wrong |= {(b, a): state for (a, b), state in wrong.items()} if both else {}
        for a in hosts:
            for b in hosts:
                if a != b:
                    self.add(PathTested(self.tick(0.0), -1, a, b, nic, wrong.get((a, b), "open"), 0.8))

    def end(self, slot: int, code: int, by: str = "", **kw: object) -> None:
        self.add(Ended(self.tick(), slot, code, by, **kw))  # type: ignore[arg-type]

    def victim(self, slot: int) -> None:
        """The rank's operation fails because a peer is lost, and it ends 1."""
        self.fail(slot)
        self.raised(slot, "peer_lost")
        self.end(slot, 1)

    def timed_out(self, *slots: int) -> None:
        """The ranks' operations fail after their timeout, and they end 1."""
        for slot in slots:
            self.fail(slot, "Timed out waiting 3000ms for recv operation to complete")
            self.raised(slot, "timeout")
        for slot in slots:
            self.end(slot, 1)

    def finish(self, *slots: int, result: float = 7.0) -> None:
        for slot in slots:
            self.add(Reported(self.tick(), slot, result))
            self.add(Finished(self.tick(), slot))
            self.end(slot, 0)

    def stop(self, slot: int) -> None:
        self.add(Stopped(self.tick(), slot))

    def inject(self, slot: int, index: int = 0, fault: str = "kill", **kw: object) -> None:
        self.add(Injected(self.tick(), slot, index, fault, **kw))  # type: ignore[arg-type]

    def still(
        self,
        *slots: int,
        state: str = "S",
        line: str = "train.py:5",
        moving: bool = False,
        stack: tuple[str, ...] = (),
    ) -> None:
        """Three samples of each slot, a second apart."""
        for look in range(3):
            for slot in slots:
                token = f"{slot}.{look if moving else 0}"
                self.add(Sampled(self.tick(0.0), slot, state, token, 0.0, line, stack, 0.0, line))
            self.tick(1.0)

    def deadline(self, *slots: int) -> None:
        """The deadline comes; the supervisor ends the ranks that are left."""
        self.add(DeadlineReached(self.tick(), -1, final=True))
        for slot in slots:
            self.end(slot, -9, "supervisor")

    @property
    def history(self) -> History:
        return History.of([*self.events, ArmEnded(self.tick(), -1)])


def hung() -> Story:
    """Rank 1 stalls before its second all_reduce; the others wait in it to the deadline, asleep."""
    story = Story()
    story.everyone("init", "all_reduce")
    story.inject(1, fault="stall")
    for slot in (0, 2, 3):
        story.enter(slot, "all_reduce")
    story.still(0, 1, 2, 3)
    story.deadline(0, 1, 2, 3)
    return story
