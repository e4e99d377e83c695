"""How often blame is right: faults at random places, each judged from a history without plan and injections.

Every case is one fault on one rank, at one moment of one program, under one profile, drawn from the seed.
Goal: culprit and kind right in 98 % on gloo. Beside it: whom torchrun's summary would have named, by its own
rule (_blame_torchrun.py), and how often that agreed with the real torchrun on a few of the runs.

    python benchmarks/blame_accuracy.py [--count N] [--seed S] [--only N,N…] [--keep DIR] [--again DIR]
                                        [--torchrun N]

``--only`` runs single cases again; ``--keep`` leaves every run in DIR, and ``--again`` has the histories in
such a folder judged once more without running anything; ``--torchrun`` is the number of runs that the real
torchrun starts. Exits 0 whatever it finds: it is a figure.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import _blame_torchrun
import _blame_truth
from _blame_cases import BARE, Case, Programs, draw, scenario, write_profiles
from _blame_programs import WORKLOADS, Program, program_of, undisturbed, worlds
from _blame_table import Scored, flaw, summary, table
from _figures import heading, note

from chaoskit import codec, engine, history, rundir
from chaoskit.history import Held, History, Injected
from chaoskit.judge import blame
from chaoskit.model import Blame, Outcome, Scenario, Status, Verdict
from chaoskit.request import ArmId, RunRequest, Silent

COUNT, SEED, UNDER_TORCHRUN = 300, 1, 4
ARM = "control"


class Progress(Silent):
    """Says on stderr how far it is."""

    def __init__(self, what: str) -> None:
        self._what, self._ended, self._all = what, 0, 0

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        self._all = len(arms)

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        self._ended += 1
        if self._ended % 25 == 0 or self._ended == self._all:
            print(f"  … {self._what}: {self._ended} of {self._all}", file=sys.stderr, flush=True)


def main() -> None:
    chosen = _arguments()
    heading(f"accuracy of blame, seed {chosen.seed}")
    run = _kept if chosen.again else _run
    with _folder(chosen.again or chosen.keep) as folder:
        programs = undisturbed_programs(folder / "undisturbed", run)
        numbers = [int(n) for n in chosen.only.split(",")] if chosen.only else range(chosen.count)
        cases = [draw(chosen.seed, number, programs) for number in numbers]
        write_profiles(folder)
        scored = run_cases(cases, programs, folder, chosen.seed, run)
        for line in (*table(scored), "", *(f"  {line}" for line in summary(scored))):
            print(line, flush=True)
        _print_apart(scored)
        _print_flaws(scored, chosen.seed)
        if chosen.torchrun and not chosen.again:
            cross_check(cases, folder, chosen.torchrun, chosen.seed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="accuracy of blame")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--torchrun", type=int, default=UNDER_TORCHRUN)
    return parser.parse_args()


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="chaoskit-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- running


@dataclass(frozen=True, slots=True)
class Ran:
    """What one arm left: its last verdict, its folder, and its history as read from there."""

    verdict: Verdict
    folder: Path
    told: History | None

    @classmethod
    def of(cls, verdict: Verdict, folder: Path) -> Ran:
        kept = folder / "history.jsonl"
        return cls(verdict, folder, history.read(kept)[0] if kept.is_file() else None)


Running = Callable[[tuple[Scenario, ...], Path, str, int], Iterator[Ran]]


def undisturbed_programs(runs: Path, run: Running) -> Programs:
    """Run each program with each number of ranks once, without a fault, and return what it does."""
    wanted = {f"{w}-{n}": (w, n) for w in WORKLOADS for n in worlds(w)}
    scenarios = tuple(undisturbed(name, *what) for name, what in wanted.items())
    found: dict[tuple[str, int], Program] = {}
    for ran in run(scenarios, runs, "undisturbed", 1):
        workload, ranks = wanted[ran.verdict.scenario]
        if ran.verdict.outcome is not Outcome.COMPLETED or ran.told is None:
            raise SystemExit(f"{ran.verdict.scenario} without a fault: {ran.verdict.reason}")
        found[workload, ranks] = program_of(workload, ranks, ran.told)
    return found


def run_cases(
    cases: Sequence[Case], programs: Programs, folder: Path, seed: int, run: Running
) -> list[Scored]:
    by_name = {case.name: case for case in cases}
    scenarios = tuple(scenario(case, folder) for case in cases)
    scored = []
    for ran in run(scenarios, folder / "runs", "cases", seed):
        case = by_name[ran.verdict.scenario]
        scored.append(score(case, programs[case.workload, case.ranks], ran))
    return sorted(scored, key=lambda s: s.case.number)


def _run(
    scenarios: tuple[Scenario, ...], runs: Path, what: str, seed: int, torchrun: bool = False
) -> Iterator[Ran]:
    request = RunRequest(
        scenarios, arms=(ARM,), seed=seed, runs_dir=runs, command="benchmark",
        launcher="torchrun" if torchrun else None, jobs=1 if torchrun else None,
    )  # fmt: skip
    result = engine.run(request, Progress(what))
    if result.interrupted:
        raise SystemExit(130)
    for v in {v.scenario: v for v in result.verdicts}.values():
        arm = ArmId(v.scenario, v.arm, v.backend, v.repeat, v.attempt)
        yield Ran.of(v, rundir.arm_dir(result.run_dir, arm))


def _kept(scenarios: tuple[Scenario, ...], runs: Path, what: str, seed: int) -> Iterator[Ran]:
    """Yield what an earlier run left of those arms (the newest, where there are several)."""
    for one in scenarios:
        folders = sorted(runs.glob(f"*/{one.name}/{ARM}*"))
        if folders and (folders[-1] / "verdict.json").is_file():
            text = (folders[-1] / "verdict.json").read_text(encoding="utf-8")
            yield Ran.of(codec.load_verdict(text), folders[-1])


def score(case: Case, program: Program, ran: Ran) -> Scored:
    """Ask blame who did it; it gets the blind history and nothing else."""
    truth = _blame_truth.of(case, program)
    if ran.told is None:
        return Scored(case, truth, Blame(), apart=ran.verdict.reason)
    blind = ran.told.blind()
    assert not any(isinstance(e, (Injected, Held)) for e in blind.events)
    exits, started_s = _blame_torchrun.exits(ran.told)
    return Scored(
        case, truth, blame.find(blind), _apart(ran.verdict),
        *(_blame_torchrun.named(exits, started_s, record) for record in (False, True)),
    )  # fmt: skip


def _apart(verdict: Verdict) -> str:
    """Why this run says nothing about blame, or an empty text."""
    if verdict.outcome is Outcome.NOT_INJECTED:
        return f"not injected: {verdict.reason}"
    if verdict.outcome is Outcome.COMPLETED:
        return "completed: the fault did no harm that shows, and nobody asks who did it"
    if verdict.status in (Status.INCONCLUSIVE, Status.SKIPPED):
        return f"{verdict.status}: {verdict.reason}"
    return ""


# ---------------------------------------------------------------- the real torchrun


def cross_check(cases: Sequence[Case], folder: Path, count: int, seed: int) -> None:
    """Start some cases by the real torchrun, and compare its summary with the rule on the same ends."""
    agreed, lines = 0, []
    chosen = [c for c in cases if c.workload == "script" and c.profile == BARE and _ends(c)]
    for at, case in enumerate(chosen[:count]):
        record = at % 2 == 1
        one = scenario(case, folder)
        program = replace(one.workload, args=("--record",) if record else ())
        one = replace(one, workload=program)
        for ran in _run((one,), folder / "torchrun", "torchrun", seed, torchrun=True):
            said = ran.folder / "launcher" / "stderr.log"
            if ran.told is None or not said.is_file():
                continue
            real = _blame_torchrun.printed(said.read_text(encoding="utf-8", errors="replace"))
            rule = _blame_torchrun.named(*_blame_torchrun.exits(ran.told), record)
            agreed += rule == real
            what = f"case {case.number}{' with @record' if record else ''}"
            lines.append(f"{what}: it names {_rank(real)}, the rule {_rank(rule)}: {case}")
    note(f"the rule against the real torchrun: {agreed} of {len(lines)} agree")
    for line in lines:
        note(f"  {line}")


def _rank(rank: int | None) -> str:
    return "nobody" if rank is None else f"rank {rank}"


def _ends(case: Case) -> bool:
    return case.kind in ("kill", "raise", "leave-0", "leave-n", "oom", "reshape")


# ---------------------------------------------------------------- printing


def _print_apart(scored: Sequence[Scored]) -> None:
    apart = [s for s in scored if s.apart]
    note(f"counted apart: {len(apart)} of {len(scored)}")
    for s in apart:
        note(f"  case {s.case.number}: {s.case}: {s.apart[:200]}")


def _print_flaws(scored: Sequence[Scored], seed: int) -> None:
    flawed = [s for s in scored if not s.apart and s.flawed]
    note(f"not right in everything: {len(flawed)} (again: --seed {seed} --only NUMBER --keep DIR)")
    for s in flawed:
        for line in flaw(s):
            note(f"  {line}")


if __name__ == "__main__":
    main()
