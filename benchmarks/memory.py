"""Memory of chaoskit beside the ranks while a rank prints gigabytes. Budget: 150 MiB, whatever it prints.

What prints is a fault of this benchmark's own, made known as another package would (an entry point). Counted
is what each process of chaoskit has for itself alone (USS) while there are ranks: what a fork server shares
with the ranks forked from it is the ranks' torch. What it takes before that is printed beside it.

    python benchmarks/memory.py [GIBIBYTES]
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil
from _figures import end, heading, note

BUDGET_MIB = 150
SAMPLE_S = 0.05
RUNNER, SERVERS, WARDENS = "runner", "fork server", "wardens"
TOGETHER, ALONE = "all while ranks run", "fork server before the ranks"
PLUGIN = '''
import os
from dataclasses import dataclass
from typing import ClassVar

from chaoskit.faults.family import ANYWHERE, Moment, RankFault
from chaoskit.model import RankSet


@dataclass(frozen=True, slots=True)
class Chatter(RankFault):
    """The rank prints ``bytes`` bytes.

    Example:

        faults:
          - chatter: {rank: 1, bytes: 1024}
            when: {op: all_reduce, nth: 8}
    """

    name: ClassVar[str] = "chatter"
    triggers: ClassVar[frozenset[str]] = ANYWHERE

    rank: RankSet
    bytes: int

    def fire(self, here: Moment) -> None:
        line = b"0123456789abcde\\n" * 65536
        for _ in range(self.bytes // len(line)):
            left = memoryview(line)
            while left:
                left = left[os.write(1, left):]
'''
SCENARIO = """
name: rank-prints
summary: A rank prints gigabytes.
family: process
workload: all-reduce-loop
topology: {{ranks: 4, backend: gloo}}
healthy: true
faults:
  - chatter: {{rank: 1, bytes: {bytes}}}
    when: {{op: all_reduce, nth: 8}}
arms:
  control: {{profile: torch-defaults, expect: {{outcome: completed}}}}
  hardened: {{profile: torch-defaults, expect: {{outcome: completed}}}}
"""


def lay_out(folder: Path, gibibytes: float) -> Path:
    """Write the plug-in, as if installed, and the scenario; return the scenario's file."""
    (folder / "chatter.py").write_text(PLUGIN)
    metadata = folder / "chatter-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: chatter\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("[chaoskit.faults]\nchatter = chatter:Chatter\n")
    file = folder / "rank-prints.yaml"
    file.write_text(SCENARIO.format(bytes=int(gibibytes * 2**30)))
    return file


def sample(runner: psutil.Process, peaks: dict[str, float]) -> None:
    """Add the memory of chaoskit's own processes now: three generations, the next one are the ranks."""
    servers = runner.children()
    wardens = [warden for server in servers for warden in server.children()]
    kinds = {RUNNER: [runner], SERVERS: servers, WARDENS: wardens}
    now = {kind: sum(own_mib(process) for process in processes) for kind, processes in kinds.items()}
    if any(warden.children() for warden in wardens):
        now[TOGETHER] = sum(now.values())
    else:  # no ranks yet that the server could share its torch with
        now = {RUNNER: now[RUNNER], ALONE: now[SERVERS]}
    for kind, mib in now.items():
        peaks[kind] = max(peaks[kind], mib)


def own_mib(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return float(process.memory_full_info().uss / 2**20)
    return 0.0  # it has ended


def main() -> None:
    gibibytes = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    heading(f"memory beside the ranks while a rank prints {gibibytes:g} GiB")
    peaks: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory(prefix="chaoskit-benchmark-") as name:
        folder = Path(name)
        file = lay_out(folder, gibibytes)
        path = os.pathsep.join([name, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "chaoskit", "run", str(file), "--arm", "control", "--timeout", "120"]
        with subprocess.Popen(
            [*command, "--runs-dir", str(folder / "runs")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path},
        ) as process:
            runner = psutil.Process(process.pid)
            while process.poll() is None:
                with contextlib.suppress(psutil.Error):
                    sample(runner, peaks)
                time.sleep(SAMPLE_S)
            assert process.stdout is not None
            said = process.stdout.read().decode()
        kept_mib = sum(f.stat().st_size for f in (folder / "runs").rglob("*") if f.is_file()) / 2**20
    for kind, mib in peaks.items():
        note(f"{kind:<28} {mib:6.1f} MiB at most")
    note(f"kept of the run on disk      {kept_mib:6.2f} MiB")
    note(f"exit code {process.returncode}")
    if process.returncode not in (0, 2):
        print(said)
    beside = peaks[TOGETHER]
    note(f"budget {BUDGET_MIB} MiB beside the ranks: {'kept' if beside <= BUDGET_MIB else 'EXCEEDED'}")
    end([beside <= BUDGET_MIB])


if __name__ == "__main__":
    main()
