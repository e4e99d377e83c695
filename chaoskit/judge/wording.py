"""How operations, times and what ranks came to are put into words, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chaoskit.history import Entered
from chaoskit.judge.job import P2P, RankView, names
from chaoskit.model import Operation

MESSAGE_CHARS = 160


def operation(event: Entered) -> Operation:
    """Return the operation that was entered, as a value."""
    return Operation(event.op, event.group, event.nth)


def bare(event: Entered | Operation) -> str:
    """Return ``barrier #3``, without its group."""
    if event.op == "init":
        return "init"
    return f"{event.op} #{event.nth}"


def called(event: Entered | Operation) -> str:
    """Return ``barrier #3 of group default``; of a send or recv, with whom."""
    if event.op == "init":
        return "init"
    if event.op in P2P:
        group = "" if event.group == "default" else f" of group {group_name(event)}"
        return f"{bare(event)}{_side(event)}{group}"
    return f"{bare(event)} of group {group_name(event)}"


def group_name(event: Entered | Operation) -> str:
    """Return the group's name; its members where torch has only numbered it and they are recorded."""
    return named(event.group, event.members if isinstance(event, Entered) else ())


def named(group: str, members: Sequence[int]) -> str:
    """Return the same of a group and its members."""
    return f"{{{', '.join(map(str, members))}}}" if group.isdigit() and members else group


def _side(event: Entered | Operation) -> str:
    peer = getattr(event, "peer", -1)
    if peer < 0:
        return " from anyone" if event.op == "recv" and isinstance(event, Entered) else ""
    return f" {'to' if event.op.endswith('send') else 'from'} rank {peer}"


def line(site: str) -> str:
    """Return ``train.py:33``: the whole path is with the verdict."""
    return site.replace("\\", "/").rpartition("/")[2]


def span(seconds: float) -> str:
    """Return ``0.4 ms`` or ``21 ms`` or ``3.2 s``."""
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def one_line(text: str, chars: int = MESSAGE_CHARS) -> str:
    """Return a message of several lines as one, without the line of a library's that it begins with."""
    joined = re.sub(r"\[/\S+:\d+\]\s*", "", " ".join(text.split()))
    return joined if len(joined) <= chars else f"{joined[: chars - 2]} …"


def count(number: int) -> str:
    """Return ``1st``, ``2nd``, ``3rd``, ``4th`` …"""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def fate(views: Sequence[RankView], event: Entered, among: int, it: str = "it") -> str:
    """Return what became of those who entered ``event``'s operation, of ``among`` ranks of the job.

    ``the others wait in it``: neither did it complete nor fail on some; that was so, too, where they were
    ended in it.
    """
    entries = [(v, e) for v in views for e in v.entered if same(e, event)]
    if not entries:
        return ""
    open_ = [v.rank for v, e in entries if e.seq not in v.completed and not _failed(v, e)]
    failed = [v.rank for v, e in entries if _failed(v, e)]
    done = [v.rank for v, e in entries if e.seq in v.completed]
    said = [(open_, "waits in", "wait in"), (failed, "failed in", "failed in")]
    said = said if open_ or failed else [(done, "completed", "completed")]
    parts = [
        f"{_who(ranks, among)} {one if len(ranks) == 1 else many} {it}" for ranks, one, many in said if ranks
    ]
    return ", ".join(parts)


def _who(ranks: list[int], among: int) -> str:
    return "the others" if len(set(ranks)) >= among - 1 > 1 else names(ranks)


def _failed(view: RankView, event: Entered) -> bool:
    return any(f.seq == event.seq for f in view.failed)


def is_at(event: Entered, at: Operation) -> bool:
    """Is this an entry of the operation ``at``?"""
    return operation(event) == at


def same(one: Entered, other: Entered) -> bool:
    """Are these two ranks' entries of the same operation?"""
    return (one.op, one.group, one.nth) == (other.op, other.group, other.nth)
