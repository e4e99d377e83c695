"""The HTML report of a large run: time, memory and size; and how long a browser takes to show it.

    python benchmarks/report_time.py [RANKS] [OPERATIONS] [KEEP]

A made-up run of 64 ranks with 10,000 operations each: 640,000, twice as many as a report can hold one by one.
Reading its files is part of the time, importing what that needs is not. KEEP: a file to keep the page in.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import _report_run
from _figures import Budget, end, figure, heading, note
from browser.chromium import Chromium, browser, found

from chaoskit import arm_record, codec
from chaoskit.model import Result, ScenarioResult, Verdict
from chaoskit.reports import html
from chaoskit.reports.judged import Judged

SECONDS, MEMORY_MIB, PAGE_MIB = 3.0, 300.0, 5.0
ROUNDS = 3
ZOOM = """
(() => {
  const begun = performance.now();
  document.querySelector(".tl-zoom button + button").click();
  const seconds = () => (performance.now() - begun) / 1000;
  return new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(seconds()))));
})()
"""


def in_child(work: Callable[[], float]) -> dict[str, float]:
    """Run ``work`` in a process of its own and return the figures it gives, and its peak memory."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        found = {
            "seconds": work(),
            "cpu": time.process_time(),
            "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as said:
        figures: dict[str, float] = json.loads(said.read())
    os.wait()
    return figures


def report(run: Path, folder: Path, verdict: Verdict, page: Path) -> float:
    """Write the page; return the seconds from the files to the page."""
    result = ScenarioResult(verdict.scenario, "gloo", Result.NOT_HELD, verdict.reason, (verdict,))
    judged = Judged(run, 7, "2.13.0", (result,), 60.0)
    begun = time.perf_counter()
    with page.open("w", encoding="utf-8") as stream:
        html.write(judged, (arm_record.read(folder, v) for v in judged.verdicts), stream, {"torch": "2.13.0"})
    return time.perf_counter() - begun


def _made(run: Path, ranks: int, operations: int) -> float:
    _report_run.write(run, ranks, operations)
    return 0.0


def command(run: Path, page: Path) -> dict[str, float]:
    """Run ``chaoskit report --html``, which judges the run again before it tells of it."""
    begun = time.perf_counter()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "chaoskit", "report", str(run), "--html", str(page)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, _, used = os.wait4(pid, 0)
    return {"seconds": time.perf_counter() - begun, "mib": used.ru_maxrss / 1024}


def _drawn(one: Chromium, page: Path) -> float:
    begun = time.perf_counter()
    one.open(page)
    one.evaluate("document.querySelector('figure.timeline').scrollIntoView()")
    one.until("!!document.querySelector('figure.timeline.drawn')")
    return time.perf_counter() - begun


def main() -> None:
    asked = [int(a) for a in sys.argv[1:3]]
    ranks, operations = asked if len(asked) == 2 else (64, 10_000)
    heading(f"The HTML report of {ranks} ranks with {operations} operations each")
    with tempfile.TemporaryDirectory() as temporary:
        run, page = Path(temporary) / "run", Path(temporary) / "report.html"
        in_child(lambda: _made(run, ranks, operations))
        folder = run / _report_run.SCENARIO / _report_run.ARM
        verdict = codec.load_verdict((folder / "verdict.json").read_text())
        figures = [in_child(lambda: report(run, folder, verdict, page)) for _ in range(ROUNDS)]
        kept = [figure("files to page", [f["seconds"] for f in figures], Budget(SECONDS, at=50))]
        note(f"CPU time of that: {min(f['cpu'] for f in figures):.2f} s at best")
        memory, size = max(f["mib"] for f in figures), page.stat().st_size / 2**20
        note(f"peak memory {memory:.0f} MiB of {MEMORY_MIB:.0f} MiB")
        history = (folder / "history.jsonl").stat().st_size / 2**20
        note(f"history {history:.1f} MiB, page {size:.2f} of {PAGE_MIB:g} MiB")
        kept += [memory <= MEMORY_MIB, size <= PAGE_MIB]
        whole = [command(run, page)]
        figure("chaoskit report --html, judging included", [f["seconds"] for f in whole])
        note(f"peak memory of that {max(f['mib'] for f in whole):.0f} MiB")
        if found() is None:
            note("no browser here: how long it takes to load was not measured")
        else:
            with browser(Path(temporary) / "profile") as one:
                figure("page loaded and drawn in a browser", [_drawn(one, page) for _ in range(ROUNDS)])
                figure("zoomed by one step, drawn anew", [float(one.evaluate(ZOOM)) for _ in range(10)])
        if len(sys.argv) > 3:
            shutil.copy(page, sys.argv[3])
    end(kept)


if __name__ == "__main__":
    main()
