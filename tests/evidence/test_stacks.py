"""Stacks read from outside: of real processes, and from whatever py-spy might print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit import capabilities
from chaoskit.evidence import _program, stacks
from chaoskit.evidence.findings import Stacks
from chaoskit.evidence.stacks import FRAMES_MAX, Stack
from chaoskit.rank import answering

pytestmark = pytest.mark.timeout(300)

PATIENCE_S = 40.0

SCRIPT = """\
import os, signal, time
def save():
    os.write(1, b"r"), time.sleep(1000)  # line 3

def train():
    save()

train()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What py-spy finds comes in the end, however loaded the machine."""
    monkeypatch.setattr(stacks, "TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def rank(script: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"r"
        yield process
        process.kill()


@pytest.mark.skipif(not capabilities.find("ptrace").available, reason="no ptrace here")
def test_the_stack_of_a_stopped_process(rank: subprocess.Popen[bytes], script: Path) -> None:
    os.kill(rank.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, rank.pid, os.WSTOPPED | os.WNOWAIT)
    found = stacks.read(rank.pid)
    assert [frame.partition(" ")[0] for frame in found.frames] == ["save", "train", "<module>"]
    assert found.line == found.user_line == f"{script}:3"
    assert Path(f"/proc/{rank.pid}/stat").read_text().split()[2] == "T", "it is left stopped"


@pytest.mark.skipif(not capabilities.find("ptrace").available, reason="no ptrace here")
def test_stacks_of_several_at_once(rank: subprocess.Popen[bytes], script: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as over:
        over.wait()
        found = stacks.gather({0: rank.pid, 3: over.pid})
    assert found[0].line == f"{script}:3"
    assert found[3] == Stack()
    assert stacks.gather({}) == {}


def test_without_py_spy_there_is_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_py_spy", lambda: None)
    assert stacks.read(os.getpid()) == Stack()


@pytest.mark.parametrize("program", ["/nonexistent/py-spy", "/bin/false", "/bin/cat"])
def test_a_py_spy_that_does_not_work_gives_no_stack(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_py_spy", lambda: program)
    assert stacks.read(os.getpid()) == Stack()


def test_a_py_spy_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hanging = tmp_path / "py-spy"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o700)
    monkeypatch.setattr(stacks, "_py_spy", lambda: str(hanging))
    monkeypatch.setattr(stacks, "TIMEOUT_S", 0.2)
    assert stacks.read(os.getpid()) == Stack()


# ---------------------------------------------------------------- what it prints


def thread(*frames: tuple[Any, Any, Any], pid: Any = 7) -> dict[str, Any]:
    listed = [{"name": name, "filename": file, "line": line} for name, file, line in frames]
    return {"os_thread_id": pid, "frames": listed}


def printed(*threads: object) -> bytes:
    return json.dumps(threads).encode()


def test_the_main_thread_is_found_among_others() -> None:
    output = printed(thread(("wait", "/a.py", 1), pid=9), thread(("train", "/b.py", 2), pid=7))
    assert stacks.parse(output, 7) == Stack(("train (/b.py:2)",), "/b.py:2", "/b.py:2")


def test_the_users_line_is_the_innermost_that_is_neither_ours_nor_a_librarys() -> None:
    frames = (
        ("all_reduce", "/v/lib/python3.11/site-packages/torch/distributed/c10d.py", 1),
        ("around", "/x/chaoskit/intercept/hooks.py", 2),
        ("fire", "/x/chaoskit/faults/stall.py", 3),
        ("step", "/data/me/train.py", 4),
        ("main", "/data/me/main.py", 5),
    )
    assert stacks.parse(printed(thread(*frames)), 7).user_line == "/data/me/train.py:4"
    assert stacks.parse(printed(thread(*frames[:3])), 7).user_line == ""


def test_a_deep_stack_is_cut() -> None:
    frames = [("f", "/a.py", n) for n in range(100_000)]
    assert len(stacks.parse(printed(thread(*frames)), 7).frames) == FRAMES_MAX


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["os_thread_id", "frames", "name", "filename", "line"]), inner)
    ),
)


@given(st.binary(max_size=200))
def test_any_bytes_parse_to_a_stack(output: bytes) -> None:
    assert stacks.parse(output, 7) == Stack()


@given(anything)
def test_any_json_parses_to_a_stack(value: object) -> None:
    assert isinstance(stacks.parse(json.dumps(value).encode(), 7), Stack)


@given(st.lists(st.fixed_dictionaries({"os_thread_id": anything, "frames": st.lists(anything, max_size=3)})))
def test_any_threads_parse_to_a_stack(threads: list[object]) -> None:
    assert isinstance(stacks.parse(json.dumps(threads).encode(), 7), Stack)


@pytest.mark.parametrize("output", [b"[" * 100_000, b'{"a":' * 50_000, b"[" + b"9" * 5000 + b"]", b"[1e999]"])
def test_hostile_json_is_nothing(output: bytes) -> None:
    assert stacks.parse(output, 7) == Stack()


@pytest.mark.parametrize("line", ["9" * 5000, 1e999])
def test_a_line_that_is_no_number_is_nothing(line: object) -> None:
    assert stacks.parse(printed(thread(("f", "/a.py", line))), 7) == Stack()


# ---------------------------------------------------------------- every thread


def test_every_thread_is_kept_the_main_one_first() -> None:
    other = thread(("wait", "/a.py", 1), pid=9) | {"thread_name": "loader", "owns_gil": True}
    native = thread(("all_reduce", "/v/libtorch.so", 0), ("train", "/b.py", 2), pid=7)
    main, loader = stacks.parse_threads(printed(other, native), 7)
    assert (main.name, main.thread_id, main.main, main.holds_gil) == ("thread 7", 7, True, False)
    assert main.frames == ("all_reduce (libtorch.so)", "train (/b.py:2)")
    assert (loader.name, loader.main, loader.holds_gil) == ("loader", False, True)
    assert stacks.of_main(Stacks(threads=(main, loader))) == Stack(("train (/b.py:2)",), "/b.py:2", "/b.py:2")


def test_the_thread_that_answers_is_no_part_of_the_script() -> None:
    ours = thread(("wait", "/x/chaoskit/rank/exchange.py", 1), ("answer_once", answering.__file__, 2), pid=9)
    theirs = thread(("wait", "/me/chaoskit/rank/answering.py", 1), ("main", "/me/train.py", 2), pid=10)
    assert [t.thread_id for t in stacks.parse_threads(printed(ours, theirs), 7)] == [10]


def test_threads_without_end_are_cut() -> None:
    found = stacks.parse_threads(printed(*[thread(("f" * 5000, "/a.py", 1), pid=n) for n in range(2000)]), 7)
    assert len(found) == 256
    assert max(len(t.frames[0]) for t in found) < 400


@given(st.binary(max_size=200) | anything.map(lambda value: json.dumps(value).encode()))
def test_anything_parses_to_threads(output: bytes) -> None:
    assert isinstance(stacks.parse_threads(output, 7), tuple)


@given(st.lists(st.fixed_dictionaries({"os_thread_id": anything, "frames": st.lists(anything, max_size=3)})))
def test_any_threads_parse_to_threads(threads: list[object]) -> None:
    for found in stacks.parse_threads(json.dumps(threads).encode(), 7):
        assert isinstance(found.thread_id, int)


# ---------------------------------------------------------------- a program that looks


def test_a_program_that_prints_without_end_is_given_up() -> None:
    ran = _program.run(["yes"], lambda: 30.0)
    assert ran == _program.Ran(problem=f"yes printed more than {_program.OUTPUT_BYTES} bytes")


def test_one_that_goes_on_without_output_is_ended() -> None:
    ran = _program.run(["sh", "-c", "exec >&- 2>&-; exec sleep 1000"], lambda: 30.0)
    assert ran.problem == "sh closed its output and did not end"


def test_why_a_program_failed() -> None:
    said = "Error: Failed\n\nCaused by:\n    0: outer\n    1: inner\n\nStack backtrace:\n   0: rust\n"
    ran = _program.run(["sh", "-c", f"printf %s '{said}' >&2; exit 3"], lambda: 30.0)
    assert ran.problem == "sh ended with 3: inner"
    assert _program.run(["sh", "-c", "kill -9 $$"], lambda: 30.0).problem == "sh ended by signal 9"
    assert _program.run(["/nonexistent"], lambda: 30.0).problem.startswith("nonexistent cannot be started")
    assert _program.run(["true"], lambda: 0.0).problem == "no time was left"
