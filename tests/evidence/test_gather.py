"""All the evidence of real processes at once: it is there, in time, and says what is missing and why."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from evidence.rank_process import PATIENCE_S, rank

from chaoskit import capabilities
from chaoskit.errors import BrokenPlugin
from chaoskit.evidence import findings, flight_recorder, gather, stacks
from chaoskit.evidence.family import REGISTRY, Report, Scene, Source
from chaoskit.evidence.findings import RankFindings

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not capabilities.find("ptrace").available, reason="no ptrace here"),
]

TWO_THREADS = """
import os, signal, threading
def load(): os.write(1, b"r"), threading.Event().wait()
threading.Thread(target=load, name="loader", daemon=True).start()
def train():
    # the other thread tells that there are two
    while True: signal.pause()  # line 7
train()
"""
HOLDING = """
import ctypes, sys
sys.setswitchinterval(1000)  # the GIL is not given up between the two calls
libc = ctypes.PyDLL(None)
libc.write(1, b"r", 1), libc.usleep(600_000_000)  # line 5
"""
CLOSING = "import os, time\nos.closerange(3, 1000)\nos.write(1, b'r')\ntime.sleep(1000)"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there comes in the end, however loaded the machine."""
    for name in ("DUMP_S", "NATIVE_S"):
        monkeypatch.setattr(stacks, name, PATIENCE_S)
    monkeypatch.setattr(flight_recorder, "BEGINS_WITHIN_S", PATIENCE_S)


def evidence(of: gather.Asked) -> RankFindings:
    gather.gather(of)
    (slot,) = of.pids
    return findings.read(of.arm_dir / f"rank{slot}")


def test_a_rank_that_waits(tmp_path: Path) -> None:
    with rank(tmp_path, TWO_THREADS, slot=3) as waiting:
        waiting.until_paused()
        found = evidence(waiting.asked())
        assert Path(f"/proc/{waiting.pid}/stat").exists(), "nothing is ended"
    assert (found.slot, found.state, found.stacks_by, found.missing) == (3, "S", "py-spy", ())
    assert [(t.name, t.main) for t in found.threads] == [("MainThread", True), ("loader", False)]
    assert found.main is not None
    assert found.main.frames[:2] == (f"train ({tmp_path}/train.py:7)", f"<module> ({tmp_path}/train.py:8)")
    assert found.main.waits_in
    assert any(f"load ({tmp_path}/train.py:3)" in frame for frame in found.threads[1].frames)
    assert json.loads(Path(found.flight_recorder).read_text()) == {"entries": []}
    assert found.process.rss_bytes > 1 << 20
    assert found.process.thread_count >= 2
    assert found.process.voluntary_switches > 0
    assert "SIGINT" in found.process.caught


def test_one_that_is_stopped(tmp_path: Path) -> None:
    with rank(tmp_path, TWO_THREADS) as stopped:
        stopped.until_paused()
        os.kill(stopped.pid, signal.SIGSTOP)
        stopped.until("T")
        found = evidence(stopped.asked())
        assert Path(f"/proc/{stopped.pid}/stat").read_text().split()[2] == "T", "it is left stopped"
    assert (found.state, len(found.threads), found.stacks_by) == ("T", 2, "py-spy")
    assert found.missing == ("flight recorder: the rank is stopped",)
    assert found.flight_recorder == ""


def test_one_whose_gil_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder, "BEGINS_WITHIN_S", 0.5)
    with rank(tmp_path, HOLDING) as holding:
        found = evidence(holding.asked())
    assert found.main is not None
    assert found.main.frames[0] == f"<module> ({tmp_path}/train.py:5)"
    assert found.main.holds_gil
    assert found.missing == (
        "flight recorder: the rank did not answer in time; native code may hold the GIL",
    )


def test_one_that_has_closed_all_descriptors_still_answers(tmp_path: Path) -> None:
    with rank(tmp_path, CLOSING) as closing_all:
        found = evidence(closing_all.asked())
    assert (found.stacks_by, found.missing) == ("py-spy", ())
    assert found.flight_recorder


def test_native_frames_where_they_are_asked_for(tmp_path: Path) -> None:
    with rank(tmp_path, TWO_THREADS) as waiting:
        waiting.until_paused()
        found = evidence(waiting.asked(native=True))
    assert found.main is not None
    assert "(libc.so.6)" in found.main.frames[0]
    assert f"train ({tmp_path}/train.py:7)" in found.main.frames
    told = json.loads((tmp_path / "rank0" / "stack.json").read_text())
    assert told["line"] == f"{tmp_path}/train.py:7", "a history holds Python's lines"


def test_a_stopped_one_has_no_native_frames_and_says_so(tmp_path: Path) -> None:
    with rank(tmp_path, TWO_THREADS) as stopped:
        stopped.until_paused()
        os.kill(stopped.pid, signal.SIGSTOP)
        stopped.until("T")
        found = evidence(stopped.asked(native=True))
    assert found.main is not None
    assert found.main.frames[0] == f"train ({tmp_path}/train.py:7)"
    assert any(text.startswith("native frames: py-spy ended with 1") for text in found.missing)


def test_one_that_is_gone_has_nothing_and_says_so(tmp_path: Path) -> None:
    with rank(tmp_path, TWO_THREADS) as gone:
        os.kill(gone.pid, signal.SIGKILL)
        gone.until("Z")
        found = evidence(gone.asked())
    assert found.threads == found.sockets == ()
    assert "flight recorder: the rank has ended" in found.missing
    assert any(text.startswith("stacks: py-spy ended with 1") for text in found.missing)


LISTENING = """
import os, socket, sys, time
from pathlib import Path
here = Path({folder!r})
server = socket.create_server(("127.0.0.1", 0))
(here / "port.tmp").write_text(str(server.getsockname()[1]))
(here / "port.tmp").rename(here / "port")
os.write(1, b"r")
connection, _ = server.accept()
connection.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL)
(here / "accepted").touch()
time.sleep(1000)
"""
CONNECTING = """
import os, socket, time
from pathlib import Path
here = Path({folder!r})
connection = socket.create_connection(("::ffff:127.0.0.1", int((here / "port").read_text())))
connection.sendall(b"data")
while not (here / "accepted").exists(): os.sched_yield()
os.write(1, b"r")
time.sleep(1000)
"""


def test_both_ends_of_a_connection_and_what_lies_in_it(tmp_path: Path) -> None:
    (second := tmp_path / "1").mkdir()
    with (
        rank(tmp_path, LISTENING.format(folder=str(tmp_path))) as server,
        rank(second, CONNECTING.format(folder=str(tmp_path))) as client,
    ):
        asked = gather.Asked(tmp_path, {0: server.pid, 1: client.pid}, limit_s=PATIENCE_S)
        gather.gather(asked)
        waiting, sending = (findings.read(tmp_path / f"rank{slot}").sockets for slot in (0, 1))
        gather.gather(replace(asked, store_port=int((tmp_path / "port").read_text())))
        as_store = [findings.read(tmp_path / f"rank{slot}").sockets for slot in (0, 1)]
    connection, listener = waiting
    assert (connection.peer, connection.what, connection.state) == (1, "peer", "ESTABLISHED")
    assert connection.receive_queue == 4, "nobody has read what was sent"
    assert (listener.peer, listener.state, listener.remote) == (None, "LISTEN", "")
    assert [(s.local, s.remote, s.peer) for s in sending] == [(connection.remote, connection.local, 0)]
    assert [{s.what for s in sockets} for sockets in as_store] == [{"store"}, {"store"}]


# ---------------------------------------------------------------- time, and what breaks


@pytest.fixture
def hanging_py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One that hangs for one process, and else does what py-spy does."""
    path, stop, real = tmp_path / "py-spy", tmp_path / "stop", stacks._py_spy()
    path.write_text(
        "#!/bin/sh\n"
        f"echo $$ >> {tmp_path}/pids\n"
        f"case $* in *{os.getpid()}) [ -p {stop} ] && echo > {stop}; exec sleep 1000;; esac\n"
        f'exec {real} "$@"\n'
    )
    path.chmod(0o700)
    monkeypatch.setattr(stacks, "_py_spy", lambda: str(path))
    yield path
    pids = tmp_path / "pids"  # not there where it was given up before it had begun
    for pid in pids.read_text().split() if pids.exists() else ():
        while Path(f"/proc/{pid}").exists():  # each is ended by whoever started it
            time.sleep(0.01)


def test_a_py_spy_that_hangs_costs_the_limit_and_only_what_it_was_to_read(
    tmp_path: Path, hanging_py_spy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "DUMP_S", 1000.0)
    with rank(tmp_path, TWO_THREADS) as waiting:
        asked = replace(waiting.asked(limit_s=8.0), pids={0: waiting.pid, 1: os.getpid()})
        before = time.monotonic()
        found = gather.gather(asked)
        assert time.monotonic() - before < 40.0, "the limit is 8 s, the machine may be slow"
    assert found.missing[0] == ()
    assert set(found.missing[1]) == {"stacks: not ready within 8 s", "flight_recorder: nothing was found out"}
    assert findings.read(tmp_path / "rank0").main is not None
    assert findings.read(tmp_path / "rank1").process.rss_bytes > 0


def test_one_rank_that_cannot_be_read_does_not_cost_the_whole_limit(
    tmp_path: Path, hanging_py_spy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "DUMP_S", 0.2)
    found = gather.gather(gather.Asked(tmp_path, {1: os.getpid()}, limit_s=1000.0))
    (said,) = (text for text in found.missing[1] if text.startswith("stacks: "))
    waited = re.fullmatch(r"stacks: py-spy was not ready within ([0-9.]+) s", said)
    assert waited is not None, said
    assert float(waited[1]) < 100.0, "of 1000 s"


def test_nobody_waits_for_evidence_when_chaoskit_is_interrupted(
    tmp_path: Path, hanging_py_spy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "DUMP_S", 1000.0)
    os.mkfifo(tmp_path / "stop")  # the interrupt comes when py-spy is at it
    stop = os.open(tmp_path / "stop", os.O_RDWR)
    found = gather.gather(gather.Asked(tmp_path, {1: os.getpid()}, limit_s=1000.0, stop_fd=stop))
    assert "stacks: interrupted" in found.missing[1]
    os.close(stop)


@dataclass(frozen=True, slots=True)
class Breaking(Source):
    """Raises."""

    name: ClassVar[str] = "breaking"

    def gather(self, scene: Scene) -> Iterable[tuple[int, Report]]:
        yield 99, Report(missing=("of a rank that is not there",))
        raise RuntimeError("what is this")


@dataclass(frozen=True, slots=True)
class Silent(Source):
    """Knows nothing."""

    name: ClassVar[str] = "silent"

    def gather(self, scene: Scene) -> Iterable[tuple[int, Report]]:
        return ()


def test_a_source_that_breaks_takes_nothing_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = (Breaking(), Silent(), flight_recorder.FlightRecorder())
    monkeypatch.setattr(gather, "_known", lambda: (sources, ("chaoskit.evidence: a broken plug-in",)))
    with rank(tmp_path, TWO_THREADS) as waiting:
        found = evidence(waiting.asked())
    assert sorted(found.missing) == [
        "breaking: RuntimeError: what is this",
        "chaoskit.evidence: a broken plug-in",
        "silent: nothing was found out",
    ]
    assert found.flight_recorder


def test_every_source_is_found_by_its_file() -> None:
    assert {"stacks", "process", "sockets", "flight_recorder"} <= set(REGISTRY.names(plugins=False))


def test_a_source_that_keeps_no_contract_is_named() -> None:
    class Nothing(Source):
        """Does not gather."""

        name = "nothing"

    with pytest.raises(BrokenPlugin, match=r"test_gather.py:[0-9]+: Nothing: must implement gather"):
        REGISTRY._add(dataclass(frozen=True)(Nothing))


def test_without_a_rank_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert gather.gather(gather.Asked(tmp_path, {})).missing == {}
    assert list(tmp_path.iterdir()) == []


def test_what_was_never_used_is_removed(tmp_path: Path) -> None:
    with rank(tmp_path, TWO_THREADS) as waiting:
        assert (waiting.folder / "faulthandler.txt").exists()
        gather.tidy(tmp_path, {0: None, 1: None})
        assert list(waiting.folder.iterdir()) == []
