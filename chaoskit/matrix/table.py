"""The rows under way: what is run of each scenario, and its cells from what came of that."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Sequence

from chaoskit.matrix import columns, earning, pruning
from chaoskit.matrix.batch import Bench, Wanted, bare, named_rightly
from chaoskit.matrix.keeping import Record
from chaoskit.matrix.values import NONE, PROFILE, Cell, Column, Mark, Row
from chaoskit.model import Backend, Outcome, Profile
from chaoskit.plan import launcher_of
from chaoskit.rerun import named
from chaoskit.scenario import hardened_arm


class Table:
    """Asks the bench for cells, and tells what is known of them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.scenarios = {scenario.name: scenario for scenario in bench.request.run.scenarios}
        self.profiles = {
            name: columns.tested(s, bench.request.run.profile) for name, s in self.scenarios.items()
        }
        self._left: dict[tuple[str, Column], pruning.Left] = {}

    # ------------------------------------------------------------ running

    def survey(self) -> None:
        """Run every scenario without any guard, and under the profile."""
        places = [(name, column) for name in self.scenarios for column in (NONE, PROFILE)]
        self.bench.run("no guard, and the profile", [self.wanted(*place) for place in places])

    def fill(self) -> None:
        """Run each part alone and the profile without each, where that can tell something."""
        wanted = []
        for name in self.scenarios:
            base, profile, idle = self.cell(name, NONE), self.cell(name, PROFILE), self.idle(name)
            healthy = self.scenarios[name].healthy
            for column in self.columns_of(name):
                left = pruning.left_out(column, healthy, base.mark, profile.mark, idle)
                if left is not None and left[0] is Mark.SKIPPED:
                    left = Mark.SKIPPED, (base if base.mark is Mark.SKIPPED else profile).reason
                left = left or self._not_asked(column)
                if left is not None:
                    self._left[name, column] = left
                else:
                    wanted.append(self.wanted(name, column))
        self.bench.run("each guard alone, and the profile without it", wanted)
        alone = [Column("alone", part) for part in self.parts()]
        self.look_again([(name, column) for name in self.scenarios for column in alone])

    def look_again(self, places: Iterable[tuple[str, Column]]) -> None:
        """Run what is held once more where nothing shows that the part had a hand in it: it may be luck."""
        doubted = [
            self.wanted(name, _again(column))
            for name, column in places
            if self.bench.records.get((name, column)) and self.cell(name, column).mark is Mark.HELD
            if not all(
                earning.left_a_trace(column.part, record.verdict)
                for record in self.bench.records[name, column]
            )
        ]
        self.bench.run("what is held without a trace of its guard, once more", doubted)

    def wanted(self, name: str, column: Column, parts: Sequence[str] = ()) -> Wanted:
        """Return a cell to be run; ``parts`` are those of a set."""
        if column.form == "again":
            form, _, part = column.part.partition("-")
            first = Column("plus" if form == "plus" else "alone", part)
            return dataclasses.replace(self.wanted(name, first), column=column)
        scenario, profile = self.scenarios[name], self.profiles[name]
        made: Profile
        match column.form:
            case "none":
                made = bare()
            case "alone":
                made = columns.alone(profile, column.part)
            case "without":
                made = columns.without(profile, column.part)
            case "set":
                made = columns.subset(profile, parts, int(column.part))
            case "plus":
                made = columns.plus(profile, columns.own(scenario), column.part)
            case "own":
                made = columns.own(scenario)
            case _:
                made = profile
        return Wanted(scenario, column, made)

    def _not_asked(self, column: Column) -> pruning.Left | None:
        asked = self.bench.request.columns
        if not asked or column in asked or Column(column.form) in asked:
            return None
        return Mark.NOT_RUN, "not run: not among the columns that were asked for"

    # ------------------------------------------------------------ telling

    def columns_of(self, name: str) -> list[Column]:
        """The columns of single parts."""
        parts = columns.parts_of(self.profiles[name])
        return [Column(form, part) for form in ("alone", "without") for part in parts]

    def parts(self) -> tuple[str, ...]:
        """All parts of all profiles under test, in their order."""
        return tuple(
            dict.fromkeys(p for profile in self.profiles.values() for p in columns.parts_of(profile))
        )

    def backend(self, name: str) -> Backend:
        return self.bench.request.run.backend or self.scenarios[name].topology.backend

    def idle(self, name: str) -> frozenset[str]:
        """The parts without effect here: by what is known of them, and as the job under the profile said."""
        known = self.inapplicable(name, self.profiles[name])
        records = self.bench.records.get((name, PROFILE), ())
        said = [set(r.verdict.not_applicable) for r in records]
        return known | (frozenset.intersection(*map(frozenset, said)) if said else frozenset())

    def inapplicable(self, name: str, profile: Profile) -> frozenset[str]:
        """The parts of ``profile`` without effect here, by what is known of them."""
        run, scenario = self.bench.request.run, self.scenarios[name]
        launcher = run.launcher or launcher_of(run.program or scenario.workload)
        return pruning.inapplicable(scenario, self.backend(name), profile, launcher)

    def promise(self, name: str) -> earning.Promise:
        scenario, backend = self.scenarios[name], self.backend(name)
        arm = hardened_arm(scenario)
        contract = arm.expect.on(backend) if arm is not None else None
        completes = contract is not None and contract.outcome is Outcome.COMPLETED
        return earning.Promise(name, backend, scenario.healthy, completes)

    def cell(self, name: str, column: Column) -> Cell:
        """Return what is known of a cell now."""
        _, run_as = self.bench.same.get((name, column), (name, column))
        records = self.bench.records.get((name, run_as), ())
        if records:
            records = (*records, *self.bench.records.get((name, _again(run_as)), ()))
        if not records:
            mark, reason = self._left.get((name, column), (Mark.NOT_RUN, "not run"))
            return Cell(column, mark, reason)
        verdicts = [record.verdict for record in records]
        controls = [record.verdict for record in self.bench.records.get((name, NONE), ())]
        if column == NONE:
            mark, reason = earning.without_guard(self.promise(name), verdicts)
        elif column.part and column.form != "set" and column.part in self._idle_by_itself(name, column):
            mark, reason = Mark.NOT_APPLICABLE, pruning.NO_EFFECT
        else:
            mark, reason = earning.earned(self.promise(name), controls, verdicts)
        return self._told(name, column, records, mark, reason)

    def _idle_by_itself(self, name: str, column: Column) -> frozenset[str]:
        """The parts of which the cell's own job said that they have no effect."""
        if column.form not in ("alone", "plus"):
            return frozenset()
        said = [frozenset(r.verdict.not_applicable) for r in self.bench.records[name, column]]
        return frozenset.intersection(*said)

    def _told(self, name: str, column: Column, records: Sequence[Record], mark: Mark, reason: str) -> Cell:
        last, scenario = records[-1], self.scenarios[name]
        verdicts = [record.verdict for record in records]
        latencies = [v.latency_s for v in verdicts]
        return Cell(
            column, mark, reason,
            outcome=last.verdict.outcome,
            latency_s=None if None in latencies else max(t for t in latencies if t is not None),
            bound_s=last.verdict.bound_s,
            ended=earning.ended_in_time(verdicts),
            culprits=tuple(map(str, last.verdict.culprits)),
            named=_all(named_rightly(scenario, v) for v in verdicts),
            named_by_job=_all(record.named_by_job for record in records),
            ended_by=last.verdict.ended_by,
            repeats=len(records),
            seconds=sum(record.seconds for record in records),
            folder=last.folder,
            rerun=self._rerun(name, column, last.verdict.rerun),
        )  # fmt: skip

    def _rerun(self, name: str, column: Column, alone: str) -> str:
        """The command that runs a cell again just so, with what it is compared to; ``alone`` does without."""
        scenario = named(self.scenarios[name])
        if column.form in ("set", "plus", "own") or not scenario:
            return alone
        words = [*self.bench.request.again, scenario, "--seed", str(self.bench.seed)]
        words += ["--column", column.name] if column.part else ["--column", NONE.name]
        return shlex.join([*words, *self.bench.request.behind])

    def row(self, name: str) -> Row:
        scenario = self.scenarios[name]
        cells = [self.cell(name, c) for c in (NONE, PROFILE, *self.columns_of(name))]
        extra = sorted(c for n, c in self.bench.records if n == name and c.form in ("set", "plus", "own"))
        cells += [self.cell(name, column) for column in extra]
        return Row(
            name, scenario.family, scenario.summary, scenario.healthy, self.backend(name),
            self.profiles[name].name, tuple(cells),
        )  # fmt: skip

    def rows(self) -> tuple[Row, ...]:
        return tuple(map(self.row, self.scenarios))


def _again(column: Column) -> Column:
    return Column("again", column.name)


def _all(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    if not known or None in known:
        return None
    return all(known)
