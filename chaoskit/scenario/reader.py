"""Scenario files: YAML → Scenario, with every problem of a file noted at its line.

Each part is read for itself, so that a mistake in one hides none in another; what the parts mean
together is for :mod:`chaoskit.scenario.checks`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, cast

from chaoskit import faults, workloads
from chaoskit.model import (
    Arm,
    Backend,
    Culprit,
    Expectation,
    Fault,
    Injection,
    Kind,
    Known,
    Outcome,
    Phase,
    Result,
    Scenario,
    Trigger,
    Workload,
)
from chaoskit.scenario import programs
from chaoskit.scenario.checks import CONTROL, HARDENED, Draft
from chaoskit.scenario.fitting import dotted, read_model, read_settings, salvage, salvage_settings
from chaoskit.scenario.schema import UNOBSERVED, ExpectFile, KnownFile, ScenarioFile, WhenFile
from chaoskit.scenario.source import Document, KeyPath
from chaoskit.scenario.topology import hosts_are_known, topology_of
from chaoskit.scenario.values import RANKS_MAX, Wrong, did_you_mean, kind_of, shown, whole, yaml_key
from chaoskit.scenario.values import Kind as ValueKind

WORDS = ("init", "launch")
"""The triggers that are a word."""


def read_scenario(document: Document) -> Draft:
    """Return the scenario in ``document`` as far as it can be read, with the problems noted in it."""
    data = document.data
    found = read_model(ScenarioFile, data, document, ())
    raw = data if isinstance(data, dict) else {}
    given = raw.get("topology", {})
    hosts_known = True
    if found is None:
        found = salvage(ScenarioFile, raw) or ScenarioFile(name="x", summary="x", workload="x", arms={})
        if given != {} and not (isinstance(given, dict) and given.get("ranks", 4) == found.topology.ranks):
            found.topology.ranks = RANKS_MAX  # it is not known which ranks there are
        hosts_known = hosts_are_known(given, found.topology)
    workload = read_workload(raw.get("workload"), document) if "workload" in raw else None
    injections = _injections(raw.get("faults"), document)
    known = _known(raw.get("known"), document)
    backends = cast(tuple[Backend, ...], found.backends)
    arms = raw.get("arms")
    scenario = Scenario(
        name=found.name,
        summary=found.summary,
        family=found.family,
        workload=workload or Workload(""),
        topology=topology_of(found.topology),
        injections=tuple(i for _, i, _ in injections),
        arms=tuple(
            Arm(name, _profile_name(arm.profile, document.file), expectation(arm.expect, backends))
            for name, arm in found.arms.items()
        ),
        seen_in=found.seen_in,
        tags=found.tags,
        requires=found.requires,
        backends=backends,
        healthy=found.healthy,
        known=known,
        file=document.file,
    )
    return Draft(
        scenario,
        complete=not document.problems,
        arm_names=tuple(str(name) for name in arms) if isinstance(arms, dict) else (CONTROL, HARDENED),
        fault_numbers=tuple(number for number, _, _ in injections),
        untimed=frozenset(number for number, _, timed in injections if not timed),
        hosts_known=hosts_known,
    )


def _profile_name(text: str, file: str) -> str:
    """A profile's name, or its file as seen from the scenario's folder."""
    is_file = "/" in text or text.endswith((".yaml", ".yml"))
    return str(Path(file).parent / text) if is_file else text


def expectation(expect: ExpectFile, backends: tuple[Backend, ...]) -> Expectation:
    """Return what ``expect`` promises on each of ``backends``."""
    given: Any = expect.outcome
    unseen = {} if given == UNOBSERVED else dict.fromkeys(backends, given)
    outcomes: dict[str, str] = given if isinstance(given, dict) else unseen
    codes = expect.exit if isinstance(expect.exit, dict) else {}
    return Expectation(
        outcome=tuple((cast(Backend, b), Outcome(o)) for b, o in outcomes.items()),
        within=expect.within,
        exit=codes.get("job") if isinstance(expect.exit, dict) else expect.exit,
        exit_codes=tuple((rank, code) for rank, code in codes.items() if rank != "job"),
        culprits=None if expect.culprits is None else tuple(_culprit(c) for c in expect.culprits),
        kind=None if expect.kind is None else Kind(expect.kind),
        says=expect.says,
    )


def _culprit(text: str) -> Culprit:
    kind, _, number = text.partition(" ")
    return Culprit(cast(Any, kind), number)


# ---------------------------------------------------------------- workload


def read_workload(raw: object, document: Document, path: KeyPath = ("workload",)) -> Workload | None:
    """Return the workload that ``raw`` names, or None with the problems noted."""
    if isinstance(raw, dict) and programs.KINDS & raw.keys():
        return _program(raw, document, path)
    name: object = raw
    settings: object = None
    if isinstance(raw, dict) and len(raw) == 1:
        name, settings = next(iter(raw.items()))
        path = (*path, cast(str, name))
    program = workloads.get(name) if isinstance(name, str) else None
    if program is None:
        if isinstance(name, str):
            document.problem(
                path, f"there is no workload {shown(name)}", did_you_mean(name, workloads.names())
            )
        else:
            hint = "write a name, {ddp-train: {steps: 20}}, or {script: train.py, args: [...]}"
            document.problem(
                path, f"workload must be a name, or one name with settings, is {shown(raw)}", hint
            )
        return None
    if settings is not None and not isinstance(settings, dict):
        document.problem(path, f"the settings of {name} must be a mapping, are {shown(settings)}")
        return None
    known = {yaml_key(key): (key, setting_kind(key, default)) for key, default in program.settings}
    values = []
    for key, value in settings.items() if isinstance(settings, dict) else ():
        if key not in known:
            document.problem(
                (*path, key), f"{dotted(path)}: unknown setting `{key}`", did_you_mean(key, known)
            )
            continue
        field, kind = known[key]
        try:
            values.append((field, cast(Any, kind.read(value))))
        except Wrong as wrong:
            document.problem((*path, key), f"{dotted((*path, key))} {wrong.message}", wrong.hint)
    return Workload(program.name, tuple(values))


def _program(raw: dict[Any, object], document: Document, path: KeyPath) -> Workload | None:
    """Return the user's own program, a script as seen from the file's folder."""
    folder = Path(document.file).parent if document.file else Path()
    program, wrongs = programs.read_program(raw, folder)
    for key, wrong in wrongs:
        place = (*path, key) if key else path
        document.problem(place, f"{dotted(place)} {wrong.message}", wrong.hint)
    return program


STEPS_MAX = 100_000
SETTING_MAX = 1 << 31


def setting_kind(key: str, default: workloads.Setting) -> ValueKind:
    """Return the kind of a workload's setting, whose type is that of its default."""
    if type(default) is int:
        return whole(1, STEPS_MAX) if key == "steps" else whole(0, SETTING_MAX)
    return kind_of(type(default), key)


# ---------------------------------------------------------------- faults


def _injections(raw: object, document: Document) -> list[tuple[int, Injection, bool]]:
    """The faults that can be read, with their numbers, and whether it is known when they fire."""
    found = []
    for number, entry in enumerate(raw if isinstance(raw, list) else ()):
        fault, trigger = _injection(entry, document, ("faults", number))
        if fault is not None:
            moment = trigger or Trigger("launch" if fault.triggers == {"launch"} else "init")
            found.append((number, Injection(fault, moment), trigger is not None))
    return found


def _injection(entry: object, document: Document, path: KeyPath) -> tuple[Fault | None, Trigger | None]:
    if not isinstance(entry, dict):
        hint = "write '- kill: {rank: 1}' and below it '  when: {op: all_reduce, nth: 8}'"
        document.problem(path, f"{dotted(path)} must be a fault and when it fires, is {shown(entry)}", hint)
        return None, None
    cls = _fault_class(entry, document, path)
    if cls is None:
        return None, None
    fault = _fault(cls, entry[cls.name], document, (*path, cls.name))
    trigger = _trigger(entry.get("when"), cls, document, (*path, "when"))
    return fault, trigger


def _fault_class(entry: dict[Any, object], document: Document, path: KeyPath) -> type[Fault] | None:
    """Return the class that the entry names, with everything else in it noted as a problem."""
    known = {key: faults.REGISTRY.get(key) for key in entry if isinstance(key, str) and key != "when"}
    classes = [cls for cls in known.values() if cls is not None]
    for key in entry:
        if key != "when" and known.get(key) is None:
            names = [*faults.REGISTRY.names(), "when"]
            document.problem(
                (*path, key), f"{dotted(path)}: there is no fault `{key}`", did_you_mean(key, names)
            )
    if len(classes) > 1:
        both = " and ".join(cls.name for cls in classes)
        document.problem(path, f"{dotted(path)} has two faults: {both}", "begin each fault with its own '- '")
        return None
    if not classes:
        if not known:
            document.problem(path, f"{dotted(path)} names no fault", "write '- kill: {rank: 1}'")
        return None
    return classes[0]


def _fault(cls: type[Fault], raw: object, document: Document, path: KeyPath) -> Fault | None:
    settings = read_settings(cls, raw, document, path)
    if settings is None:
        good = salvage_settings(cls, raw)
        with contextlib.suppress(ValueError):
            return None if good is None else cls(**good)
        return None
    try:
        return cls(**settings)
    except ValueError as error:
        document.problem(path, f"{dotted(path)}: {error}")
        return None


def _trigger(raw: object, cls: type[Fault], document: Document, path: KeyPath) -> Trigger | None:
    if raw is None:
        only = [word for word in cls.triggers if word in WORDS]
        if len(cls.triggers) == 1 and only:
            return Trigger(cast(Any, only[0]))
        document.problem(
            path[:-1], f"{dotted(path[:-1])}: missing key `when`", "write when: {op: all_reduce, nth: 8}"
        )
        return None
    if raw in WORDS:
        return Trigger(cast(Any, raw))
    if isinstance(raw, str):
        document.problem(
            path,
            f"{dotted(path)} must be a mapping, init or launch, is {shown(raw)}",
            did_you_mean(raw, WORDS),
        )
        return None
    when = read_model(WhenFile, raw, document, path)
    return None if when is None else _moment(when, document, path)


_MEANT = {
    "op": {"nth", "group", "phase", "step"},
    "step": set[str](),
    "call": {"nth", "phase"},
    "forward": {"nth", "phase"},
    "backward": {"nth", "phase"},
    "loader": {"nth", "phase"},
    "write": {"nth"},
    "after": set[str](),
}
"""What may stand beside each key that names a moment."""


def _moment(when: WhenFile, document: Document, path: KeyPath) -> Trigger | None:
    given = when.model_fields_set
    named = [key for key in _MEANT if key in given and getattr(when, key) is not None]
    if "op" in named and "step" in named:
        named.remove("step")
    if len(named) != 1:
        what = f"names two moments: {' and '.join(named)}" if named else "names no moment"
        hint = f"give one of {', '.join(_MEANT)}; or write init or launch in place of the mapping"
        document.problem(path, f"{dotted(path)} {what}", hint)
        return None
    (main,) = named
    fits = True
    for key in sorted(given - _MEANT[main] - {main}):
        document.problem((*path, key), f"{dotted(path)}: `{key}` has no meaning beside `{main}`", "remove it")
        fits = False
    if not fits:
        return None
    phase = Phase(when.phase)
    if when.op is not None:
        return Trigger("collective", when.op, when.nth, when.group, phase, when.step or 0)
    if when.call is not None:
        return Trigger("call", nth=when.nth, phase=phase, call=when.call)
    if when.forward is not None:
        return Trigger("forward", nth=when.nth, phase=phase, module=when.forward)
    if when.backward is not None:
        return Trigger("backward", nth=when.nth, phase=phase, module=when.backward)
    if when.loader is not None:
        return Trigger("loader", nth=when.nth, phase=phase)
    if when.write is not None:
        return Trigger("write", nth=when.nth, path=when.write)
    if when.after is not None:
        return Trigger("after", after_s=when.after)
    return Trigger("step", step=when.step or 0)


# ---------------------------------------------------------------- known results


def _known(raw: object, document: Document) -> tuple[Known, ...]:
    """``known: {folklore: {result: not_held}}``; a list where the backends differ."""
    if not isinstance(raw, dict):
        return ()
    found = []
    for profile, value in raw.items():
        entries = value if isinstance(value, list) else [value]
        for number, entry in enumerate(entries):
            path: KeyPath = ("known", profile, number) if isinstance(value, list) else ("known", profile)
            one = read_model(KnownFile, entry, document, path)
            if one is not None:
                outcome = None if one.outcome is None else Outcome(one.outcome)
                found.append(Known(profile, cast(Backend, one.backend), Result(one.result), outcome, one.why))
    return tuple(found)
