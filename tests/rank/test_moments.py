"""Moments that are none of a collective: each fires in a real rank, in a script, just where it is meant."""

from __future__ import annotations

import os
import threading
import types
from pathlib import Path

import pytest
from scripted import run_script

from chaoskit.faults.kill import Kill
from chaoskit.faults.raise_ import Raise
from chaoskit.history import BATCHES, Finished, Injected, Malfunction, Raised, Reached
from chaoskit.model import Phase, Trigger
from chaoskit.rank import writes

pytestmark = pytest.mark.timeout(300)
KILL = Kill((0,))

SCRIPT = """\
    import os, pathlib, time, torch, torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    from mine.parts import Box, note
    from mine.parts import done

    def train_step(n):
        note("step", n)

    class Thing:
        def __init__(self, n):
            note("thing", n)
        @staticmethod
        def go(n):
            note("go", n)

    def main():
        dist.init_process_group("gloo")
        inner = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))
        net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), inner, nn.Tanh()))
        inner[1].register_forward_hook(lambda *_: note("forward 1.1", 0))
        inner[1].weight.register_hook(lambda _: note("backward 1.1", 0))
        folder = pathlib.Path(os.environ["CHAOSKIT_SCRATCH"])
        for n, (x,) in enumerate(DataLoader(TensorDataset(torch.ones(6, 4)), batch_size=2), 1):
            note("batch", n); train_step(n); Thing(n); Thing.go(n); Box.s(n); Box.c(n)
            y = net(x); note("forward", n)
            y.sum().backward(); note("backward", n)
            done(n)
            torch.save(torch.zeros(250_000), folder / f"{n}.pt"); note("saved", n)
            with open(folder / f"{n}.txt", "w") as file:
                for _ in range(PARTS if n == 3 else 1):
                    file.write("x" * 1_000_000)
                    time.sleep(0.01)
            note("written", n)
        dist.destroy_process_group()

    if __name__ == "__main__":
        main()
"""
LONG = SCRIPT.replace("PARTS", "3000")
"""Writes of a text go on for so long that no fault is late, whatever else the machine does."""
SCRIPT = SCRIPT.replace("PARTS", "1")
PARTS = """\
def note(what, n):
    print(what, n, flush=True)

def done(n):
    note("done", n)

class Box:
    @staticmethod
    def s(n):
        note("s", n)
    @classmethod
    def c(cls, n):
        note(f"c {cls.__name__}", n)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "parts.py").write_text(PARTS)
    return tmp_path


def call(name: str, phase: str = "before") -> Trigger:
    return Trigger("call", call=name, nth=3, phase=Phase(phase))


def module(kind: str, name: str, phase: str = "before") -> Trigger:
    return Trigger(kind, module=name, nth=3, phase=Phase(phase))  # type: ignore[arg-type]


CASES = [
    (call("__main__.train_step"), "batch 3"),
    (call("__main__.Thing"), "step 3"),
    (call("__main__.Thing.go", "after"), "go 3"),
    (call("mine.parts.done"), "backward 3"),
    (call("mine.parts.Box.s"), "go 3"),
    (call("mine.parts.Box.c", "after"), "c Box 3"),
    (call("torch.save"), "done 3"),
    (call("torch.save", "after"), "done 3"),
    (module("forward", "1.1"), "c Box 3"),
    (module("forward", "module.1.1", "after"), "c Box 3"),  # before hooks of the script's own
    (module("forward", "Tanh", "after"), "forward 1.1 0"),
    (module("backward", "1.1"), "forward 3"),
    (module("backward", "1.1", "after"), "backward 1.1 0"),
    (module("backward", "0", "after"), "backward 1.1 0"),  # its input has no gradient, its parameters have
    (Trigger("loader", nth=3), "written 2"),
    (Trigger("loader", nth=3, phase=Phase.AFTER), "written 2"),
    (Trigger("write", path="*.pt", nth=3), "done 3"),
    (Trigger("write", path="{scratch}/?.txt", nth=3), "saved 3"),
]


@pytest.mark.parametrize(("when", "last"), CASES, ids=[str(c[0]) for c in CASES])
def test_it_fires_where_it_is_meant(folder: Path, when: Trigger, last: str) -> None:
    run = run_script(folder, LONG if when.kind == "write" else SCRIPT, (KILL, when))
    assert not run.of(Malfunction)
    assert run.exit_codes == {0: -9}, run.output[0]
    assert len(run.of(Injected)) == 1
    assert run.output[0].splitlines()[-1] == last


def test_a_file_that_torch_saves_has_its_first_byte_when_it_fires_and_no_second(folder: Path) -> None:
    run_script(folder, SCRIPT, (KILL, Trigger("write", path="*.pt", nth=3)))
    assert [(folder / f"{n}.pt").stat().st_size for n in (2, 3)] == [(folder / "1.pt").stat().st_size, 1]


def test_a_file_that_python_writes_is_met_in_its_first_part(folder: Path) -> None:
    run_script(folder, LONG, (KILL, Trigger("write", path="*.txt", nth=3)))
    assert 0 < (folder / "3.txt").stat().st_size < 1_000_000_000  # of 3 GB, which take 30 s


def test_folders_of_runs_and_many_others_keep_no_file_from_being_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    base = folder / "own"
    for many in range(20):
        (folder / f"data{many}" / "deep").mkdir(parents=True)
    run = folder / "runs" / "20260102-030405-6"
    (run / "scenario" / "arm").mkdir(parents=True)
    (run / "run.json").touch()
    base.mkdir()
    monkeypatch.setattr(writes, "FOLDERS_MAX", 23)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CHAOSKIT_SCRATCH", str(base))
    told = types.SimpleNamespace(matches=lambda path: path.endswith(".pt"), ended=lambda path: None)
    told.first_byte = seen.append
    told.waiting = [writes._Waiting(None, writes.patterns("*.pt"))]  # type: ignore[arg-type]
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)  # this one reads itself
    watched = writes._Folders(told)
    watched.start()
    try:
        names = set(watched._paths.values())
        assert {str(base), str(folder), str(folder / "data0"), str(folder / "runs")} <= names
        assert len(names) == 24
        assert not [name for name in names if name.endswith(("deep", "arm", "-6"))]
        (run / "scenario" / "arm" / "other.pt").write_bytes(b"x")
        (base / "new").mkdir()
        (base / "new" / "mine.pt").write_bytes(b"x")
        while not seen:
            watched._take(os.read(watched._fd, 65536))
        assert seen[:1] == [str(base / "new" / "mine.pt")]
    finally:
        os.close(watched._fd)


def test_a_run_that_begins_meanwhile_is_another_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CHAOSKIT_SCRATCH", raising=False)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)  # this one reads itself
    seen: list[str] = []
    told = types.SimpleNamespace(matches=lambda path: path.endswith(".pt"), ended=lambda path: None)
    told.first_byte = seen.append
    told.waiting = [writes._Waiting(None, writes.patterns("*.pt"))]  # type: ignore[arg-type]
    watched = writes._Folders(told)
    watched.start()
    try:
        begun = folder / "20260102-030405-7"
        begun.mkdir()
        watched._take(os.read(watched._fd, 65536))
        assert str(begun) in watched._paths.values()  # it has no run.json yet
        (begun / "run.json").touch()
        (begun / "theirs.pt").write_bytes(b"x")
        (folder / "mine.pt").write_bytes(b"x")
        while not seen:
            watched._take(os.read(watched._fd, 65536))
        assert seen == [str(folder / "mine.pt")]
    finally:
        os.close(watched._fd)


def test_what_is_saved_is_the_same_with_and_without_a_trigger(folder: Path) -> None:
    run_script(folder, SCRIPT)
    plain = {n: (folder / f"{n}.pt").read_bytes() for n in (1, 2, 3)}
    run = run_script(folder, SCRIPT, (KILL, Trigger("write", path="*.pt", nth=4)))
    assert run.exit_codes == {0: 0}
    assert {n: (folder / f"{n}.pt").read_bytes() for n in (1, 2, 3)} == plain
    assert ("write of *.pt", 3) in [(e.what, e.count) for e in run.of(Reached)]


@pytest.mark.parametrize(
    "when", [CASES[0][0], CASES[8][0], CASES[11][0], CASES[14][0], CASES[16][0], CASES[17][0]]
)
def test_an_exception_comes_out_of_the_scripts_own_line(folder: Path, when: Trigger) -> None:
    run = run_script(folder, SCRIPT, (Raise((0,), "ValueError: bad batch"), when))
    assert run.exit_codes == {0: 1}
    (raised,) = run.of(Raised)
    assert (raised.type, raised.message) == ("ValueError", "bad batch")
    assert raised.site.rpartition(":")[0].endswith("train.py")


@pytest.mark.parametrize(
    ("when", "what", "count"),
    [
        (Trigger("forward", module="nope"), "forward of nope", 0),
        (Trigger("backward", module="0", nth=30), "backward of 0", 3),
        (Trigger("loader", nth=30), BATCHES, 3),
        (Trigger("call", call="mine.parts.nope"), "call of mine.parts.nope", 0),
        (Trigger("call", call="__main__.train_step", nth=4), "call of __main__.train_step", 3),
        (Trigger("write", path="/nowhere/*.pt"), "write of /nowhere/*.pt", 0),
    ],
)
def test_a_moment_that_never_comes_is_told_with_how_far_it_got(
    folder: Path, when: Trigger, what: str, count: int
) -> None:
    run = run_script(folder, SCRIPT, (KILL, when))
    assert run.exit_codes == {0: 0}
    assert not run.of(Injected)
    assert (what, count) in [(e.what, e.count) for e in run.of(Reached)]
    assert len(run.of(Finished)) == 1


def test_a_module_run_by_name_has_its_own_functions(folder: Path) -> None:
    (folder / "mine" / "train.py").write_text(
        "def f(n):\n    print(n, flush=True)\nfor n in range(9):\n    f(n)\n"
    )
    script = "import runpy; runpy._run_module_as_main('mine.train')"  # what `python -m` does
    run = run_script(folder, script, (KILL, call("__main__.f")))
    assert run.exit_codes == {0: -9}, run.output[0]
    assert run.output[0].splitlines()[-1] == "1"
