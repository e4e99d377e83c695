"""Start-up of `chaoskit --help` and `chaoskit list`: budget 0.15 s, against a bare interpreter.

python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from _figures import Budget, end, figure, heading, ratio

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "chaoskit --help": [sys.executable, "-m", "chaoskit", "--help"],
    "chaoskit list": [sys.executable, "-m", "chaoskit", "list"],
}
BUDGET = Budget(0.15, at=99)


def once_s(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of the command; on a machine with other work the second says more."""
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    taken = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    heading("start-up")
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    cpu: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for round_ in range(-1, rounds):  # the first one fills the caches
        for name, command in COMMANDS.items():
            seconds, cpu_s = once_s(command)
            if round_ >= 0:
                taken[name].append(seconds)
                cpu[name].append(cpu_s)
    bare, *ours = COMMANDS
    figure(bare, taken[bare])
    kept = [figure(name, taken[name], BUDGET) for name in ours]
    for name in COMMANDS:
        figure(f"{name}, CPU time", cpu[name])
    for name in ours:
        ratio(f"{name} against {bare}", taken[bare], taken[name])
    end(kept)


if __name__ == "__main__":
    main()
