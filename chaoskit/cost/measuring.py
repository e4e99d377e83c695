"""Measures: starts the ranks of both sides, times blocks of each in random order, and stops when the interval
is narrow enough or the time is up.

One comparison is many *launches* (starts of ranks), each of many *rounds* (a block of either side, one after
the other). This module decides nothing about what a difference means.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chaoskit import admission, capabilities, rundir
from chaoskit.agenda import plan_to_watch
from chaoskit.cost import intervals, ranks
from chaoskit.cost.bandwidth import bus_bytes_s
from chaoskit.cost.intervals import Round
from chaoskit.cost.request import CostObserver, CostRequest
from chaoskit.cost.values import Case, Comparison, CostReport, Estimate, Scope, Treatment
from chaoskit.errors import LaunchFailed
from chaoskit.launchers.forkserver import PRELOAD, ServerPool
from chaoskit.model import Plan, Workload
from chaoskit.plan import startup_env
from chaoskit.redacting import Redactor
from chaoskit.request import WatchRequest
from chaoskit.timing.messages import NOT_APPLICABLE, Block, Prepare, Prepared

PRELOADED = (*PRELOAD, "chaoskit.timing.*")
BLOCK_S = 0.04
"""How long a block takes: long against what it costs to ask for one, short against what else happens on a
machine."""
LAUNCH_S = 1.5
"""How long one start of ranks is timed, at least ..."""
START_SHARE = 3.0
"""... and at least so many times what the start itself took."""
ROUNDS_MIN = 5
CALLS_MIN = 8
"""Of long steps: what comes every other step is then in each block alike."""
GROWTH = 4
WARM_ROUNDS = 2
LEADS = (1, 2)
"""Steps before a block that are not timed, drawn for each: see chaoskit.timing.messages.Block."""
LAUNCHES_MIN = 5
"""So many starts are timed, also beyond the budget ..."""
OVER_BUDGET_MAX = 3.0
"""... but not for more than so many times as long."""
GROUP_VARIABLES = frozenset(
    {
        "TORCH_GLOO_LAZY_INIT", "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING",
    }
)  # fmt: skip
"""Read anew by the constructor of each process group, so that both sides can be timed in the same ranks:
ProcessGroupGloo.cpp and ProcessGroupNCCL.cpp of torch 2.13. Others are kept from their first reading on."""


def measure(request: CostRequest, observer: CostObserver | None = None) -> CostReport:
    """Measure every treatment in every case. Ctrl-C and SIGTERM end it; what has been measured is returned.

    Raises InvalidInput for what cannot be run as asked. Must be called from the main thread.
    """
    return _Measuring(request, observer or _Silent()).run()


class _Silent:
    def started(self, run_dir: Path, seed: int, comparisons: int) -> None: ...
    def comparison_started(self, treatment: str, case: Case) -> None: ...
    def timed(self, elapsed_s: float, so_far: Estimate | None) -> None: ...
    def comparison_ended(self, comparison: Comparison) -> None: ...


class _Measuring:
    def __init__(self, request: CostRequest, observer: CostObserver) -> None:
        self.request = request
        self.observer = observer
        self.seed = request.seed if request.seed is not None else random.SystemRandom().randrange(1 << 31)
        self.torch = admission.torch_version()
        self.isolated = capabilities.find("network-namespaces").available
        self.random = random.Random(self.seed)
        self.batch = 0  # of the DDP model, found once
        self.interrupted = False
        self.number = 0  # of the comparison; its folder

    def run(self) -> CostReport:
        request = self.request
        run_dir = rundir.create(request.runs_dir, self.seed)
        record = rundir.RunRecord(
            request.command or rundir.command_line(),
            self.seed,
            self.torch,
            time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )
        redactor = Redactor.of(os.environ)
        rundir.write_record(run_dir, record, redactor)
        begun = time.monotonic()
        done: list[Comparison] = []
        self.observer.started(run_dir, self.seed, len(request.cases) * len(request.treatments))
        try:
            with _sigterm_as_sigint(), ServerPool(PRELOADED) as pool:
                for case, treatment in itertools.product(request.cases, request.treatments):
                    done.append(self._compare(pool, run_dir, case, treatment))
                    if self.interrupted:
                        break
        except KeyboardInterrupt:
            self.interrupted = True
        wall_s = time.monotonic() - begun
        last = dataclasses.replace(record, interrupted=self.interrupted, wall_s=round(wall_s, 3))
        with contextlib.suppress(OSError):  # a full disk: the figures are worth more
            rundir.write_record(run_dir, last, redactor)
        return CostReport(
            request.backend, request.ranks, self.torch, machine(), self.seed, tuple(done),
            run_dir=str(run_dir), wall_s=wall_s, interrupted=self.interrupted,
        )  # fmt: skip

    def _compare(self, pool: ServerPool, run_dir: Path, case: Case, treatment: Treatment) -> Comparison:
        self.observer.comparison_started(treatment.name, case)
        self.number += 1
        one = _One(self, pool, run_dir / "cost" / str(self.number), case, treatment)
        found = one.compare()
        self.batch = one.batch
        self.interrupted = one.interrupted
        self.observer.comparison_ended(found)
        return found


class _One:
    """One comparison."""

    def __init__(
        self, whole: _Measuring, pool: ServerPool, folder: Path, case: Case, treatment: Treatment
    ) -> None:
        self.whole = whole
        self.pool = pool
        self.folder = folder
        self.case = case
        self.treatment = treatment
        self.against = whole.request.against
        self.scope = scope_of(treatment, self.against, case)
        self.own_servers = startup_env(treatment.profile) != startup_env(self.against.profile)
        self.batch = whole.batch
        self.launches: list[list[Round]] = []
        self.proofs: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self.interrupted = False

    def compare(self) -> Comparison:
        problem = ""
        try:
            self._load()
            begun = time.monotonic()
            while not self._enough(time.monotonic() - begun):
                with contextlib.suppress(ranks.ProgramEnded):  # what it has made of steps counts
                    self._launch()
        except (
            ranks.SetFailed,
            LaunchFailed,
        ) as failed:  # a setting may keep even an interpreter from starting
            problem = str(failed)
        except KeyboardInterrupt:
            self.interrupted = True
            problem = "" if any(self.launches) else "interrupted before anything was timed"
        rounds = [launch for launch in self.launches if launch]
        if not rounds:
            problem = problem or "the program ended before a pair of blocks was timed: let it make more steps"
        estimate = intervals.estimate(rounds, self.whole.seed) if rounds and not problem else None
        request = self.whole.request
        return Comparison(
            self.treatment.name, self.treatment.says, self.against.name, self.case, self.scope, estimate,
            problem, self.proofs, bus_bytes_s(self.case, request.ranks, estimate),
        )  # fmt: skip

    def _load(self) -> None:
        """Have torch loaded before the clock starts, where all starts come from one server."""
        if self.own_servers:
            return
        for treatment in (self.against, self.treatment):
            self.pool.server(startup_env(treatment.profile))
        for treatment in (self.against, self.treatment):
            self.pool.server(startup_env(treatment.profile)).wait_ready()

    def _enough(self, elapsed_s: float) -> bool:
        rounds = [launch for launch in self.launches if launch]
        so_far = intervals.estimate(rounds, self.whole.seed) if rounds else None
        self.whole.observer.timed(elapsed_s, so_far)
        budget_s = self.whole.request.budget_s
        if len(self.launches) < LAUNCHES_MIN:
            return elapsed_s >= OVER_BUDGET_MAX * budget_s or (len(self.launches) > 1 and not rounds)
        return elapsed_s >= budget_s or (so_far is not None and so_far.width <= self.whole.request.width)

    # ------------------------------------------------------------ one start of ranks

    def _launch(self) -> None:
        """Start the ranks of both sides, time rounds, end them. Raises SetFailed."""
        start = time.monotonic()
        rounds: list[Round] = []
        self.launches.append(rounds)
        with ExitStack() as stack:
            # In random order: on some machines what starts second is slower by a tenth, whatever it is.
            order = self.whole.random.sample(self._sets(), len(self._sets()))
            pool = self._servers(stack, order)
            started = {number: stack.enter_context(self._started(number, pool)) for number in order}
            sides = [started[number] for number in self._sets()]
            prepared = [side.prepare(asked) for side, asked in zip(sides, self._asked(), strict=True)]
            self._prove(prepared)
            self.batch = prepared[0].batch
            began = time.monotonic()
            longest_s = self.whole.request.budget_s / LAUNCHES_MIN
            launch_s = min(longest_s, max(LAUNCH_S, START_SHARE * (began - start)))
            timer = _Timer(sides, self.scope, self.whole.random, launch_s)
            for taken in timer.rounds():
                rounds.append(taken)
                if time.monotonic() >= began + launch_s and len(rounds) >= ROUNDS_MIN:
                    return

    def _sets(self) -> tuple[int, ...]:
        return (0,) if self.scope == "ranks" else (0, 1)

    def _servers(self, stack: ExitStack, order: list[int]) -> ServerPool:
        """Return where the ranks of a start come from.

        What is read when torch is imported needs a server for each side, and one can be slower than the other
        for all that is forked from it: so each start has new ones.
        """
        if not self.own_servers:
            return self.pool
        pool = stack.enter_context(ServerPool(PRELOADED))
        for number in order:
            treatment = (self.against, self.treatment)[number]
            pool.server(startup_env(treatment.profile))  # both load at the same time
        return pool

    @contextmanager
    def _started(self, side: int, pool: ServerPool) -> Iterator[ranks.RankSet]:
        treatment = (self.against, self.treatment)[side]
        plan = self._plan(treatment)
        server = pool.server(startup_env(plan.profile))
        name = f"{len(self.launches)}-{('plain', 'with')[side]}"
        with ranks.started(plan, server, self.folder / name) as found:
            yield found

    def _plan(self, treatment: Treatment) -> Plan:
        request = self.whole.request
        profile = treatment.profile
        if self.scope == "ranks":  # what differs is set while a group forms
            profile = dataclasses.replace(self.against.profile, env=_without(self.against.profile.env))
        program = request.program or Workload("ddp-train")
        port = None if self.whole.isolated else admission.free_port()
        asked = WatchRequest(program, request.ranks, profile=profile, backend=request.backend)
        return plan_to_watch(asked, self.whole.random.randrange(1 << 31), port)

    def _asked(self) -> list[Prepare]:
        request, model = self.whole.request, self.whole.request.model
        windowed = "serialised-waits" in (self.treatment.toggle, self.against.toggle)
        common = Prepare(
            self.case.kind, self.case.op, self.case.nbytes, every=self.treatment.every or self.against.every,
            layers=model.layers, bucket_bytes=model.bucket_bytes, compute_ratio=model.compute_ratio,
            batch=self.batch, backend=request.backend, windowed=windowed,
        )  # fmt: skip
        both = (self.against, self.treatment)
        if self.scope == "ranks":
            toggles = tuple(one.toggle for one in both)
            variables = tuple(_group_variables(one.profile.env) for one in both)
            return [dataclasses.replace(common, toggles=toggles, variables=variables)]
        return [dataclasses.replace(common, toggles=(one.toggle,)) for one in both]

    def _prove(self, prepared: Sequence[Prepared]) -> None:
        """Keep what is in effect. Raises SetFailed where something is not: then there is nothing to time."""
        self.proofs = of_either_side(prepared)
        missing = [said for answer in prepared for said in answer.missing]
        if not missing and self.scope == "process":
            missing = without_effect(self.treatment, self.against, self.proofs[1])
            missing += without_effect(self.against, self.treatment, self.proofs[0])
        if missing:
            raise ranks.SetFailed(f"not in effect: {'; '.join(missing)}")


class _Timer:
    """Times rounds of the two sides, in one set of ranks or in two, for ``launch_s`` or so."""

    def __init__(
        self, sides: list[ranks.RankSet], scope: Scope, order: random.Random, launch_s: float
    ) -> None:
        self._sides = sides
        self._scope = scope
        self._order = order
        self._launch_s = launch_s
        self._calls = 1
        self._per_call_s = 0.0

    def rounds(self) -> Iterator[Round]:
        """Yield rounds without end, after some that warm up and tell how many calls make a block."""
        for warmed in itertools.count(1):
            taken = self._round()
            self._per_call_s = max(taken.plain_s, taken.with_s)
            calls = block_calls(taken.plain_s, self._launch_s)
            if warmed >= WARM_ROUNDS and calls <= self._calls:
                break
            self._calls = min(calls, self._calls * GROWTH)  # a single call may have been much too short
        while True:
            yield self._round()

    def _round(self) -> Round:
        seconds = [0.0, 0.0]
        for side in self._order.sample((0, 1), 2):
            seconds[side] = self._time(side)
        return Round(seconds[0], seconds[1], self._calls)

    def _time(self, side: int) -> float:
        block = Block(side if self._scope == "ranks" else 0, self._calls, self._order.choice(LEADS))
        ranks_of_side = self._sides[0 if self._scope == "ranks" else side]
        return ranks_of_side.time(block, self._per_call_s * self._calls)


def block_calls(call_s: float, launch_s: float) -> int:
    """Return how many calls make a block: BLOCK_S of them, and CALLS_MIN where the time allows it."""
    fitting = int(launch_s / (2 * ROUNDS_MIN * call_s))
    return max(1, round(BLOCK_S / call_s), min(CALLS_MIN, fitting))


def scope_of(treatment: Treatment, against: Treatment, case: Case) -> Scope:
    """Return whether both can be timed in the same ranks: they differ in what a process group is given, or in
    what the timed program does."""
    if case.kind == "program":
        return "process"
    same_guards = treatment.profile.guards == against.profile.guards
    same_process = _without(treatment.profile.env) == _without(against.profile.env)
    return "ranks" if same_guards and same_process else "process"


def without_effect(one: Treatment, other: Treatment, proofs: tuple[str, ...]) -> list[str]:
    """Return what the guards of ``one`` say of themselves where guards are all that it has beside ``other``,
    and none of them has an effect here."""
    if one.profile.env != other.profile.env or one.toggle != other.toggle:
        return []
    added = [guard.name for guard in one.profile.guards if guard not in other.profile.guards]
    said = [f"guard {name}: {NOT_APPLICABLE}" for name in added]
    return said if said and set(said) <= set(proofs) else []


def of_either_side(prepared: Sequence[Prepared]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is in effect on either side, plain first, from one answer for both or from one of each."""
    plain, treated = [(*answer.proofs, *own) for answer in prepared for own in answer.sides]
    return plain, treated


def _group_variables(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in env if name in GROUP_VARIABLES)


def _without(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in env if name not in GROUP_VARIABLES)


def machine() -> str:
    """Return what a figure was measured on, in a line."""
    model = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {model or os.uname().machine}, {memory_gib:.0f} GiB, load {load:.1f}"


@contextmanager
def _sigterm_as_sigint() -> Iterator[None]:
    """SIGTERM ends a measurement as Ctrl-C does, also where the caller ignored SIGINT."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
