"""A run of many ranks and operations, made up: what benchmarks of reports read. No rank is started."""

from __future__ import annotations

import json
import random
from pathlib import Path

from chaoskit import codec, recorded
from chaoskit.events import (
    ArmEnded,
    ArmStarted,
    DeadlineReached,
    Ended,
    Event,
    GuardFired,
    Identity,
    Injected,
    Raised,
    Started,
    Stopped,
)
from chaoskit.model import Culprit, Kind, Operation, Outcome, RankEnd, Status, Verdict
from chaoskit.plan import make_plan
from chaoskit.recorded import Form, Recorded, Rows
from chaoskit.scenario.loading import load_library
from chaoskit.scenario.profile_file import load_profile
from chaoskit.verdict import Sureness

SCENARIO, ARM = "rank-stopped", "hardened"
OPS = ("all_reduce", "reduce_scatter", "all_gather", "all_reduce", "barrier")
BEGIN_S = 1000.0
SITES = 6


def write(run: Path, ranks: int, operations: int, hosts: int = 8, seed: int = 7) -> tuple[Path, Verdict]:
    """Write a run with one arm; return the arm's folder and its verdict."""
    folder = run / SCENARIO / ARM
    folder.mkdir(parents=True)
    culprit = ranks // 4
    made, last_s, last = _recorded(ranks, operations, hosts, culprit, random.Random(seed))
    recorded.write(folder / "history.jsonl", made)
    scenario = next(s for s in load_library() if s.name == SCENARIO)
    strict = load_profile("strict")
    plan = make_plan(scenario, ARM, profile=strict, hardened_profile=strict, seed=seed, ranks=ranks)
    (folder / "plan.json").write_text(codec.dump_plan(plan))
    for slot in range(ranks):
        _findings(folder / f"rank{slot}", slot == culprit)
    verdict = Verdict(
        scenario=SCENARIO, arm=ARM, repeat=1, attempt=1, backend="gloo", profile="strict",
        status=Status.FAIL, reason="expected failed, found hung", outcome=Outcome.HUNG, kind=Kind.FROZEN,
        bound_s=plan.bound_s, production_bound_s=plan.production_bound_s, latency_s=None,
        culprits=(Culprit("rank", str(culprit)),),
        victims=tuple(r for r in range(ranks) if r != culprit), where="train.py:31",
        ranks=tuple(RankEnd(r, None, None, last) for r in range(ranks)), rerun=plan.rerun,
        cause=f"rank {culprit} stopped in {last.op} #{last.nth}; the others wait for it",
        at=last, sureness=Sureness.CERTAIN, evidence=("its process is stopped (state T)",),
    )  # fmt: skip
    (folder / "verdict.json").write_text(codec.dump_verdict(verdict))
    versions = {"chaoskit": "0", "torch": "2.13.0", "python": "3.11", "kernel": "6"}
    record = {"schema_version": 1, "command": "made up", "seed": seed, "versions": versions, "wall_s": last_s}
    (run / "run.json").write_text(json.dumps(record))
    return folder, verdict


def _recorded(
    ranks: int, operations: int, hosts: int, culprit: int, chance: random.Random
) -> tuple[Recorded, float, Operation]:
    members = tuple(range(ranks))
    forms = [Form("init", "default", "train.py:9", "", "", members)]
    for op in dict.fromkeys(OPS):
        forms += [
            Form(op, "default", f"train.py:{30 + n}", "1024x64", "bfloat16", members) for n in range(SITES)
        ]
    number = {(f.op, int(f.site.split(":")[1]) - 30): n for n, f in enumerate(forms)}
    rows = {slot: Rows() for slot in range(ranks)}
    ready = [BEGIN_S + 0.05 + chance.random() * 0.2 for _ in range(ranks)]
    counts: dict[str, int] = {}
    last = Operation("init", "default", 1)
    for seq in range(1, operations + 1):
        op = "init" if seq == 1 else OPS[seq % len(OPS)]
        counts[op] = counts.get(op, 0) + 1
        form = 0 if op == "init" else number[op, seq % SITES]
        ends = seq < operations
        entered = list(ready)
        over_s = max(entered) + 0.0004 + chance.random() * 0.001
        for slot in range(ranks):
            done_s = over_s + chance.random() * 0.0002
            _append(rows[slot], entered[slot], done_s if ends else float("nan"), form, counts[op], seq)
            slow = 0.004 if slot == 3 and seq % 50 == 0 else 0.0
            ready[slot] = done_s + 0.0003 + chance.random() * 0.0008 + slow
        last = Operation(op, "default", counts[op])
    begun_s = max(ready)
    events = _events(ranks, hosts, culprit, begun_s, last)
    return Recorded(tuple(forms), rows, tuple(events)), events[-1].t_s - BEGIN_S, last


def _append(rows: Rows, entered_s: float, ended_s: float, form: int, nth: int, seq: int) -> None:
    rows.entered_s.append(entered_s)
    rows.ended_s.append(ended_s)
    rows.how.append(1 if ended_s == ended_s else 0)
    rows.form.append(form)
    rows.nth.append(nth)
    rows.step.append(seq // 10)
    rows.seq.append(seq)
    rows.fingerprint.append(form)


def _events(ranks: int, hosts: int, culprit: int, stop_s: float, last: Operation) -> list[Event]:
    found: list[Event] = [ArmStarted(BEGIN_S, -1, True)]
    for slot in range(ranks):
        host = f"host{chr(65 + slot * hosts // ranks)}"
        found.append(Started(BEGIN_S + 0.001 * slot, slot, 4000 + slot))
        found.append(
            Identity(
                BEGIN_S + 0.01 + 0.001 * slot, slot, slot, slot, ranks, host, 4000 + slot, "chaoskit", "2"
            )
        )
    found.append(Injected(stop_s, culprit, 0, "stop", last.op, last.group, last.nth, "during", True))
    found.append(Stopped(stop_s + 0.001, culprit))
    guard = "no progress for 3 s in all_reduce"
    found.append(GuardFired(stop_s + 3.0, 0, "progress_watchdog", 84, guard))
    found.append(
        Raised(stop_s + 3.1, 2, "RuntimeError", "Connection closed by peer", "peer_lost", "train.py:31")
    )
    found.append(DeadlineReached(stop_s + 6.5, -1, True))
    found += [Ended(stop_s + 6.6 + 0.001 * slot, slot, -9, "supervisor") for slot in range(ranks)]
    found.append(ArmEnded(stop_s + 7.0, -1))
    return sorted(found, key=lambda e: e.t_s)


def _findings(folder: Path, culprit: bool) -> None:
    folder.mkdir()
    inner = ["fire (chaoskit/faults/stop.py:35)"] if culprit else ["wait (libtorch_cpu.so)"]
    frames = [*inner, "all_reduce (torch/distributed/distributed_c10d.py:3245)"]
    frames += ["step (train.py:31)", "main (train.py:90)", "<module> (train.py:99)"]
    threads = [
        {"name": "MainThread", "thread_id": 1, "main": True, "frames": frames, "waits_in": "futex_wait"},
        {"name": "pt_gloo_1", "thread_id": 2, "main": False, "frames": ["poll (libc.so)"], "waits_in": ""},
    ]
    (folder / "stack.json").write_text(json.dumps({"by": "py-spy", "threads": threads}))
    (folder / "process.json").write_text(json.dumps({"state": "T" if culprit else "S", "threads": []}))
    (folder / "stderr.log").write_text("[rank] starting\n" * 5)
