"""Hypothesis strategies: scenarios, profiles and what they are made of, all of them valid."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from chaoskit import faults, guards
from chaoskit.gpu.sharing import WAYS
from chaoskit.model import (
    Arm,
    Culprit,
    Expectation,
    Fault,
    Guard,
    Injection,
    Kind,
    Known,
    Outcome,
    Phase,
    Profile,
    Result,
    Scenario,
    Span,
    Topology,
    Trigger,
    Workload,
)
from chaoskit.network import Nic, host_names
from chaoskit.scenario import check, profile_names
from chaoskit.scenario.checks import SYNC_ONLY

names = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
texts = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30
).filter(lambda text: bool(text.strip()))
timeout_names = st.sampled_from(["init", "collective", "store"])
seconds = st.integers(1, 100_000).map(lambda n: n / 1000)
spans = st.one_of(
    st.builds(Span, plus_s=seconds),
    st.builds(Span, plus_s=seconds, timeout=timeout_names, times=st.integers(1, 80).map(lambda n: n / 8)),
)
hardening = st.sampled_from(["strict", "recommended"])
relative_spans = spans.filter(lambda span: span.timeout is not None)

_FIELDS: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("kill", "signal"): st.sampled_from(["SIGKILL", "SIGTERM", "SIGSEGV"]),
    ("raise", "error"): st.sampled_from(
        ["ValueError: bad batch", "OSError: [Errno 28] full", "RuntimeError: x"]
    ),
    ("cast", "dtype"): st.sampled_from(["int32", "float16"]),
    ("leave", "code"): st.integers(0, 255),
    ("stall", "for_s"): st.one_of(st.just("forever"), seconds, relative_spans),
    ("hold-gil", "for_s"): st.one_of(seconds, relative_spans),
    ("slow", "by_s"): st.one_of(seconds, relative_spans),
    ("environment", "set"): st.lists(
        st.tuples(st.from_regex(r"[A-Z][A-Z_]{0,8}", fullmatch=True), texts),
        max_size=3,
        unique_by=lambda p: p[0],
    ).map(tuple),
    ("environment", "unset"): st.just(("LOCAL_RANK",)),
    ("reshape", "factor"): st.sampled_from([0.5, 2.0, 0.25]),
    ("oom", "handler"): st.sampled_from(["none", "destroy-and-exit", "keep-alive"]),
    ("memory-limit", "bytes"): st.integers(1 << 20, 1 << 30),
    ("clock", "by_s"): seconds,
    ("leftover", "path"): st.sampled_from(["{scratch}/lock", "{scratch}/node{rank}/"]),
    ("disk-full", "bytes"): st.integers(1 << 16, 1 << 20),
    ("slow-filesystem", "by_s"): st.one_of(st.just("forever"), seconds, relative_spans),
    ("loader-worker-stuck", "for_s"): st.one_of(st.just("forever"), seconds, relative_spans),
    ("preempt", "grace_s"): st.one_of(st.none(), seconds, relative_spans),
    ("kill-later", "delay_s"): st.one_of(seconds, relative_spans),
    ("stuck-kernel", "for_s"): st.one_of(st.just("forever"), seconds, relative_spans),
    ("cuda-oom", "handler"): st.sampled_from(["none", "destroy-and-exit", "keep-alive"]),
    ("device-assert", "at_once"): st.booleans(),
    ("stuck-thread", "thread"): st.sampled_from(["pt_nccl_watchdg", "python"]),
    ("sigterm", "handler"): st.sampled_from(["flag", "exit-zero", "none"]),
}


@st.composite
def some_faults(draw: st.DrawFn, ranks: int) -> Fault:
    name = draw(st.sampled_from(faults.REGISTRY.names()))
    cls = faults.REGISTRY.get(name)
    assert cls is not None
    target = st.integers(0, ranks - 1)
    rank = draw(st.one_of(st.just("all"), st.lists(target, min_size=1, max_size=3, unique=True).map(tuple)))
    values: dict[str, Any] = {"rank": rank}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        strategy = _FIELDS.get((name, field.name))
        if strategy is not None and (field.default is dataclasses.MISSING or draw(st.booleans())):
            values[field.name] = draw(strategy)
    if name == "reshape":
        values.setdefault("factor", 0.5)
    if name == "environment":
        values.setdefault("unset", ("LOCAL_RANK",))
    if name == "same-device" and rank == (0,):
        values["of"] = 1
    if name == "stale-rendezvous":
        values["rank"] = "all"
    return cls(**values)


@st.composite
def triggers(draw: st.DrawFn, fault: Fault) -> Trigger:
    kind: Any = draw(st.sampled_from(sorted(fault.triggers)))
    nth = draw(st.integers(1, 50))
    if kind == "collective":
        op = draw(st.sampled_from(["all_reduce", "barrier", "broadcast"]))
        phase = Phase(draw(st.sampled_from(sorted(fault.phases))))
        return Trigger(kind, op, nth, phase=phase, step=draw(st.sampled_from([0, 3])))
    if kind == "call":
        phase = Phase(draw(st.sampled_from(sorted(fault.phases - {"during"}))))
        return Trigger(kind, call="torch.save", nth=nth, phase=phase)
    if kind in ("forward", "backward", "loader"):
        phase = Phase(draw(st.sampled_from(sorted(fault.phases - {"during"}))))
        module = "" if kind == "loader" else draw(st.sampled_from(["layer.2", "Linear", "module.encoder"]))
        return Trigger(kind, nth=nth, phase=phase, module=module)
    if kind == "write":
        return Trigger(kind, nth=nth, path=draw(st.sampled_from(["*.pt", "{scratch}/[ab]?.bin", "/x/y"])))
    if kind == "step":
        return Trigger(kind, step=draw(st.integers(1, 20)))
    if kind == "after":
        return Trigger(kind, after_s=draw(seconds))
    return Trigger(kind)


@st.composite
def expectations(draw: st.DrawFn, ranks: int, *, healthy: bool = False) -> Expectation:
    if healthy:
        return Expectation((("gloo", Outcome.COMPLETED), ("nccl", Outcome.COMPLETED)), exit="zero")
    outcome = st.sampled_from(Outcome)
    culprit = st.builds(Culprit, st.just("rank"), st.integers(0, ranks - 1).map(str))
    return Expectation(
        outcome=(("gloo", draw(outcome)), ("nccl", draw(outcome))),
        within=draw(st.one_of(st.none(), spans)),
        exit=draw(st.sampled_from([None, "zero", "nonzero"])),
        exit_codes=draw(st.lists(st.tuples(st.integers(0, ranks - 1), st.integers(-41, 255)), max_size=2,
                                 unique_by=lambda p: p[0]).map(tuple)),
        culprits=draw(st.one_of(st.none(), st.lists(culprit, max_size=2).map(tuple))),
        kind=draw(st.one_of(st.none(), st.sampled_from(Kind))),
        says=draw(st.one_of(st.just(""), texts)),
    )  # fmt: skip


_arguments = st.lists(texts, max_size=3).map(tuple)
built_in = st.builds(
    Workload,
    st.sampled_from(["ddp-train", "all-reduce-loop"]),
    st.sampled_from([(), (("steps", 60),), (("steps", 25), ("step_s", 0.5))]),
)
programs = st.one_of(
    _arguments.map(lambda args: Workload("pkg.train", kind="module", target="pkg.train", args=args)),
    _arguments.map(lambda args: Workload("srun", kind="command", args=("/usr/bin/srun", *args))),
)


_interfaces = st.one_of(
    st.from_regex(r"[a-z]{1,6}[0-9]", fullmatch=True), st.sampled_from(["netz-ä0", "b.1"])
)
_rates = st.one_of(st.none(), st.integers(1000, 400_000_000_000).map(float), st.floats(1e3, 400e9))


@st.composite
def topologies(draw: st.DrawFn, ranks: int) -> Topology:
    """Topologies without a problem; half of them of one machine."""
    backend = draw(st.sampled_from(["gloo", "nccl"]))
    if draw(st.booleans()):
        return Topology(ranks, backend, gpu_sharing=draw(st.sampled_from(WAYS)))
    hosts = draw(st.integers(1, ranks))
    some = st.lists(st.sampled_from(host_names(hosts)), min_size=1, unique=True).map(tuple)
    nics = []
    for place, name in enumerate(draw(st.lists(_interfaces, max_size=3, unique=True))):
        on = () if place == 0 else draw(st.one_of(st.just(()), some))
        if place and draw(st.booleans()):
            nics.append(Nic(name, same_address=f"172.{16 + place}.0.1/16", on=on))
            continue
        subnet = draw(st.sampled_from(["", f"10.{place}.0.0/24", f"fd00:{place}::/64", f"10.9.{place}.0/28"]))
        nics.append(Nic(name, subnet, draw(_rates), port=draw(st.sampled_from(["up", "down"])), on=on))
    own = draw(st.sampled_from(["", "127.0.1.1", "fd00::5", nics[0].name if nics else "eth0"]))
    return Topology(ranks, backend, hosts, tuple(nics), own)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Scenarios that have no problem."""
    ranks = draw(st.integers(2, 6))
    healthy = draw(st.booleans())
    injections = []
    for _ in range(draw(st.integers(0 if healthy else 1, 3))):
        fault = draw(some_faults(ranks))
        injections.append(Injection(fault, draw(triggers(fault))))
    known = st.builds(
        Known, st.sampled_from(profile_names()), st.just("gloo"), st.sampled_from(Result),
        st.one_of(st.none(), st.sampled_from(Outcome)), st.one_of(st.just(""), texts),
    )  # fmt: skip
    workload = draw(st.one_of(built_in, programs))
    scenario = Scenario(
        name=draw(names),
        summary=draw(texts),
        family=draw(st.sampled_from(["process", "custom"])),
        workload=workload,
        topology=draw(topologies(ranks)),
        injections=tuple(injections),
        arms=(
            Arm("control", "torch-defaults", draw(expectations(ranks, healthy=healthy))),
            Arm("hardened", draw(hardening), draw(expectations(ranks, healthy=healthy))),
        ),
        seen_in=draw(st.lists(texts, max_size=2).map(tuple)),
        tags=draw(st.lists(names, max_size=2).map(tuple)),
        requires=draw(st.lists(names, max_size=1).map(tuple)),
        healthy=healthy,
        known=draw(st.lists(known, max_size=2, unique_by=lambda k: k.profile).map(tuple)),
    )  # fmt: skip
    during = [i for i in injections if i.when.phase is Phase.DURING]
    assume(not any(i.when.op in SYNC_ONLY for i in during))
    assume(not check(scenario))
    return scenario


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    found: list[Guard] = []
    for name in draw(st.lists(st.sampled_from(guards.REGISTRY.names()), unique=True, max_size=4)):
        cls = guards.REGISTRY.get(name)
        assert cls is not None
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        floats = [f.name for f in fields if f.name.endswith("_s") and isinstance(f.default, float)]
        chosen = draw(st.lists(st.sampled_from(floats), unique=True)) if floats else []
        found.append(cls(**{field: draw(seconds) for field in chosen}))
    env = draw(st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,9}", fullmatch=True), texts, max_size=3))
    return Profile(draw(names), "", tuple(found), tuple(env.items()))
