"""How a scenario file names who is to be blamed, and whether there is such a one in its topology."""

from __future__ import annotations

import re

from chaoskit.model import Culprit, Topology, link
from chaoskit.network import DEFAULT_NIC, INSIDE, STORE_HOST, host_names
from chaoskit.scenario import values
from chaoskit.scenario.values import Wrong, shown

HOW = "write 'rank 1', 'host hostB', 'nic hostB eth0' or 'link hostA-hostB'"
_KINDS = ("rank", "host", "nic", "link")
_WORD = re.compile(r"[A-Za-z0-9_.:@-]+")
_BETWEEN = re.compile(r"\s*–\s*|\s+|-")
"""What may stand between the two hosts of a link: a hyphen is what a keyboard has."""

SCHEMA = {"type": "string", "pattern": r"^(rank \d+|host \S+|nic \S+ \S+|link \S.*\S)$"}


def read(value: object) -> str:
    """Return a culprit's text as reports write it. Raises Wrong with what is wrong with it."""
    kind, _, name = value.partition(" ") if isinstance(value, str) else ("", "", "")
    name = name.strip()
    if kind not in _KINDS or not name:
        raise Wrong(f"must be a culprit, is {shown(value)}", HOW if kind in _KINDS[1:] else "write 'rank 1'")
    if kind == "rank":
        if not (name.isascii() and name.isdigit() and int(name[:9]) < values.RANKS_MAX):
            raise Wrong(f"must name a rank by its number, is {shown(value)}", "write 'rank 1'")
        return f"rank {int(name)}"
    parts = _BETWEEN.split(name) if kind == "link" else name.split()
    if not all(_WORD.fullmatch(p) for p in parts) or len(parts) != {"host": 1, "nic": 2, "link": 2}[kind]:
        raise Wrong(f"must name {_what(kind)}, is {shown(value)}", _example(kind))
    if kind == "link" and parts[0] == parts[1]:
        raise Wrong(f"must name two hosts, is {shown(value)}", _example(kind))
    return str(link(*parts)) if kind == "link" else f"{kind} {' '.join(parts)}"


def _what(kind: str) -> str:
    return {"host": "one host", "nic": "a host and its interface", "link": "two hosts"}[kind]


def _example(kind: str) -> str:
    examples = {"host": "host hostB", "nic": "nic hostB eth0", "link": "link hostA-hostB"}
    return f"write '{examples[kind]}'"


def problem(culprit: Culprit, topology: Topology) -> tuple[str, str] | None:
    """Return why ``culprit`` cannot be in ``topology`` and a hint, or None."""
    if culprit.kind == "rank":
        return (_missing(culprit), there_are(topology.ranks)) if int(culprit.id) >= topology.ranks else None
    if not topology.is_virtual:
        hint = "add topology: {hosts: 2}: without virtual hosts only ranks can be blamed"
        return f"culprit {culprit} needs virtual hosts", hint
    hosts = (*host_names(topology.hosts), STORE_HOST)
    named = culprit.id.split("–") if culprit.kind == "link" else culprit.id.split()[:1]
    if any(name not in hosts for name in named):
        return _missing(culprit), f"the hosts are {', '.join(hosts[:8])}{', …' if len(hosts) > 8 else ''}"
    if culprit.kind == "nic" and culprit.id.split()[1] not in (have := _nics(named[0], topology)):
        return _missing(culprit), f"{named[0]} has {', '.join(have)}"
    return None


def _missing(culprit: Culprit) -> str:
    return f"culprit {culprit} does not exist"


def _nics(host: str, topology: Topology) -> list[str]:
    if not topology.nics or host == STORE_HOST:
        return list(dict.fromkeys([INSIDE, *(n.name for n in topology.nics), DEFAULT_NIC]))
    return [INSIDE, *(n.name for n in topology.nics if not n.on or host in n.on)]


def there_are(ranks: int) -> str:
    """Return which ranks there are, as a hint."""
    return (
        f"topology.ranks is {ranks}: ranks 0 to {ranks - 1}"
        if ranks > 1
        else "topology.ranks is 1: only rank 0"
    )
