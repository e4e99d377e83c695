"""The files of evidence: what is written is read again, and whatever they hold is no exception."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaoskit.evidence import findings
from chaoskit.evidence.findings import (
    ProcessStatus,
    RankFindings,
    Socket,
    Sockets,
    Stacks,
    Summary,
    ThreadStack,
    ThreadState,
)

FILES = (findings.STACK_FILE, findings.PROCESS_FILE, findings.SOCKETS_FILE, findings.SUMMARY_FILE)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
texts = st.lists(text, max_size=3).map(tuple)
whole = st.integers(-1, 1 << 40)
threads = st.lists(
    st.builds(ThreadStack, text, st.integers(0, 9), st.booleans(), texts, text.filter(bool), st.booleans()),
    max_size=3,
).map(lambda found: tuple(sorted(found, key=lambda t: not t.main)))
process = st.builds(
    ProcessStatus, text, whole, whole, whole, whole, whole, texts, texts, texts, texts,
    st.lists(st.builds(ThreadState, st.integers(0, 99), text, text, text), max_size=3).map(tuple),
)  # fmt: skip
sockets = st.lists(
    st.builds(
        Socket, text, text, text, st.integers(0), st.integers(0), st.none() | st.integers(0, 255),
        st.sampled_from(["store", "peer", ""]),
    ),
    max_size=3,
).map(tuple)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*asdict(ProcessStatus()), *asdict(Stacks()), *asdict(Socket()), "sockets", "missing"]
            ),
            inner,
            max_size=4,
        )
    ),
)
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@same_folder
@given(threads, process, sockets, texts)
def test_what_is_written_is_read_again(
    tmp_path: Path,
    threads: tuple[ThreadStack, ...],
    process: ProcessStatus,
    sockets: tuple[Socket, ...],
    missing: tuple[str, ...],
) -> None:
    folder = tmp_path / "rank7"
    findings.write(folder / findings.STACK_FILE, Stacks("py-spy", "S", "/a.py:1", (), threads))
    findings.write(folder / findings.PROCESS_FILE, process)
    findings.write(folder / findings.SOCKETS_FILE, Sockets(sockets))
    findings.write(folder / findings.SUMMARY_FILE, Summary(missing))
    assert findings.read(folder) == RankFindings(
        7, process.state, threads, "py-spy", missing, sockets, process=process
    )


@same_folder
@given(st.lists(anything, min_size=4, max_size=4))
def test_any_json_is_read(tmp_path: Path, values: list[object]) -> None:
    folder = tmp_path / "rank3"
    folder.mkdir(exist_ok=True)
    for name, value in zip(FILES, values, strict=True):
        (folder / name).write_text(json.dumps(value))
    assert findings.read(folder).slot == 3


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"[" * 100_000, b'{"threads": [' * 50_000, b"[" + b"9" * 5000 + b"]"]
)
def test_what_is_no_json_is_nothing(body: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "rank3"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes(body)
    assert findings.read(folder) == RankFindings(3)


def test_what_is_no_file_is_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "rank3"
    folder.mkdir()
    os.mkfifo(folder / findings.STACK_FILE)
    (folder / findings.PROCESS_FILE).mkdir()
    (folder / findings.SOCKETS_FILE).symlink_to("/dev/zero")
    os.truncate(os.open(folder / findings.SUMMARY_FILE, os.O_RDWR | os.O_CREAT), 1 << 40)
    (folder / "flight_recorder.json").symlink_to("/etc/passwd")
    (folder / "stdout.log").symlink_to("/etc/passwd")
    assert findings.read(folder) == RankFindings(3)
    assert findings.read(tmp_path / "rank4") == RankFindings(4)
    assert findings.read(tmp_path / "launcher").slot == -1


def test_threads_wait_where_the_process_says(tmp_path: Path) -> None:
    folder = tmp_path / "rank0"
    found = Stacks("py-spy", threads=(ThreadStack("MainThread", 5, True), ThreadStack("other", 6)))
    findings.write(folder / findings.STACK_FILE, found)
    findings.write(
        folder / findings.PROCESS_FILE,
        ProcessStatus("S", threads=(ThreadState(5, "rank 0", "S", "futex_wait"),)),
    )
    assert [t.waits_in for t in findings.read(folder).threads] == ["futex_wait", ""]


def test_the_last_lines_of_each_stream(tmp_path: Path) -> None:
    folder = tmp_path / "rank0"
    folder.mkdir()
    (folder / "stdout.log").write_text("".join(f"step {n}\n\n" for n in range(100_000)))
    (folder / "stderr.log").write_bytes(b"\xff" + b"x" * 100_000)
    found = findings.read(folder).last_output
    assert found[:2] == ("stdout: step 99980", "stdout: step 99981")
    assert len(found) == 21
    assert found[-1].startswith("stderr: ")
    assert len(found[-1]) < 600


def test_the_ranks_of_an_arm_in_order(tmp_path: Path) -> None:
    for name in ("rank10", "rank2", "rankless", "launcher"):
        (tmp_path / name).mkdir()
    (tmp_path / "rank3").write_text("no folder")
    assert [f.slot for f in findings.read_all(tmp_path)] == [2, 10]
    assert findings.read_all(tmp_path / "nowhere") == ()
