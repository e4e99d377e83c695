"""The contract of an arm line by line: what was promised, what was found, and whether that keeps it. Pure.

Says the same as :func:`chaoskit.judge.contract.breached`, of every promise and not of the broken ones alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from chaoskit.events import Event, GuardFired, GuardNoticed, LauncherEnded, Leftover
from chaoskit.model import Contract, Outcome, Plan, Verdict
from chaoskit.reports.wording import end_of, plural, seconds, words


@dataclass(frozen=True, slots=True)
class Promise:
    """One line. ``kept`` None: it cannot be said."""

    what: str
    promised: str
    found: str
    kept: bool | None


def lines(plan: Plan, contract: Contract, verdict: Verdict, events: Iterable[Event]) -> tuple[Promise, ...]:
    """Return the promises of ``contract`` (the arm's own, or that of the hardened arm) in a file's order."""
    if verdict.outcome is None:
        return ()
    if verdict.outcome is Outcome.NOT_INJECTED:
        return (Promise("injection", "the fault fires", "it did not fire: nothing else can be said", None),)
    events = tuple(events)
    return (
        *_outcome(contract, verdict),
        *_within(plan, contract, verdict),
        *_exit(contract, verdict, events),
        *_exit_codes(contract, verdict),
        *_blame(contract, verdict),
        *_says(contract, events),
        _nothing_left(events),
    )


def _outcome(contract: Contract, verdict: Verdict) -> Iterator[Promise]:
    promised, found = contract.outcome, verdict.outcome
    if promised is not None and found is not None:
        yield Promise("outcome", words(promised), words(found), promised is found)


def _within(plan: Plan, contract: Contract, verdict: Verdict) -> Iterator[Promise]:
    within = contract.within
    if within is None:
        return
    bound = plan.bound_s if within == plan.hardened_contract.within else None
    bound = within.seconds(plan.profile.timeouts) if bound is None else bound
    if bound is None:
        found = f"the profile {plan.profile.name} sets no {within.timeout} timeout: there is no bound"
        yield Promise("within", str(within), found, False)
        return
    promised = seconds(bound) if str(within) == seconds(bound) else f"{within} = {seconds(bound)}"
    if verdict.latency_s is None:
        yield Promise("within", promised, "not ended by then", False)
    else:
        yield Promise("within", promised, seconds(verdict.latency_s), verdict.latency_s <= bound)


def _exit(contract: Contract, verdict: Verdict, events: tuple[Event, ...]) -> Iterator[Promise]:
    if contract.exit is None:
        return
    ended = [r.exit_code for r in verdict.ranks if r.exit_code is not None]
    nonzero = any(code != 0 for code in ended)
    launcher = next((e for e in events if isinstance(e, LauncherEnded)), None)
    if launcher is not None and launcher.by == "":  # its exit code is the job's
        nonzero = launcher.exit_code != 0
    alive = len(verdict.ranks) - len(ended)
    found = "nonzero" if nonzero else "0"
    if alive:
        said = f"{plural(alive, 'rank')} had to be ended"
        found = f"{found}, {said}" if ended else said
    kept = nonzero if contract.exit == "nonzero" else not nonzero and not alive
    yield Promise("exit of the job", contract.exit, found, kept)


def _exit_codes(contract: Contract, verdict: Verdict) -> Iterator[Promise]:
    codes: Mapping[int, int | None] = {r.rank: r.exit_code for r in verdict.ranks}
    for rank, code in contract.exit_codes:
        found = end_of(codes[rank]) if rank in codes else "no such rank"
        yield Promise(f"exit code of rank {rank}", end_of(code), found, codes.get(rank) == code)


def _blame(contract: Contract, verdict: Verdict) -> Iterator[Promise]:
    promised = contract.culprits
    if promised is not None:
        kept = not verdict.ambiguous and set(promised) == set(verdict.culprits)
        listed = ", ".join(map(str, promised)) or "nobody"
        found = ", ".join(map(str, verdict.culprits)) or "nobody"
        yield Promise("culprits", listed, f"ambiguous: {found}" if verdict.ambiguous else found, kept)
    kind = contract.kind
    if kind is not None:
        found = words(verdict.kind) if verdict.kind is not None else "none"
        yield Promise("kind", words(kind), found, verdict.kind is kind)


def _says(contract: Contract, events: tuple[Event, ...]) -> Iterator[Promise]:
    if not contract.says:
        return
    said = [e.message for e in events if isinstance(e, (GuardFired, GuardNoticed))]
    kept = any(contract.says in message for message in said)
    found = "a guard said so" if kept else "no guard said so"
    yield Promise("a guard says", contract.says, found, kept)


def _nothing_left(events: tuple[Event, ...]) -> Promise:
    left = [e for e in events if isinstance(e, Leftover)]
    listed = ", ".join(f"{e.command or 'process'} (pid {e.pid})" for e in left[:3])
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return Promise("left behind", "nothing", listed + more or "nothing", not left)
