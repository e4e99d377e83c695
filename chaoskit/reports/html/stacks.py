"""Stacks side by side: ranks with equal ones together, frames that all have in common apart. Pure."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chaoskit.evidence.findings import RankFindings, ThreadStack
from chaoskit.reports.wording import ranks_of

_FRAME = re.compile(r"(?P<function>.*) \((?P<place>[^()]*(?:\([^()]*\)[^()]*)*)\)", re.DOTALL)
_OURS = re.compile(
    r"(^|/)chaoskit/(faults|guards|rank|intercept|launchers|evidence|sidecar)/|(^|/)chaoskit/workloads/__init__\.py:"
    r"|(^|/)multiprocess(ing)?/(forkserver|spawn|process|popen_\w+)\.py:"
)
"""Places of chaoskit's own code in a rank, and of what starts its processes."""
_STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting in the kernel",
    "T": "stopped",
    "t": "traced",
    "Z": "ended",
    "I": "idle",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, taken apart for reading. ``own``: it is a line that the verdict or an operation
    names; ``ours``: it is of what chaoskit puts around the user's program."""

    function: str
    place: str  # short: below site-packages, or the last two folders
    full: str
    own: bool = False
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """Ranks whose main threads have equal stacks. ``frames``: only those that not all columns share."""

    who: str
    count: int
    culprits: str  # those of them that did it, '' where none did
    victims: str  # those of them that suffered from it
    state: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Others:
    """Threads beside the main one that are equal on these ranks."""

    who: str
    name: str
    count: int
    waits_in: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """All stacks of an arm; frames innermost first. ``inner`` and ``outer`` are shared by all columns."""

    columns: tuple[Column, ...] = ()
    inner: tuple[Frame, ...] = ()
    outer: tuple[Frame, ...] = ()
    others: tuple[Others, ...] = ()
    without: str = ""  # ranks that were looked at and have no stack
    missing: tuple[tuple[str, str], ...] = ()  # who, and what could not be had


def compare(
    findings: Iterable[RankFindings],
    ranks: Mapping[int, int],
    culprits: frozenset[int],
    sites: frozenset[str],
    victims: frozenset[int] = frozenset(),
) -> Stacks:
    """Return the stacks of ``findings``. ``ranks``: the rank of each slot; ``culprits`` and ``victims``:
    slots; ``sites``: lines (file:line) of the user's that are to be found at a glance."""
    findings = tuple(findings)
    groups: dict[tuple[str, ...], list[RankFindings]] = {}
    for found in findings:
        if found.main is not None and found.main.frames:
            groups.setdefault(found.main.frames, []).append(found)
    ordered = sorted(groups.items(), key=lambda g: _place(g[1], culprits))
    inner, outer = _shared([frames for frames, _ in ordered])
    missing: dict[str, list[int]] = {}
    for found in findings:
        for said in found.missing:
            missing.setdefault(said, []).append(found.slot)
    have = {f.slot for members in groups.values() for f in members}
    looked = [f.slot for f in findings if f.state and f.slot not in have]
    return Stacks(
        columns=tuple(
            Column(
                _who(members, ranks),
                len(members),
                _those(members, ranks, culprits),
                _those(members, ranks, victims - culprits),
                " / ".join(dict.fromkeys(_state(m) for m in members if m.state)),
                tuple(_frame(f, sites) for f in frames[inner : len(frames) - outer]),
            )
            for frames, members in ordered
        ),
        inner=tuple(_frame(f, sites) for f in ordered[0][0][:inner]) if ordered else (),
        outer=tuple(_frame(f, sites) for f in ordered[0][0][len(ordered[0][0]) - outer :]) if outer else (),
        others=_others(findings, ranks, sites),
        without=ranks_of(ranks.get(s, s) for s in looked) if looked else "",
        missing=tuple((ranks_of(ranks.get(s, s) for s in slots), said) for said, slots in missing.items()),
    )


def cut(stacks: Stacks, columns: int, frames: int, others: int) -> Stacks:
    """Return no more than so many columns, frames of each, and other threads."""
    return dataclasses.replace(
        stacks,
        columns=tuple(
            dataclasses.replace(c, frames=_few(c.frames, frames)) for c in stacks.columns[:columns]
        ),
        inner=_few(stacks.inner, frames),
        outer=_few(stacks.outer, frames),
        others=tuple(dataclasses.replace(o, frames=_few(o.frames, frames)) for o in stacks.others[:others]),
    )


def _few(frames: tuple[Frame, ...], most: int) -> tuple[Frame, ...]:
    left = len(frames) - most
    return frames if left <= 0 else (*frames[:most], Frame(f"{left} more frames", "", ""))


def _place(members: list[RankFindings], culprits: frozenset[int]) -> tuple[bool, int, int]:
    """Culprits first, then those that few have in common."""
    return not any(m.slot in culprits for m in members), len(members), members[0].slot


def _shared(stacks: list[tuple[str, ...]]) -> tuple[int, int]:
    """Return how many innermost and how many outermost frames all of ``stacks`` have in common."""
    if len(stacks) < 2:
        return 0, 0
    shortest = min(map(len, stacks))
    outer = next((n for n in range(shortest) if len({s[-1 - n] for s in stacks}) > 1), shortest)
    inner = next((n for n in range(shortest - outer) if len({s[n] for s in stacks}) > 1), shortest - outer)
    return inner, outer


def _others(
    findings: Iterable[RankFindings], ranks: Mapping[int, int], sites: frozenset[str]
) -> tuple[Others, ...]:
    groups: dict[tuple[tuple[str, ...], str, str], list[tuple[RankFindings, ThreadStack]]] = {}
    for found in findings:
        for thread in found.threads:
            if not thread.main:
                name = re.sub(r"\d+", "N", thread.name)  # numbered threads of one pool are alike
                groups.setdefault((thread.frames, name, thread.waits_in), []).append((found, thread))
    return tuple(
        Others(
            _who([found for found, _ in members], ranks),
            members[0][1].name if len({t.name for _, t in members}) == 1 else name,
            len(members),
            waits_in,
            tuple(_frame(f, sites) for f in frames),
        )
        for (frames, name, waits_in), members in groups.items()
    )


def _who(members: Iterable[RankFindings], ranks: Mapping[int, int]) -> str:
    return ranks_of(ranks.get(m.slot, m.slot) for m in members)


def _those(members: list[RankFindings], ranks: Mapping[int, int], slots: frozenset[int]) -> str:
    those = [m for m in members if m.slot in slots]
    return _who(those, ranks) if those else ""


def _state(found: RankFindings) -> str:
    said = _STATES.get(found.state[:1], found.state)
    main = found.main
    return f"{said} in {main.waits_in}" if main is not None and main.waits_in else said


def _frame(text: str, sites: frozenset[str]) -> Frame:
    match = _FRAME.fullmatch(text)
    if match is None:
        return Frame(text, "", text)
    place = match["place"]
    own = place in sites
    return Frame(match["function"], short_place(place), text, own, not own and bool(_OURS.search(place)))


def runs(frames: Iterable[Frame]) -> tuple[tuple[Frame, ...], ...]:
    """Return ``frames`` in runs: those of chaoskit that follow each other together, each other one alone."""
    found: list[tuple[Frame, ...]] = []
    for ours, group in itertools.groupby(frames, key=lambda f: f.ours):
        members = tuple(group)
        found += [members] if ours else [(f,) for f in members]
    return tuple(found)


def short_place(place: str) -> str:
    """Return a path (file:line) as it is known: below site-packages, or with its last folder only."""
    for packages in ("/site-packages/", "/dist-packages/"):
        if packages in place:
            return place.rpartition(packages)[2]
    return "/".join(place.split("/")[-2:])
