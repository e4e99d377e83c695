"""Stands in for a launcher that starts processes and does nothing when one of them ends.

``python plain_launcher.py RANKS PORT COMMAND…`` prints ``RANK EXIT_CODE`` for each, as they end.
"""

from __future__ import annotations

import os
import subprocess
import sys


def main() -> None:
    ranks, port, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    running: dict[int, int] = {}
    for rank in range(ranks):
        env = {
            **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        }  # fmt: skip
        running[subprocess.Popen(command, env=env).pid] = rank
    while running:
        pid, status = os.wait()
        print("ended", running.pop(pid), os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
