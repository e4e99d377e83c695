"""Ctrl-C and SIGTERM at ``python -m chaoskit run``, whatever it is at; and two runs side by side."""

from __future__ import annotations

import json
import os
import signal
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest
from real_runs import Command, chaoskit, temporary_files

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 1.0
"""From the signal to the end of all ranks, and of everything. Both may take longer in proportion where more
processes want to run than there are cores; the best of TRIES counts."""
TRIES = 3
HANGS = ("rank-stopped", "rank0-skips-barrier")


def overload() -> float:
    """How many times more processes want to run than there are cores, at least 1."""
    minute, *_, now = Path("/proc/loadavg").read_text().partition("/")[0].split()
    return max(1.0, max(float(minute), float(now)) / len(os.sched_getaffinity(0)))


def until_the_server_loads(command: Command) -> None:
    command.wait_until(lambda: command.shows("server_main"))


def until_arms_run(command: Command) -> None:
    command.wait_until(command.is_stopped)


def until_the_deadline(command: Command) -> None:
    """py-spy reads stacks when nothing moves shortly before the end."""
    command.wait_until(lambda: command.shows("py-spy"))


def named(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:  # py-spy comes and goes
        return ""


def interrupted(moment: object, folder: Path, number: int) -> tuple[float, float, str]:
    """Send the signal at ``moment``; return the seconds to the end of all ranks, of all, and the output."""
    assert callable(moment)
    arguments = ("run", *HANGS, "--format", "json", "--junit", "junit.xml")
    with chaoskit(*arguments, folder=folder) as command:
        moment(command)
        ranks = [p for p in command.all() if named(p).startswith("rank ")]
        sent = time.monotonic()
        os.kill(command.process.pid, number)
        psutil.wait_procs(ranks, 60)
        ranks_took = time.monotonic() - sent
        code = command.process.wait(60)
        took = time.monotonic() - sent
        if command.all():
            left = command.left()
            took = time.monotonic() - sent
            assert not left, f"when it had ended, there were still {left}"
        out, err = command.process.communicate()
        assert code == 130, err
        assert "Traceback" not in err
        return ranks_took, took, out


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        pytest.param(until_the_server_loads, signal.SIGINT, marks=pytest.mark.nightly),
        (until_arms_run, signal.SIGINT),
        pytest.param(until_the_deadline, signal.SIGINT, marks=pytest.mark.nightly),
    ],
)
def test_an_interrupt_ends_all_within_a_second_and_tells_what_is_known(
    moment: object, number: int, tmp_path: Path
) -> None:
    took = []
    for attempt in range(TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        before = overload()
        ranks_s, seconds, out = interrupted(moment, folder, number)
        told = json.loads(out)
        assert told["summary"]["exit_code"] == 130
        assert {v["status"] for v in told["verdicts"]} <= {"inconclusive", "pass"}
        assert {s["result"] for s in told["scenarios"]} <= {"inconclusive", "held"}
        assert ET.parse(folder / "junit.xml").getroot().tag == "testsuites"
        assert json.loads((Path(told["run_dir"]) / "run.json").read_text())["interrupted"] is True
        assert temporary_files(folder) == []
        if moment is until_arms_run:
            assert any("interrupted" in v["reason"] for v in told["verdicts"])
        took.append((ranks_s, seconds))
        if max(ranks_s, seconds) <= LIMIT_S * max(before, overload()):
            return
    pytest.fail(f"it took {took} s")


def outcome(command: Command) -> dict[tuple[str, str], tuple[str, str, list[str]]]:
    out, err = command.process.communicate(timeout=120)
    assert command.process.returncode == 0, err
    told = json.loads(out)
    return {
        (v["scenario"], v["arm"]): (v["status"], v["outcome"], [c["id"] for c in v["culprits"]])
        for v in told["verdicts"]
    }


@pytest.mark.nightly
def test_two_runs_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The same scenarios with the same seed in the same folder: the same ports, names and times."""
    names = ("rank-killed-mid-all-reduce", "dtypes-differ", "shapes-differ")
    arguments = ("run", *names, "--seed", "4", "--format", "json")
    with chaoskit(*arguments, folder=tmp_path) as one, chaoskit(*arguments, folder=tmp_path) as other:
        first, second = outcome(one), outcome(other)
        assert first == second
        assert {status for status, _, _ in first.values()} == {"pass"}
        assert {tuple(culprits) for _, _, culprits in first.values()} == {("1",)}
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.nightly
def test_a_kill_of_one_run_does_not_disturb_the_other(tmp_path: Path) -> None:
    with (
        chaoskit("run", *HANGS, folder=tmp_path) as doomed,
        chaoskit("run", "dtypes-differ", "--format", "json", folder=tmp_path) as other,
    ):
        until_arms_run(doomed)
        doomed.process.send_signal(signal.SIGKILL)
        assert doomed.process.wait(20) == -signal.SIGKILL
        assert doomed.left() == []
        assert {status for status, _, _ in outcome(other).values()} == {"pass"}
        assert other.left() == []
