"""A kept process is to its launcher what it would be without a keeper."""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sidecar.kept_job import fill, rank_of, wait_for_end

import chaoskit

ROOT = str(Path(chaoskit.__file__).parents[1])
LIMIT_S = 60.0
"""For what takes a moment, on a machine that stands still for seconds."""
PROGRAM = """\
import os, signal, sys, time
from chaoskit.sidecar.keeper import Watcher, keep

class Saying(Watcher):
    def say(self, *words):
        os.write(2, (" ".join(map(str, words)) + "\\n").encode())
    def started(self, pid, t): self.say("started")
    def stopped(self, t): self.say("stopped")
    def continued(self, t): self.say("continued")
    def signalled(self, number, t): self.say("signalled", number)
    def ended(self, exit_code, t): self.say("ended", exit_code)
    def closing(self): self.say("closing")

class Ending(Watcher):
    def attach(self, keeper): self.keeper = keeper
    def signalled(self, number, t): self.keeper.end(90, 0.1, "test")

class Staying(Watcher):
    asked = 0
    def next_due(self): return time.monotonic() + 0.01
    def stays(self):
        self.asked += 1
        if self.asked == 5:
            os.write(2, b"stays\\n")
        return not os.path.exists(os.environ["GATE"])

class Failing(Watcher):
    def started(self, pid, t): raise KeyError("a watcher's own")

keep([globals()[name]() for name in sys.argv[2:]])
print("kept", flush=True)
exec(sys.argv[1])
"""


@contextlib.contextmanager
def kept(
    code: str, *watchers: str, stdin: bytes = b"", group: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``code`` in a kept process that has said that it runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, code, *watchers],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        bufsize=0,  # readline() may take no more than the line: the rest is communicate()'s
        env={**os.environ, "PYTHONPATH": ROOT}, process_group=group,
    )  # fmt: skip
    assert process.stdin and process.stdout
    try:
        assert process.stdout.readline() == b"kept\n"
        if stdin:
            process.stdin.write(stdin)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", 0),
        ("sys.exit(7)", 7),
        ("sys.exit('text')", 1),
        ("raise ValueError", 1),
        ("os._exit(90)", 90),
        ("os.kill(os.getpid(), 9)", -9),
        ("os.kill(os.getpid(), 15)", -15),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 7)", -signal.SIGRTMIN - 7),
        ("os.kill(os.getpid(), 11)", -11),
        ("os.abort()", -6),
        ("raise KeyboardInterrupt", -2),
    ],
)
def test_the_keeper_ends_as_the_rank_ended(code: str, expected: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with kept(code) as process:
        assert process.wait(LIMIT_S) == expected


def test_input_output_and_finalization_are_the_ranks() -> None:
    code = "import atexit; atexit.register(print, 'atexit'); print(input()); sys.stderr.write('error')"
    with kept(code, stdin=b"hello\n") as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (0, b"hello\natexit\n", b"error")


COUNTING = """
seen = []
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda n, _: (seen.append(n), os.write(1, b"%d\\n" % n)))
print("ready", flush=True)
while signal.SIGHUP not in seen:
    time.sleep(0.01)
time.sleep(0.05)
"""


@pytest.mark.parametrize("to_group", [False, True])
def test_each_signal_reaches_the_rank_once(to_group: bool) -> None:
    with kept(COUNTING, group=0) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            (os.killpg if to_group else os.kill)(process.pid, number)
            if number != signal.SIGHUP:
                assert process.stdout.readline() == b"%d\n" % number
        out, _ = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, out) == (0, b"%d\n" % signal.SIGHUP)


@pytest.mark.parametrize(("group", "workers_end"), [(0, True), (None, False)], ids=["own-group", "shared"])
def test_a_group_of_its_own_means_that_signals_are_for_the_whole_group(
    group: int | None, workers_end: bool
) -> None:
    wait_s = LIMIT_S / 2 if workers_end else 0.3  # what must not happen has no event
    code = (
        "told = []; signal.signal(15, lambda *_: told.append(1)); pid = os.fork()\n"
        "if pid == 0: signal.signal(15, signal.SIG_DFL); os.write(1, b'worker\\n'); time.sleep(600)\n"
        "while not told: time.sleep(0.01)\n"
        f"until, done = time.monotonic() + {wait_s}, 0\n"
        "while not done and time.monotonic() < until:\n"
        "    time.sleep(0.01); done, _ = os.waitpid(pid, os.WNOHANG)\n"
        "print(done == pid)\n"
        "if not done: os.kill(pid, 9)"
    )
    with kept(code, group=group) as process:
        assert process.stdout and process.stdout.readline() == b"worker\n"
        os.kill(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=LIMIT_S)
        assert out == b"%s\n" % str(workers_end).encode()


def test_watchers_are_told_of_all_that_happens() -> None:
    with kept("time.sleep(600)", "Saying") as process:
        assert process.stderr
        rank = rank_of(process.pid)
        told = [process.stderr.readline()]
        for number, to in ((signal.SIGSTOP, rank), (signal.SIGCONT, rank), (signal.SIGTERM, process.pid)):
            os.kill(to, number)
            told.append(process.stderr.readline())
        _, rest = process.communicate(timeout=LIMIT_S)
        assert told == [b"started\n", b"stopped\n", b"continued\n", b"signalled %d\n" % signal.SIGTERM]
        assert rest == b"ended %d\nclosing\n" % -signal.SIGTERM
        assert process.returncode == -signal.SIGTERM


def test_a_watcher_that_raises_is_dropped_and_costs_nothing_else() -> None:
    with kept("sys.exit(3)", "Failing", "Saying") as process:
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3
    assert b"a watcher's own" in err
    assert err.endswith(b"started\nended 3\nclosing\n")


def test_what_a_watcher_raises_goes_unsaid_where_nobody_reads() -> None:
    """Stderr is a pipe that is full; it stays one that blocks, for the rank's sake."""
    reader, writer = os.pipe()
    fill(writer)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "sys.exit(3 if os.get_blocking(2) else 4)", "Failing"],
        stdout=subprocess.DEVNULL, stderr=writer, env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    try:
        assert process.wait(LIMIT_S) == 3
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("told", [False, True], ids=["watcher", "launcher"])
def test_a_keeper_leaves_when_a_watcher_or_the_launcher_lets_it(
    told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    with kept("time.sleep(600)", "Ending", "Staying") as process:
        process.send_signal(signal.SIGUSR1)
        assert process.stderr and process.stderr.readline() == b"stays\n", "asked once the rank has ended"
        assert process.poll() is None
        process.terminate() if told else (tmp_path / "gate").touch()
        assert process.wait(LIMIT_S) == 90


def test_a_killed_keeper_takes_the_rank_with_it() -> None:
    with kept("signal.signal(15, lambda *_: None); time.sleep(600)") as process:
        rank = rank_of(process.pid)
        process.kill()
        assert process.wait(LIMIT_S) == -9
        wait_for_end(rank)


def test_a_killed_keeper_takes_a_stopped_rank_with_it() -> None:
    with kept("time.sleep(600)") as process:
        rank = rank_of(process.pid)
        os.kill(rank, signal.SIGSTOP)
        process.kill()
        wait_for_end(rank)


def test_the_keeper_is_small() -> None:
    with kept("time.sleep(600)", "Saying") as process:
        assert process.stderr and process.stderr.readline() == b"started\n"
        status = Path(f"/proc/{process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        assert int(fields["RssAnon"].split()[0]) < 12 * 1024, "KiB of its own"
        assert fields["Threads"].strip() == "1"
        assert fields["Name"].strip() == "chaoskit-keeper"


def test_a_rank_in_the_foreground_of_a_terminal_can_read_from_it() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PYTHONPATH"] = ROOT
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, "print('got', input())"])
    said = b""
    os.write(terminal, b"typed\n")
    while b"got typed" not in said:
        assert select.select([terminal], [], [], LIMIT_S)[0], said
        said += os.read(terminal, 1024)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
