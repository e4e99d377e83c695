"""``chaoskit show``: a scenario in words. Durations are the profiles' own, not shortened for a run."""

from __future__ import annotations

import inspect
import math
import shlex
import textwrap
from collections.abc import Iterable, Iterator

import click

from chaoskit.cli.printing import say
from chaoskit.cli.show_topology import topology_in_words
from chaoskit.model import Arm, Expectation, Injection, Known, Phase, Profile, Scenario, Span, Trigger

WIDTH = 100


@click.command("show")
@click.argument("names", nargs=-1, required=True, metavar="NAME|PATH...")
def show(names: tuple[str, ...]) -> None:
    """Tell a scenario in words: what happens, where it was seen, and what must hold."""
    from chaoskit.scenario import load_profile, select

    for number, scenario in enumerate(select(names)):
        profiles = {arm.name: load_profile(arm.profile) for arm in scenario.arms}
        if number:
            say()
        for line in in_words(scenario, profiles):
            say(line)


def in_words(scenario: Scenario, profiles: dict[str, Profile]) -> Iterator[str]:
    """Yield the lines of the description."""
    yield f"{scenario.name} ({scenario.family})"
    yield from _wrapped(scenario.summary)
    yield from _section("What runs", _what_runs(scenario))
    yield from _section("Where it runs", topology_in_words(scenario.topology))
    yield from _section(
        "What happens", [t for i in scenario.injections for t in _what_happens(i)] or ["Nothing goes wrong."]
    )
    yield from _section("Where it was seen", [_link(text) for text in scenario.seen_in])
    yield from _section("What must hold", [_arm(arm, scenario, profiles[arm.name]) for arm in scenario.arms])
    yield from _section("What other profiles do", [_known(known) for known in scenario.known])
    needs = ", ".join(scenario.needs)
    yield from _section("What it needs", [needs] if needs else [])
    yield from _section("Tags", [", ".join(scenario.tags)] if scenario.tags else [])
    yield from _section("File", [scenario.file] if scenario.file else [])


def _section(title: str, texts: Iterable[str]) -> Iterator[str]:
    for number, one in enumerate(texts):
        if number == 0:
            yield f"\n{title}"
        yield from _wrapped(one)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# ---------------------------------------------------------------- what runs, what happens


def _what_runs(scenario: Scenario) -> list[str]:
    from chaoskit import workloads

    workload = scenario.workload
    ranks, backend = scenario.topology.ranks, scenario.topology.backend
    there = f"{ranks} {backend} {_plural('rank', ranks)}"
    if scenario.topology.is_virtual:
        there += f" on {scenario.topology.hosts} virtual {_plural('host', scenario.topology.hosts)}"
    if workload.is_built_in:
        program = workloads.get(workload.name)
        about = f": {program.summary}" if program is not None else ""
        settings = ", ".join(f"{key.removesuffix('_s')} {value}" for key, value in workload.settings)
        given = f" ({settings})" if settings else ""
        texts = [f"{workload.name}{given} on {there}{about}"]
    elif workload.kind == "command":
        texts = [f"The command `{shlex.join(workload.args)}`, which starts {there}"]
    else:
        texts = [f"The {workload.kind} `{shlex.join((workload.target, *workload.args))}` on {there}"]
    others = [b for b in scenario.backends if b != backend]
    return texts + ([f"Also for {', '.join(others)}."] if others else [])


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _what_happens(injection: Injection) -> list[str]:
    fault = injection.fault
    about = (inspect.getdoc(type(fault)) or "").partition("\n\n")[0].replace("\n", " ")
    settings = _settings(injection)
    return [
        f"{_ranks(injection)}, {moment(injection.when)}: {fault.name}{f' ({settings})' if settings else ''}.",
        f"{fault.name}: {about}",
    ]


def _ranks(injection: Injection) -> str:
    ranks = injection.fault.rank
    if ranks == "all":
        return "On every rank"
    return f"On {_plural('rank', len(ranks))} {', '.join(map(str, ranks))}"


def _settings(injection: Injection) -> str:
    import dataclasses

    parts = []
    for field in dataclasses.fields(injection.fault):  # type: ignore[arg-type]  # faults are dataclasses
        value = getattr(injection.fault, field.name)
        if field.name != "rank" and value not in (None, (), "", math.inf):
            parts.append(
                f"{field.name.removesuffix('_s')} {_value(value, seconds=field.name.endswith('_s'))}"
            )
    return ", ".join(parts)


def _value(value: object, *, seconds: bool) -> str:
    if isinstance(value, tuple):
        return " ".join("=".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in value)
    if seconds and isinstance(value, (int, float)):
        return f"{value:g} s"
    return str(value)


def moment(when: Trigger) -> str:
    """Return when it happens, as part of a sentence."""
    match when.kind:
        case "collective":
            within = f" of step {when.step}" if when.step else ""
            group = "" if when.group == "default" else f" in group {when.group}"
            how = {Phase.BEFORE: "just before", Phase.DURING: "in the middle of", Phase.AFTER: "right after"}[
                when.phase
            ]
            return f"{how} its {_ordinal(when.nth)} {when.op}{group}{within}"
        case "step":
            return f"when step {when.step} is done"
        case "call":
            return f"{when.phase} its {_ordinal(when.nth)} call of {when.call}"
        case "forward" | "backward":
            return f"{when.phase} its {_ordinal(when.nth)} {when.kind} of {when.module}"
        case "loader":
            return f"{when.phase} its {_ordinal(when.nth)} batch of a DataLoader"
        case "write":
            which = "a" if when.nth == 1 else f"the {_ordinal(when.nth)}"
            return f"at the first byte of {which} file {when.path}"
        case "init":
            return "just before the process group forms"
        case "launch":
            return "before the process starts"
        case "after":
            return f"{when.after_s:g} s after its start"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _link(text: str) -> str:
    repository, _, issue = text.partition("#")
    return (
        f"{text} (https://github.com/{repository}/issues/{issue})"
        if issue.isdigit() and "/" in repository
        else text
    )


# ---------------------------------------------------------------- what must hold


def _arm(arm: Arm, scenario: Scenario, profile: Profile) -> str:
    about = f"{arm.name} (profile {arm.profile}): {_outcome(arm.expect)}"
    return "; ".join([about, *_promises(arm.expect, profile)]) + "."


def _outcome(expect: Expectation) -> str:
    by_backend = {backend: outcome.replace("_", " ") for backend, outcome in expect.outcome}
    everywhere = len(by_backend) > 1 and len(set(by_backend.values())) == 1
    if everywhere:
        return next(iter(by_backend.values()))
    return ", ".join(f"{outcome} on {backend}" for backend, outcome in by_backend.items())


def _promises(expect: Expectation, profile: Profile) -> Iterator[str]:
    if expect.within is not None:
        yield f"every process gone within {_span(expect.within, profile)} of the fault"
    if expect.exit is not None:
        yield f"the job exits {expect.exit}"
    for rank, code in expect.exit_codes:
        yield f"rank {rank} exits {code}"
    if expect.culprits is not None:
        names = ", ".join(str(c) for c in expect.culprits) or "nobody"
        kind = f" ({expect.kind.replace('_', ' ')})" if expect.kind is not None else ""
        verb = "are" if len(expect.culprits) > 1 else "is"
        yield f"{names} {verb} blamed{kind}"
    if expect.says:
        yield f"the job itself says {expect.says!r}"


def _span(span: Span, profile: Profile) -> str:
    seconds = span.seconds(profile.timeouts)
    if span.timeout is None or seconds is None:
        return str(span)
    return f"{seconds:g} s ({span})"


def _known(known: Known) -> str:
    outcome = f", {known.outcome.replace('_', ' ')}" if known.outcome is not None else ""
    why = f": {known.why}" if known.why else ""
    return f"{known.profile} on {known.backend}: {known.result.replace('_', ' ')}{outcome}{why}"
