"""Reads what the report on a watched program shows of its arm's files: its name, what it printed last.

The files hold what a program printed: any bytes, any length. What cannot be read is left out; no report
fails for want of it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from chaoskit import codec, rundir
from chaoskit.errors import InvalidInput
from chaoskit.model import Status, Verdict
from chaoskit.reports.judged import Judged
from chaoskit.reports.watched import Excerpt, Watched
from chaoskit.request import ArmId

LINES_MAX = 20
"""Lines of one rank that the report shows."""
EXCERPTS_MAX = 2
_UNKNOWN = "the program"
_READ_BYTES = 16 * 1024
_COLOUR = re.compile(rb"\x1b\[[0-9;]{0,40}[mK]")
"""Colours and the clearing of a line: harmless, and unreadable when they are written as escapes."""


def watched(judged: Judged, program: str = "") -> Watched:
    """Return what there is beside the verdict on a watched program. ``program`` is its name, where known."""
    verdict = next(iter(reversed(judged.verdicts)), None)
    folder = None if verdict is None else _arm_folder(judged.run_dir, verdict)
    if verdict is None or folder is None:
        return Watched(program or _UNKNOWN)
    printed = any(True for _ in folder.glob("rank*/*.log"))  # not where another launcher has the output
    excerpts = tuple(_excerpts(folder, verdict))
    return Watched(program or program_of(folder) or _UNKNOWN, excerpts, folder if printed else None)


def _arm_folder(run_dir: Path, verdict: Verdict) -> Path | None:
    arm = ArmId(verdict.scenario, verdict.arm, verdict.backend, verdict.repeat, verdict.attempt)
    for folder in (rundir.arm_dir(run_dir, arm), run_dir):  # an arm's own folder may be what was judged
        if (folder / "plan.json").is_file():
            return folder
    return None


def program_of(folder: Path) -> str:
    """Return the name of the program whose arm this is, as its plan says; '' where it cannot be read."""
    try:
        return codec.load_plan((folder / "plan.json").read_text(encoding="utf-8")).workload.name
    except (OSError, ValueError, InvalidInput):
        return ""


def _excerpts(folder: Path, verdict: Verdict) -> Iterator[Excerpt]:
    """Yield what those at fault printed last; where nobody is named, what the first that failed did."""
    if verdict.status is Status.PASS:
        return
    ranks = [int(c.id) for c in verdict.culprits if c.kind == "rank" and c.id.isdigit()]
    if not ranks:
        failed = [e for e in verdict.ranks if e.exit_code not in (0, None)]
        failed.sort(key=lambda e: (e.ended_s is None, e.ended_s))
        ranks = [e.rank for e in failed[:1]]
    found: list[Excerpt] = []
    for rank in ranks:
        one = _of_process(f"rank {rank}", folder / f"rank{rank}")
        if one is not None and all(one.lines != other.lines for other in found):  # all may say the same
            found.append(one)
    if not found and (launcher := _of_process("the launcher", folder / "launcher")) is not None:
        found = [launcher]
    yield from found[:EXCERPTS_MAX]


_NOISE = re.compile(
    r"^\[W.* socket\.cpp:\d+\] \[c10d\] The hostname of the client socket cannot be retrieved"
)
"""torch says so of every connection where there is no name server, as in the network of an arm."""


def _of_process(who: str, folder: Path) -> Excerpt | None:
    for name in ("stderr.log", "stdout.log"):
        path = folder / name
        lines, cut = last_lines(path)
        lines = tuple(line for line in lines if not _NOISE.search(line))
        if lines:
            return Excerpt(who, path, lines, cut)
    return None


def last_lines(path: Path, limit: int = LINES_MAX) -> tuple[tuple[str, ...], bool]:
    """Return the last lines of a file that are not empty, and whether there was more before them."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return (), False
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _READ_BYTES)
            file.seek(start)
            data = file.read(_READ_BYTES)
    except (OSError, ValueError):
        return (), False
    lines = [text for raw in data.split(b"\n") if (text := _as_shown(raw)).strip()]
    return tuple(lines[-limit:]), start > 0 or len(lines) > limit


def _as_shown(raw: bytes) -> str:
    """Return what a terminal would show of a line at its end: of a progress bar, the last state."""
    parts = [p for p in _COLOUR.sub(b"", raw).split(b"\r") if p.strip()]
    return parts[-1].decode("utf-8", "backslashreplace") if parts else ""
