"""Runs cells in one run of the engine, side by side; what was finished before is not run again.

The scenario's own control and hardened arm stay in its copy: by the latter's profile the bounds are reckoned.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaoskit import engine, rundir
from chaoskit.agenda import Agenda
from chaoskit.matrix import naming
from chaoskit.matrix.columns import BARE
from chaoskit.matrix.keeping import Kept, Record
from chaoskit.matrix.keys import UNKNOWABLE, key
from chaoskit.matrix.program import Programs
from chaoskit.matrix.request import MatrixObserver, MatrixRequest
from chaoskit.matrix.values import NONE, Broken, Column
from chaoskit.matrix.watching import Watch
from chaoskit.model import Arm, Backend, Culprit, Profile, Scenario, ScenarioResult, Status, Verdict, Workload
from chaoskit.request import ArmId, RunRequest
from chaoskit.scenario import CONTROL, hardened_arm, load_profile
from chaoskit.scenario.survey import Seen

Place = tuple[str, Column]
"""A scenario and a column."""
CHANGED = "files that the arguments of its program name changed while its cells ran"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cell to be run: ``profile`` is what its arm gets."""

    scenario: Scenario
    column: Column
    profile: Profile

    @property
    def place(self) -> Place:
        return self.scenario.name, self.column


@dataclass(slots=True)
class Tally:
    """What the batches so far have cost."""

    wall_s: float = 0.0
    sum_s: float = 0.0
    run: int = 0
    kept: int = 0


@dataclass(slots=True)
class Bench:
    """Where batches are run: the request, the folder, the cells that are kept, and all that came of cells."""

    request: MatrixRequest
    seed: int
    torch: str
    folder: Path
    kept: Kept
    observer: MatrixObserver
    records: dict[Place, tuple[Record, ...]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    seen: Seen = field(default_factory=Seen)
    interrupted: bool = False
    not_kept: dict[str, str] = field(default_factory=dict)
    broken: tuple[Broken, ...] = ()
    same: dict[Place, Place] = field(default_factory=dict)
    """Cells that are run under the very profile of another: that one's result is theirs."""
    watch: Watch = field(init=False)
    _unrunnable: set[str] = field(default_factory=set)
    _programs: Programs = field(default_factory=Programs)

    def __post_init__(self) -> None:
        self.watch = Watch(dict.fromkeys(map(self._program_of, self.request.run.scenarios)))

    def run(self, what: str, wanted: Sequence[Wanted]) -> None:
        """Run ``wanted`` and put what came of them into ``records``. Ends early where interrupted.

        Raises InvalidInput where something cannot be run as asked.
        """
        if not wanted or self.interrupted:
            return
        wanted = self._once(wanted)
        keys = self._keys(wanted)
        missing = [one for one in wanted if not self._take(one, keys)]
        self.tally.kept += len(wanted) - len(missing)
        to_run = sum(one.scenario.name not in self._unrunnable for one in missing)
        self.observer.batch_started(what, to_run, len(wanted) - len(missing))
        if not missing:
            return
        began = time.monotonic()
        collecting = _Collecting(self, keys, missing)
        try:
            result = engine.run(self._asked(missing), collecting, self.seen)
            self.interrupted = result.interrupted
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            wall_s = time.monotonic() - began
            self.tally.wall_s += wall_s
            self.observer.batch_ended(wall_s)
            self.watch.look()
        for one in missing:
            found = collecting.ended.get(one.place, {})
            # A cell that was cut off by the interruption was not run.
            whole = [r for r in found.values() if not (self.interrupted and _undecided([r]))]
            ran = [r for n, r in found.items() if r in whole and (one.place, n) in collecting.begun]
            self.tally.run += len(ran)
            self.tally.sum_s += sum(record.seconds for record in ran)
            cut = self.interrupted and (_undecided(found.values()) or collecting.unsure_of(one.place))
            if len(found) == self.request.run.repeat and not cut:
                self.records[one.place] = tuple(found[n] for n in sorted(found))

    def _once(self, wanted: Sequence[Wanted]) -> list[Wanted]:
        """Return ``wanted`` without the cells that would be the same run as another: of two guards, the
        profile without the one is the other alone. Run twice, they could get opposite marks."""
        alone = {(w.scenario.name, _content(w.profile)): w.place for w in wanted if w.column.form == "alone"}
        for one in wanted:
            twin = alone.get((one.scenario.name, _content(one.profile)))
            if one.column.form == "without" and twin is not None:
                self.same[one.place] = twin
        return [one for one in wanted if one.place not in self.same]

    def _take(self, wanted: Wanted, keys: Mapping[tuple[Place, int], str]) -> bool:
        """Take a cell from those that are kept, if all its repeats are."""
        numbers = range(1, self.request.run.repeat + 1)
        known = [keys.get((wanted.place, n), UNKNOWABLE) for n in numbers]
        found = [self.kept.get(k) if k else None for k in known]
        whole = [record for record in found if record is not None]
        if len(whole) < self.request.run.repeat:
            return False
        self.records[wanted.place] = tuple(whole)
        return True

    def _keys(self, wanted: Sequence[Wanted]) -> dict[tuple[Place, int], str]:
        """The key of each repeat of each cell, from the very plans that the engine will make."""
        columns = {one.column.name: one.column for one in wanted}
        found, programs = {}, Programs()
        self._programs = programs
        asked, seen = self._asked(wanted), self.seen
        for item in Agenda(asked, self.seed, True, seen.surveys, seen.broken).items():
            if item.skip or item.unclear:
                self._unrunnable.add(item.scenario.name)
            for arm, plan in item.plans.items():
                column = columns.get(arm.arm, NONE)
                found[(item.scenario.name, column), arm.repeat] = key(plan, self.torch, programs)
                if why := programs.of(plan.workload).why_not:
                    self.not_kept[item.scenario.name] = why
        return found

    def _program_of(self, scenario: Scenario) -> Workload:
        return self.request.run.program or scenario.workload

    def keep(self, key: str, scenario: Scenario, record: Record) -> None:
        """Keep a repeat of a cell under the key of its batch, where it certainly ran what that stands for."""
        if key == UNKNOWABLE:
            return
        if self._programs.unchanged(self._program_of(scenario)):
            self.kept.put(key, record)
            return
        self.watch.look()
        if self._program_of(scenario).name not in self.watch.edited:  # that is said of the whole
            self.not_kept.setdefault(scenario.name, CHANGED)

    @property
    def asked(self) -> RunRequest:
        """What is asked of every run of the engine."""
        return dataclasses.replace(self.request.run, seed=self.seed, runs_dir=self.folder / "runs")

    def _asked(self, wanted: Sequence[Wanted]) -> RunRequest:
        tested, names = self.request.run.profile, _Names()
        scenarios = []
        for scenario in {one.scenario.name: one.scenario for one in wanted}.values():
            mine = [one for one in wanted if one.scenario.name == scenario.name]
            scenarios.append(_with_arms(scenario, mine, tested, names))
        return dataclasses.replace(
            self.asked,
            scenarios=tuple(scenarios),
            profile=None,  # each arm names its own
            profiles=names.profiles,
            arms=tuple(dict.fromkeys(_arm_name(one.column) for one in wanted)),
        )


def _content(profile: Profile) -> Profile:
    """A profile without what it is called; the order of its guards and variables stays that of their file."""
    return dataclasses.replace(profile, name="", summary="", file="")


class _Names:
    """Gives profiles in memory names of their own: arms name them."""

    def __init__(self) -> None:
        self._by_name: dict[str, Profile] = {}

    def name(self, profile: Profile) -> str:
        for name in _numbered(f"{profile.name} (matrix)"):
            named = dataclasses.replace(profile, name=name, file="")
            if self._by_name.setdefault(name, named) == named:
                return name
        raise AssertionError("there is always another number")

    @property
    def profiles(self) -> tuple[Profile, ...]:
        return tuple(self._by_name.values())


def _numbered(name: str) -> Iterable[str]:
    yield name
    number = 2
    while True:
        yield f"{name} {number}"
        number += 1


def _arm_name(column: Column) -> str:
    return CONTROL if column == NONE else column.name


def _with_arms(
    scenario: Scenario, wanted: Sequence[Wanted], tested: Profile | None, names: _Names
) -> Scenario:
    """The scenario with an arm for each cell. Its hardened arm is never run under that name; it says by which
    profile bounds are reckoned: that under test where that has timeouts, as in a run with --profile."""
    hardened = hardened_arm(scenario)
    assert hardened is not None, "columns.own() has asked"
    if tested is not None and tested.timeouts.collective_s is not None:
        hardened = dataclasses.replace(hardened, profile=names.name(tested))
    arms = [hardened]
    for one in wanted:
        if one.column == NONE:
            control = scenario.arm(CONTROL)
            assert control is not None, "the checks of a file ask for it"
            arms.append(control)
        else:
            arms.append(Arm(one.column.name, names.name(one.profile), hardened.expect))
    return dataclasses.replace(scenario, arms=tuple(arms), file="")  # it is like that file no more


def bare() -> Profile:
    """Return the profile without any guard."""
    return load_profile(BARE)


class _Collecting:
    """The engine's observer: keeps each repeat of a cell as soon as it is certain that it counts."""

    def __init__(self, bench: Bench, keys: Mapping[tuple[Place, int], str], wanted: Sequence[Wanted]) -> None:
        self._bench = bench
        self._keys = keys
        self._columns = {_arm_name(one.column): one.column for one in wanted}
        self._scenarios = {one.scenario.name: one.scenario for one in wanted}
        self._began: dict[ArmId, float] = {}
        self._unsure: dict[tuple[Place, int], Record] = {}
        self._run_dir = Path()
        self.begun: set[tuple[Place, int]] = set()
        self.ended: dict[Place, dict[int, Record]] = {}

    def run_started(self, run_dir: Path, seed: int, arms: tuple[ArmId, ...]) -> None:
        self._run_dir = run_dir

    def arm_started(self, arm: ArmId, limit_s: float) -> None:
        self._began[arm] = time.monotonic()
        self.begun.add(((arm.scenario, self._columns[arm.arm]), arm.repeat))
        self._bench.observer.cell_started(arm, limit_s)

    def arm_ended(self, arm: ArmId, verdict: Verdict) -> None:
        now = time.monotonic()
        took_s = now - self._began.pop(arm, now)
        place, folder = (arm.scenario, self._columns[arm.arm]), rundir.arm_dir(self._run_dir, arm)
        said = naming.said_in(folder / "history.jsonl")
        named = naming.names(_culprits(self._scenarios[arm.scenario], verdict.backend), said)
        shown = folder.relative_to(self._bench.folder.resolve())
        record = Record(verdict, round(took_s, 3), named, str(shown))
        before = self.ended.setdefault(place, {})
        if arm.attempt > 1 and arm.repeat in before:  # the first attempt has cost its time, too
            record = dataclasses.replace(record, seconds=record.seconds + before[arm.repeat].seconds)
        before[arm.repeat] = record
        if arm.attempt == 1 and _may_be_tried_again(verdict):
            self._unsure[place, arm.repeat] = record
        else:
            self._unsure.pop((place, arm.repeat), None)
            self._keep(place, arm.repeat, record)
        self._bench.observer.cell_ended(arm, verdict)

    def scenario_ended(self, result: ScenarioResult) -> None:
        """All of its arms have ended, second attempts too."""
        for place, repeat in [k for k in self._unsure if k[0][0] == result.name]:
            self._keep(place, repeat, self._unsure.pop((place, repeat)))

    def unsure_of(self, place: Place) -> bool:
        """Return whether a repeat of that cell may still have been tried again."""
        return any(open_place == place for open_place, _ in self._unsure)

    def _keep(self, place: Place, repeat: int, record: Record) -> None:
        key = self._keys.get((place, repeat), UNKNOWABLE)
        self._bench.keep(key, self._scenarios[place[0]], record)


def _culprits(scenario: Scenario, backend: Backend) -> tuple[Culprit, ...] | None:
    hardened = hardened_arm(scenario)
    contract = hardened.expect.on(backend) if hardened is not None else None
    return contract.culprits if contract is not None else None


def _may_be_tried_again(verdict: Verdict) -> bool:
    """What was late may have been so by the machine's load; the engine then runs it again, alone."""
    late = verdict.latency_s is not None and verdict.bound_s is not None
    return late and (verdict.latency_s or 0.0) > (verdict.bound_s or 0.0)


def _undecided(records: Iterable[Record]) -> bool:
    return any(r.verdict.status not in (Status.PASS, Status.FAIL, Status.SKIPPED) for r in records)


def named_rightly(scenario: Scenario, verdict: Verdict) -> bool | None:
    """Return whether the verdict names exactly whom the contract names; None where that names nobody."""
    wanted = _culprits(scenario, verdict.backend)
    if not wanted or verdict.status in (Status.SKIPPED, Status.INCONCLUSIVE):
        return None
    return set(verdict.culprits) == set(wanted) and not verdict.ambiguous
