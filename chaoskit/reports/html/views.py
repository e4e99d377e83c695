"""What the templates show: values with texts that only have to be escaped."""

from __future__ import annotations

from dataclasses import dataclass

from chaoskit.reports.html.promises import Promise
from chaoskit.reports.html.stacks import Stacks
from chaoskit.reports.html.timeline import Timeline
from chaoskit.reports.wording import Fact


@dataclass(frozen=True, slots=True)
class Badge:
    """A verdict or result. ``css``: the class of its colour; the mark says the same without colour."""

    css: str
    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class ArmRow:
    """One arm in the summary. ``used``: latency in parts of the bound; None where there is no such."""

    number: int
    linked: bool
    badge: Badge
    arm: str
    profile: str
    outcome: str
    latency: str
    used: float | None
    culprit: str
    sureness: str
    ended_by: str
    victims: str
    said: str


@dataclass(frozen=True, slots=True)
class ScenarioRows:
    """One scenario in the summary. ``fine``: nothing here needs a look."""

    badge: Badge
    name: str
    backend: str
    reason: str
    fine: bool
    arms: tuple[ArmRow, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """The top of the page."""

    title: str
    origin: tuple[str, ...]
    counts: tuple[tuple[Badge, int], ...]
    scenarios: tuple[ScenarioRows, ...]
    left_out: int
    interrupted: bool
    filters: bool


@dataclass(frozen=True, slots=True)
class MomentRow:
    """One line of the course of events."""

    css: str
    when: str
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank in words."""

    name: str
    host: str
    role: str
    end: str
    ended: str
    last: str
    operations: int
    waiting: str
    working: str


@dataclass(frozen=True, slots=True)
class SocketRow:
    """One connection with bytes that nobody took, or in an odd state."""

    who: str
    other: str
    state: str
    send_queue: str
    receive_queue: str


@dataclass(frozen=True, slots=True)
class Output:
    """The last lines of a process, or of several that printed the same."""

    who: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmView:
    """One arm of the page, at some level of detail. ``cut`` says what that level leaves out."""

    number: int
    badge: Badge
    fine: bool
    folded: bool
    scenario: str
    arm: str
    headline: str
    problems: tuple[str, ...]
    cause: str
    facts: tuple[Fact, ...]
    evidence: tuple[str, ...]
    notes: tuple[str, ...]
    promises: tuple[Promise, ...]
    promises_unknown: str
    hardened: tuple[Promise, ...]  # what a control arm keeps and breaks of the hardened arm's contract
    since: str
    moments: tuple[MomentRow, ...]
    ranks: tuple[RankRow, ...]
    has_hosts: bool
    stacks: Stacks
    no_stacks: str
    sockets: tuple[SocketRow, ...]
    quiet_sockets: int
    output: tuple[Output, ...]
    settings: tuple[Fact, ...]
    profile: int  # its number among the profiles of the page; 0: not known
    profile_name: str
    guards: tuple[tuple[str, str, int], ...]
    rerun: str
    cut: tuple[str, ...] = ()
    timeline: Timeline | None = None
    no_timeline: str = ""
