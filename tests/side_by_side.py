"""Runs pytest several times side by side over one set of tests (see claims.py), and shows each run in full.

    python tests/side_by_side.py RUNS [PYTEST OPTIONS…]

Exits with the first code that is neither 0 nor 5 (a run that found all files taken has run nothing).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from claims import VARIABLE

NOTHING_RUN = 5


def main() -> int:
    runs, options = int(sys.argv[1]), sys.argv[2:]
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ck-claims-") as folder:
        environment = {**os.environ, VARIABLE: folder}
        command = [sys.executable, "-m", "pytest", "-o", "console_output_style=classic", *options]
        logs = [Path(folder, f"run{number}.log") for number in range(runs)]
        started = []
        for log in logs:
            with log.open("wb") as file:
                started.append(
                    subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
                )
        signal.signal(signal.SIGTERM, lambda *_: [run.terminate() for run in started])
        codes = []
        for number, (run, log) in enumerate(zip(started, logs, strict=True), 1):
            codes.append(_waited(run))
            print(f"===== tests, run {number} of {runs} (exit {codes[-1]})", flush=True)
            sys.stdout.buffer.write(log.read_bytes())
            sys.stdout.flush()
    print(f"===== tests: {runs} runs side by side in {time.monotonic() - start:.0f} s, exit codes {codes}")
    return next((code for code in codes if code not in (0, NOTHING_RUN)), 0 if 0 in codes else NOTHING_RUN)


def _waited(run: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return run.wait()
        except KeyboardInterrupt:  # the runs have got it, too, and end by themselves
            continue


if __name__ == "__main__":
    sys.exit(main())
