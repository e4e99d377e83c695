"""Forks ranks from a process that has torch loaded: a job then costs tenths of a second, not torch's import.

Reads one JSON list `[job, world, folder, intercepted]` a line from stdin, runs it, and answers with the
ranks' exit codes; ends with its stdin. conftest.py starts it. Not a test file.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import time
import traceback

import parallel_jobs
import rank_jobs

DEADLINE_S = 150  # a loaded machine takes more than a minute for the programs of parallel_jobs.py
# What the jobs, or the first optimizer step, would otherwise import in every rank.
PRELOAD = (
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
)


def start(*arguments):
    """Fork one rank; it dies with this process."""
    server = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() == server:
            rank_jobs.main(*arguments)
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait_all(children, deadline):
    """Exit codes in order; -9 for those that are killed at the deadline."""
    left = dict.fromkeys(children)
    # SIGCHLD ends the wait, so nothing is polled and nothing sleeps past the end of a rank.
    while None in left.values() and time.monotonic() < deadline:
        signal.sigtimedwait({signal.SIGCHLD}, max(0, deadline - time.monotonic()))
        for child in children:
            if left[child] is None:
                pid, status = os.waitpid(child, os.WNOHANG)
                left[child] = os.waitstatus_to_exitcode(status) if pid else None
    for child in children:
        if left[child] is None:
            os.kill(child, signal.SIGKILL)
            left[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return list(left.values())


def serve():
    rank_jobs.JOBS.update(parallel_jobs.JOBS)
    for module in PRELOAD:
        importlib.import_module(module)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for line in sys.stdin:
        job, world, folder, intercepted = json.loads(line)
        ranks = [start(job, rank, world, folder, intercepted) for rank in range(world)]
        print(json.dumps(wait_all(ranks, time.monotonic() + DEADLINE_S)), flush=True)


if __name__ == "__main__":
    serve()
