"""What pairs of ranks that cannot connect mean: one line for people, and which interfaces or links are to
blame. Pure: no sockets, no store, no clock."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaoskit.guards.nic_card import Card, End, Failure
from chaoskit.guards.nic_choice import is_loopback
from chaoskit.guards.roll import sides
from chaoskit.model import Culprit, link

_PAIRS_MAX = 3
_CULPRITS_MAX = 16
_SEVERAL = 3
"""From so many hosts on, an interface can be told from a link."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``certain``: the backend does need one of these connections, as far as is known."""

    message: str
    blames: tuple[str, ...]
    certain: bool


def believed(failures: Iterable[Failure], heard: Sequence[set[int]]) -> list[Failure]:
    """Leave out those that were silent, but did reach the other rank: it was slow."""
    return [f for f in failures if f.why != "silent" or f.attempt.source not in heard[f.attempt.target]]


def verdict(failures: Sequence[Failure], cards: Sequence[Card]) -> Verdict:
    """Return what ``failures`` (at least one) mean; ``cards`` are all ranks', in order."""
    failures = sorted(failures, key=lambda f: (f.attempt.target, f.attempt.source, f.attempt.device))
    told = _different_hosts_first(failures, cards)[:_PAIRS_MAX]
    pairs = "; ".join(_pair(f, cards) for f in told)
    left = len(failures) - len(told)
    more = f"; and {left} more pair{'s' * (left > 1)}" if left else ""
    named = tuple(str(c) for c in blamed(failures, cards))
    unsure = any(card.lazy for card in cards)
    certain = not unsure and any(_is_certain(f, len(cards)) for f in failures)
    return Verdict(f"{pairs}{more}; {_advice(failures, cards)}", named[:_CULPRITS_MAX], certain)


def _is_certain(failure: Failure, ranks: int) -> bool:
    """gloo connects every pair. NCCL connects all with rank 0, and each with the next; others as it needs."""
    a = failure.attempt
    return a.device[0] == "gloo" or 0 in (a.source, a.target) or a.target == (a.source + 1) % ranks


def _different_hosts_first(failures: Sequence[Failure], cards: Sequence[Card]) -> list[Failure]:
    seen: set[tuple[str, str]] = set()
    first: list[Failure] = []
    rest: list[Failure] = []
    for failure in failures:
        pair = _machines(failure, cards)
        (rest if pair in seen else first).append(failure)
        seen.add(pair)
    return first + rest


def _machines(failure: Failure, cards: Sequence[Card]) -> tuple[str, str]:
    one, other = sorted((cards[failure.attempt.source].machine, cards[failure.attempt.target].machine))
    return one, other


def _pair(failure: Failure, cards: Sequence[Card]) -> str:
    source, target = cards[failure.attempt.source], cards[failure.attempt.target]
    device = failure.attempt.device
    if failure.why == "missing":
        few, many = len(target.ends), len(source.ends)
        uses = f"{_where(target, None)} uses {few} interface{'s' * (few != 1)}"
        return f"{uses} where {_where(source, None)} uses {many}, and gloo connects them one by one"
    words = (
        f"{_where(target, target.end(device))} cannot be reached from {_where(source, source.end(device))}"
    )
    return f"{words}: {_why(failure, cards)}"


def _where(card: Card, end: End | None) -> str:
    by = {"name": ", the address of its own name", "loopback": ", as its own name has no address"}
    place = f", {end.place}{by.get(end.by, '')}" if end is not None else ""
    return f"rank {card.rank} ({card.host}{place})"


def _why(failure: Failure, cards: Sequence[Card]) -> str:
    source, target = cards[failure.attempt.source], cards[failure.attempt.target]
    ours, theirs = source.end(failure.attempt.device), target.end(failure.attempt.device)
    text = {
        "refused": "connection refused",
        "unreachable": failure.detail,
        "no answer": "no answer",
        "silent": "something takes the connection and says nothing",
        "closed": "something takes the connection and closes it",
        "other": _who_answers(failure, cards),
        "family": "an IPv4 address on one side, an IPv6 address on the other",
    }.get(failure.why, failure.why)
    if ours and theirs and source.machine != target.machine:
        if is_loopback(theirs.ip):
            text += ", as that address never leaves a host"
        elif source.has_address(theirs.ip):
            text += ", as both hosts have that address"
    return text


def _who_answers(failure: Failure, cards: Sequence[Card]) -> str:
    answering = next((card for card in cards if card.token == failure.detail), None)
    if answering is None:
        return "another program answers there"
    if answering.rank == failure.attempt.source:
        return "it reaches itself"
    return f"rank {answering.rank} ({answering.host}) answers there"


def _advice(failures: Sequence[Failure], cards: Sequence[Card]) -> str:
    variable = f"{failures[0].attempt.device[0].upper()}_SOCKET_IFNAME"
    answers = Counter(name for f in failures for name in {name for name, _ in f.answers})
    if answers:
        name = max(sorted(answers), key=lambda n: answers[n])
        ip = next(ip for f in failures for n, ip in f.answers if n == name)
        return f"{name} works ({ip} answers): set {variable}={name}"
    if all(f.why == "missing" for f in failures):
        return f"set {variable} alike on all hosts"
    others = sorted({other.interface for f in failures for other in cards[f.attempt.target].others})
    tried = (
        f"nothing answers on {', '.join(others)} either" if others else "there is no other interface to try"
    )
    return f"{tried}: check links, switch ports and firewalls between these hosts"


def blamed(failures: Sequence[Failure], cards: Sequence[Card]) -> list[Culprit]:
    """Return the interfaces and links that explain ``failures``, the surest reason first: addresses that mean
    nothing elsewhere; the odd one out in family, or in interface; a host that nobody can talk with; links."""
    culprits: dict[Culprit, None] = {}
    left = list(failures)
    for find in (_local_addresses, _odd_families, _odd_interfaces, _cut_off, _links):
        every = find(failures, cards)  # what others explain is no pair that works
        found = {failure: every[failure] for failure in left if failure in every}
        culprits.update(dict.fromkeys(sorted({c for those in found.values() for c in those})))
        left = [failure for failure in left if failure not in found]
    return list(culprits)


_Found = Mapping[Failure, Iterable[Culprit]]


def _nic(card: Card, failure: Failure) -> Culprit:
    end = card.end(failure.attempt.device) or card.ends[0]
    return Culprit("nic", f"{card.host} {end.interface}")


def _both(failure: Failure, cards: Sequence[Card]) -> tuple[Card, Card]:
    return cards[failure.attempt.source], cards[failure.attempt.target]


def _local_addresses(failures: Sequence[Failure], cards: Sequence[Card]) -> _Found:
    found: defaultdict[Failure, list[Culprit]] = defaultdict(list)
    for failure in failures:
        one, other = _both(failure, cards)
        for card, peer in ((one, other), (other, one)):
            end = card.end(failure.attempt.device)
            if end is None or card.machine == peer.machine:
                continue
            if is_loopback(end.ip) or peer.has_address(end.ip):
                found[failure].append(_nic(card, failure))
    return found


def _odd_families(failures: Sequence[Failure], cards: Sequence[Card]) -> _Found:
    of_ends = [f for f in failures if f.why in ("family", "missing")]
    kinds = {card.rank: tuple(sorted({(end.device, end.family) for end in card.ends})) for card in cards}
    return _odd(of_ends, cards, kinds)


def _odd_interfaces(failures: Sequence[Failure], cards: Sequence[Card]) -> _Found:
    kinds = {card.rank: tuple(end.interface for end in card.ends) for card in cards}
    found = _odd(failures, cards, kinds, _understood(failures, cards, kinds))
    if _most_agree(failures, cards, kinds):
        return found
    silent = _cut_off(failures, cards)  # without most to differ from, who reaches nobody says more
    return {failure: named for failure, named in found.items() if failure not in silent}


def _most_agree(failures: Sequence[Failure], cards: Sequence[Card], kinds: Mapping[int, object]) -> bool:
    """Do most machines use the same, and do two of these reach each other?"""
    by_machine = {cards[rank].machine: kind for rank, kind in kinds.items()}
    machines = list(by_machine)
    few, most = sides(dict(enumerate(by_machine.values())))
    fails_with = _fails_with(failures, cards)
    pairs = itertools.combinations((machines[n] for n in most), 2)
    return len(most) > len(few) and any(other not in fails_with[one] for one, other in pairs)


def _understood(failures: Sequence[Failure], cards: Sequence[Card], kinds: Mapping[int, object]) -> set[str]:
    """Return the machines that do reach one of another kind: that they differ is not what is wrong."""
    fails_with = _fails_with(failures, cards)
    by_machine = {card.machine: kinds[card.rank] for card in cards}
    return {
        machine
        for machine, kind in by_machine.items()
        if any(theirs != kind and m not in fails_with[machine] for m, theirs in by_machine.items())
    }


def _odd(
    failures: Sequence[Failure],
    cards: Sequence[Card],
    kinds: Mapping[int, object],
    innocent: Collection[str] = (),
) -> _Found:
    """Blame those who differ from most hosts. Where most cannot be told and the two sides of a pair differ,
    both, unless one is ``innocent``: such machines are never blamed."""
    by_machine = {cards[rank].machine: kind for rank, kind in kinds.items()}
    numbered = dict(enumerate(by_machine.values()))
    few, most = sides(numbered)
    machines = list(by_machine)
    odd = {machines[n] for n in few} if len(most) > len(few) else set()
    found: dict[Failure, list[Culprit]] = {}
    for failure in failures:
        pair = _both(failure, cards)
        if kinds[pair[0].rank] == kinds[pair[1].rank]:
            continue
        wrong = [card for card in pair if card.machine in odd]
        accused = [card for card in (wrong or pair) if card.machine not in innocent]
        if accused and (wrong or len(accused) == len(pair)):
            found[failure] = [_nic(card, failure) for card in accused]
    return found


def _fails_with(failures: Sequence[Failure], cards: Sequence[Card]) -> defaultdict[str, set[str]]:
    """Return for each machine the others with which some pair fails."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for failure in failures:
        one, other = _machines(failure, cards)
        found[one].add(other)
        found[other].add(one)
    return found


def _cut_off(failures: Sequence[Failure], cards: Sequence[Card]) -> _Found:
    """Blame the interface of a host that can talk with no other, where at least two others can."""
    machines = {card.machine for card in cards}
    fails_with = _fails_with(failures, cards)
    cut_off = {m for m, others in fails_with.items() if others - {m} == machines - {m}}
    if len(machines) < _SEVERAL or len(machines - cut_off) < _SEVERAL - 1:
        return {}
    return {
        failure: [_nic(card, failure) for card in _both(failure, cards) if card.machine in cut_off]
        for failure in failures
        if cut_off & set(_machines(failure, cards))
    }


def _links(failures: Sequence[Failure], cards: Sequence[Card]) -> _Found:
    found = {}
    for failure in failures:
        one, other = _both(failure, cards)
        inside = one.machine == other.machine
        found[failure] = [_nic(other, failure) if inside else link(one.host, other.host)]
    return found
