"""Memory and time of judging a large history again. Budgets: 200 MiB for any size; 1.2 s to read the columns
of 64 ranks with 10,000 operations each.

The history is of a healthy job of 64 ranks, written as chaoskit writes it, but for one thing: shortly after
the start one rank entered an operation with another fingerprint, and nobody noticed. It has to be found.

    python benchmarks/judge_memory.py [--size-gb 1]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _figures import Budget, end, figure, heading, note

from chaoskit import codec, history
from chaoskit.history import ArmEnded, Ended, Event, Finished, Identity, Started
from chaoskit.model import Plan, RankPlan, Workload
from chaoskit.plan import make_plan
from chaoskit.scenario import load_profile, select

RANKS = 64
BATCH = 256
STEP_OPS = 8
"""Operations between two optimizer steps."""
GUILTY, EARLY = 3, 700
"""The rank, and the number of the operation that it entered otherwise."""
BUDGET_MIB = 200
READ_OPERATIONS = 10_000
READ_BUDGET_S = 1.2
READINGS = 5
PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
READ = f"""
import sys, time
from pathlib import Path
from chaoskit import recorded
for _ in range({READINGS}):
    began = time.perf_counter()
    found = recorded.read(Path(sys.argv[1]))
    print(time.perf_counter() - began)
assert found.operations == {RANKS * READ_OPERATIONS} and not found.problems
{PEAK}
"""


def plan() -> Plan:
    """A program of a user's, of which no result is known, on 64 ranks without any fault."""
    bare = load_profile("torch-defaults")
    made = make_plan(select(["long-step"])[0], "control", profile=bare, hardened_profile=bare, seed=1)
    return dataclasses.replace(
        made,
        ranks=tuple(RankPlan(slot, ()) for slot in range(RANKS)),
        workload=Workload("train", kind="module", target="train"),
        injections=(),
        expected_result=None,
        healthy=True,
    )


def write(path: Path, operations: float, size: float = float("inf")) -> int:
    """Write a history of so many operations of each rank, or of so many bytes; return how many it has."""
    members = list(range(RANKS))
    form = {"op": "all_reduce", "group": "default", "site": "train.py:10", "shape": "1048576", "dtype": "f32"}
    with path.open("w", encoding="utf-8") as file:
        for event in beginning():
            file.write(history.to_line(event) + "\n")
        say({"kind": "Layout", "version": 1}, file)
        for number, fingerprint in ((0, 1234567890123456789), (1, 77)):
            whole = {"id": number, **form, "members": members, "peer": -1, "thread": 0}
            say({"kind": "Form", **whole, "fingerprint": fingerprint}, file)
        done = 0
        while done < operations and file.tell() < size:
            count = int(min(BATCH, operations - done))
            usual = body(done, count)
            for slot in range(RANKS):
                odd = slot == GUILTY and done < EARLY <= done + count
                columns = body(done, count, odd=EARLY - done - 1) if odd else usual
                file.write(f'{{"kind":"Operations","slot":{slot},{columns}\n')
            done += count
        for event in ending(at_s(done) + 1.0):
            file.write(history.to_line(event) + "\n")
    return done * RANKS


def say(value: object, file: object) -> None:
    print(json.dumps(value, separators=(",", ":")), file=file)  # type: ignore[call-overload]


def at_s(number: int) -> float:
    return (200_000_000_000 + number * 1_310_017) / 1e9


def body(done: int, count: int, odd: int = -1) -> str:
    """The columns of the operations after the first ``done``."""
    numbers = range(done, done + count)
    columns = {
        "entered_s": [at_s(n) for n in numbers],
        "ended_s": [(at_s(n) * 1e9 + 700_003) // 1 / 1e9 for n in numbers],
        "form": [int(at == odd) for at in range(count)] if odd >= 0 else 0,
        "nth": done + 1,
        "step": [n // STEP_OPS for n in numbers],
        "seq": done + 1,
    }
    return json.dumps(columns, separators=(",", ":"))[1:]


def beginning() -> Iterator[Event]:
    for slot in range(RANKS):
        yield Started(100.0 + slot * 1e-3, slot, 1000 + slot)
        yield Identity(
            110.0 + slot * 1e-3, slot, slot, slot, RANKS, "host", 1000 + slot, "torchrun", "2", "host:1"
        )


def ending(t_s: float) -> Iterator[Event]:
    for slot in range(RANKS):
        yield Finished(t_s, slot)
        yield Ended(t_s + 0.5, slot, 0)
    yield ArmEnded(t_s + 1.0, -1)


def judged(folder: Path) -> tuple[dict[str, object], float, float]:
    """Judge the run in a process of its own; return the verdict, seconds and its most memory in MiB."""
    command = [sys.executable, "-m", "chaoskit", "judge", str(folder), "--format", "json"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    return json.loads(said)["verdicts"][0], seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size-gb", type=float, default=1.0)
    size_gb: float = parser.parse_args().size_gb
    heading(f"judging a history of {size_gb:g} GB")
    kept = []
    with tempfile.TemporaryDirectory(prefix="chaoskit-benchmark-") as name:
        small = Path(name, "small.jsonl")
        write(small, READ_OPERATIONS)
        said = subprocess.run([sys.executable, "-c", READ, str(small)], capture_output=True, text=True)
        *times, peak = map(float, said.stdout.split())
        budget = Budget(READ_BUDGET_S, 50)
        kept.append(figure(f"columns of {RANKS} × {READ_OPERATIONS:,}", times, budget, f"{peak:.0f} MiB"))
        arm = Path(name, "run", "watched", "control")
        arm.mkdir(parents=True)
        (arm / "plan.json").write_text(codec.dump_plan(plan()))
        began = time.perf_counter()
        operations = write(arm / "history.jsonl", float("inf"), size_gb * 1e9)
        size = (arm / "history.jsonl").stat().st_size
        note(
            f"{size / 1e9:.2f} GB, {operations:,} operations, written in {time.perf_counter() - began:.0f} s"
        )
        verdict, seconds, mib = judged(Path(name, "run"))
    note(f"judged in {seconds:.1f} s ({seconds / operations * 1e6:.2f} µs an operation)")
    within = mib <= BUDGET_MIB
    note(f"memory at most {mib:.0f} MiB, budget {BUDGET_MIB} MiB: {'kept' if within else 'EXCEEDED'}")
    found = verdict["outcome"] == "corrupted" and verdict["culprits"] == [{"kind": "rank", "id": str(GUILTY)}]
    told = f"outcome {verdict['outcome']}, {verdict['reason']}"
    note(f"what differed early is {'found' if found else 'NOT FOUND'}: {told}")
    end([*kept, within, found])


if __name__ == "__main__":
    main()
