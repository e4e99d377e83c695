"""Stacks where the kernel refuses to let one process read another: the rank's faulthandler writes them."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from evidence.rank_process import PATIENCE_S, Rank, rank
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.evidence import _faulthandler, findings, flight_recorder, gather, stacks
from chaoskit.evidence.findings import RankFindings
from chaoskit.rank import answering

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can make py-spy another user's"),
]

REFUSED = """#!{python} -S
# The real py-spy as a user who may not read the rank.
import os, sys
os.setgroups([])
os.setuid(65534)
os.execv({py_spy!r}, [{py_spy!r}, *sys.argv[1:]])
"""
WAITING = """
import os, signal, threading
{before}
def load(): os.write(1, b"r"), threading.Event().wait()
threading.Thread(target=load, name="loader", daemon=True).start()
def train():
    # the other thread tells that there are two
    while True: signal.pause()  # line 8
train()
"""
HOLDING = "import ctypes, os\nos.write(1, b'r')\nctypes.PyDLL(None).usleep(600_000_000)  # line 3\n"


@pytest.fixture(autouse=True)
def no_ptrace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    py_spy = stacks._py_spy()
    if py_spy is None:
        pytest.skip("no py-spy here")
    path = tmp_path / "py-spy"
    path.write_text(REFUSED.format(python=sys.executable, py_spy=py_spy))
    path.chmod(0o700)
    monkeypatch.setattr(stacks, "_py_spy", lambda: str(path))
    # What is there comes in the end, however loaded the machine.
    monkeypatch.setattr(stacks, "DUMP_S", PATIENCE_S)
    monkeypatch.setattr(flight_recorder, "BEGINS_WITHIN_S", PATIENCE_S)
    monkeypatch.setattr(_faulthandler, "WAIT_S", PATIENCE_S)
    monkeypatch.setattr(_faulthandler, "_QUIET_S", 1.0)


def evidence(of: Rank) -> RankFindings:
    gather.gather(of.asked())
    return findings.read(of.folder)


def test_every_thread_of_one_that_waits(tmp_path: Path) -> None:
    with rank(tmp_path, WAITING.format(before="")) as waiting:
        waiting.until_paused()
        found = evidence(waiting)
        waiting.until_paused()  # it goes on
    assert found.stacks_by == "faulthandler"
    assert [t.main for t in found.threads] == [True, False], "chaoskit's own is not shown"
    assert found.threads[0].frames[:2] == (
        f"train ({tmp_path}/train.py:8)",
        f"<module> ({tmp_path}/train.py:9)",
    )
    assert found.threads[0].waits_in
    assert f"load ({tmp_path}/train.py:4)" in found.threads[1].frames
    (why,) = found.missing
    assert why.startswith("stacks: py-spy ended with 1: Permission Denied")
    assert why.endswith("read by faulthandler instead")


def test_one_whose_gil_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder, "BEGINS_WITHIN_S", 0.5)
    with rank(tmp_path, HOLDING) as holding:
        found = evidence(holding)
    assert found.stacks_by == "faulthandler"
    assert found.main is not None
    assert found.main.frames[0] == f"<module> ({tmp_path}/train.py:3)"


def test_one_that_is_stopped_is_not_signalled(tmp_path: Path) -> None:
    with rank(tmp_path, WAITING.format(before="")) as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        stopped.until("T")
        found = evidence(stopped)
        assert not found.process.pending
    assert any("faulthandler cannot run in state T" in text for text in found.missing)


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("os.closerange(3, 1000)", "the script has closed faulthandler's file"),
        (
            "for fd in range(3, 1000):\n"
            "    try: os.dup2(os.open('mine.txt', os.O_WRONLY | os.O_CREAT), fd)\n"
            "    except OSError: break",
            "the script has closed faulthandler's file",
        ),
        (f"signal.signal({int(answering.SIGNAL)}, signal.SIG_IGN)", "the script has taken"),
        (f"signal.signal({int(answering.SIGNAL)}, signal.SIG_DFL)", "the script has taken"),
    ],
    ids=["closed", "reused", "ignored", "deadly"],
)
def test_a_script_that_took_what_is_needed_is_left_alone(before: str, why: str, tmp_path: Path) -> None:
    with rank(tmp_path, WAITING.format(before=f"os.chdir({str(tmp_path)!r})\n{before}")) as hostile:
        found = evidence(hostile)
        assert Path(f"/proc/{hostile.pid}/stat").read_text().split()[2] != "Z", "it lives"
    assert found.threads == ()
    assert any(why in text for text in found.missing), found.missing
    mine = tmp_path / "mine.txt"
    assert not mine.exists() or mine.stat().st_size == 0, "nothing is written into a file of the script's"


def test_one_that_blocks_the_signal_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_faulthandler, "WAIT_S", 0.5)
    block = "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    with rank(tmp_path, WAITING.format(before=block)) as deaf:
        found = evidence(deaf)
    assert any("faulthandler has written nothing" in text for text in found.missing), found.missing


# ---------------------------------------------------------------- what it prints

PRINTED = b"""\
Thread 0x00007f0000000001 (most recent call first):
  File "/a (1).py", line 3 in wait
  File "/a.py", line ??? in run
garbage
Thread 0x00007f0000000003 [loader] (most recent call first):
  <no Python frame>

Current thread 0x00007f0000000002 (most recent call first):
  File "/b.py", line 9 in train in step
  ...
"""


def test_what_faulthandler_prints() -> None:
    first, named, main = _faulthandler.parse(PRINTED, 0x7F0000000002, 77)
    assert (first.name, first.thread_id, first.main) == ("thread 0x7f0000000001", 0, False)
    assert first.frames == ("wait (/a (1).py:3)", "run (/a.py:???)")
    assert (named.name, named.frames) == ("loader", ())
    assert (main.name, main.thread_id, main.main) == ("MainThread", 77, True)
    assert main.frames == ("train in step (/b.py:9)",)


words = st.sampled_from([line + b"\n" for line in PRINTED.splitlines()])


@given(st.lists(words | st.binary(max_size=60)).map(b"".join))
def test_anything_parses_to_threads(output: bytes) -> None:
    for thread in _faulthandler.parse(output, 0x7F0000000002, 77):
        assert thread.main == (thread.thread_id == 77)


def test_a_frame_without_end_is_cut() -> None:
    endless = b"Thread 0x1 (most recent call first):\n" + b'  File "/a.py", line 1 in f\n' * 100_000
    assert len(_faulthandler.parse(endless, 1, 7)[0].frames) == 64


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    with rank(tmp_path, WAITING.format(before="")) as waiting:
        assert stat.S_IMODE((waiting.folder / answering.STACKS_FILE).stat().st_mode) == 0o600
