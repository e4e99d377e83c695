"""Makes a matrix: what is run, in which order, and what is said of it.

First each program of the user's is run once without any fault. Then there are three kinds of batches of the
engine: every scenario without any guard and under the profile; then each guard alone and the profile without
each, where that can tell something; then what these suggest (the smallest set, what the profile lacks), which
is said only once it was run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import random
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

from chaoskit import admission, private, rundir
from chaoskit.errors import usage
from chaoskit.matrix import asking, columns, keys, looking
from chaoskit.matrix.batch import Bench
from chaoskit.matrix.findings import Findings
from chaoskit.matrix.keeping import Kept
from chaoskit.matrix.request import MatrixObserver, MatrixRequest, Silent
from chaoskit.matrix.table import Table
from chaoskit.matrix.values import Effort, Matrix, Origin
from chaoskit.model import Workload
from chaoskit.plan import launcher_of
from chaoskit.redacting import Redactor
from chaoskit.secret_shapes import HIDDEN

FOLDER = "matrix"
"""The folder, below that of the runs, which holds those of the matrices."""
ARGS_AGAIN = "ARGS: give all arguments of the program again, secrets among them were not kept"


def make(request: MatrixRequest, observer: MatrixObserver | None = None) -> Matrix:
    """Run what is asked and return what was found; where interrupted, what was found so far.

    Main thread only. Finished cells are kept in the folder of the matrix, and are not run again with
    ``request.folder``. Raises InvalidInput for what cannot be run as asked, LaunchFailed where chaoskit's own
    machinery does not start.
    """
    torch = admission.torch_version()
    _refuse_pointless(request)
    given = request.run.seed
    seed = given if given is not None else random.SystemRandom().randrange(1 << 31)
    folder = _folder(request, seed)
    with _sigterm_as_interrupt(), Kept.open(folder) as kept:
        conditions = {**keys.conditions(torch), **looking.conditions(request.run)}
        told = observer or Silent()
        changed = asking.changed(folder, conditions)
        asking.write(folder, _with_seed(request, seed), conditions)
        bench = Bench(request, seed, torch, folder, kept, told)
        table = Table(bench)
        findings = Findings(table)
        try:
            told.opened(folder, seed, kept.damaged, changed)
            looking.look(bench)
            table.survey()
            table.fill()
            findings.look()
        except KeyboardInterrupt:
            bench.interrupted = True
        bench.watch.look()
        return _matrix(request, bench, table, findings)


def _with_seed(request: MatrixRequest, seed: int) -> MatrixRequest:
    return dataclasses.replace(request, run=dataclasses.replace(request.run, seed=seed))


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM ends a matrix as Ctrl-C does, between two runs of the engine too: the reports are written."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _refuse_pointless(request: MatrixRequest) -> None:
    names = [scenario.name for scenario in request.run.scenarios]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise usage(f"two scenarios are called {twice}", "give each a name of its own")
    tested = [columns.tested(s, request.run.profile) for s in request.run.scenarios]
    if tested and not any(columns.parts_of(profile) for profile in tested):
        raise usage(
            f"the profile {tested[0].name} has no guard and no variable: there is nothing to compare",
            "give another --profile",
        )


def _folder(request: MatrixRequest, seed: int) -> Path:
    if request.folder is not None:
        return request.folder.resolve()
    private.folder(request.run.runs_dir)
    return rundir.create(request.run.runs_dir / FOLDER, seed)


def _matrix(request: MatrixRequest, bench: Bench, table: Table, findings: Findings) -> Matrix:
    rows = table.rows()
    found = findings.found(rows)
    names = dict.fromkeys(profile.name for profile in table.profiles.values())
    origin = Origin(
        folder=str(bench.folder),
        profile=", ".join(names),
        backend=", ".join(dict.fromkeys(table.backend(name) for name in table.scenarios)),
        seed=bench.seed,
        torch=bench.torch,
        chaoskit=rundir.version("chaoskit"),
        python=platform.python_version(),
        cores=len(os.sched_getaffinity(0)),
        repeat=request.run.repeat,
        command=request.run.command,
        resume=_resume(request, bench.folder),
        resume_note=ARGS_AGAIN if _lost_arguments(request) else "",
        program="; ".join(_shown(program, request) for program in looking.programs_of(request.run)),
    )
    tally = bench.tally
    effort = Effort(
        round(tally.wall_s, 3),
        round(tally.sum_s, 3),
        tally.run,
        tally.kept,
        bench.kept.damaged,
        bench.kept.unasked,
    )
    return Matrix(
        origin, table.parts(), rows, found.worth, found.smallest, found.gaps, effort, found.notes,
        bench.interrupted, tuple(f"{name}: not kept: {why}" for name, why in sorted(bench.not_kept.items())),
        bench.broken, bench.watch.edited,
    )  # fmt: skip


def _lost_arguments(request: MatrixRequest) -> bool:
    """Return whether secrets among the arguments of the program keep them from being remembered."""
    return any(HIDDEN in word for word in request.behind)


def _resume(request: MatrixRequest, folder: Path) -> str:
    command = shlex.join(["chaoskit", "matrix", "--resume", str(folder)])
    return f"{command} -- ARGS" if _lost_arguments(request) else command


def _shown(program: Workload, request: MatrixRequest) -> str:
    """A program as people know it: its arguments without secrets, and who starts its ranks."""
    redactor = Redactor.of(os.environ, words=program.args)
    first = () if program.kind == "command" else (program.name,)
    launcher = request.run.launcher or launcher_of(program)
    return f"{redactor.command(shlex.join([*first, *program.args]))} (launcher {launcher})"
