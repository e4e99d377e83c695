"""Runs jobs of rank_jobs.py on real gloo ranks, and leaves no process behind."""

import functools
import json
import os
import pickle
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


@pytest.fixture(scope="session")
def rank_server():
    """The fork server, for all tests of this folder."""
    path = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", os.path.join(HERE, "rank_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    with server:
        try:
            yield server
        finally:
            server.stdin.close()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture(scope="session")
def run_ranks(rank_server, tmp_path_factory):
    """`run_ranks(job, intercepted=True)` runs a job on two ranks, once, and returns what each reports."""

    @functools.cache
    def run(job, intercepted=True, world=2):
        folder = tmp_path_factory.mktemp(job)
        rank_server.stdin.write(json.dumps([job, world, str(folder), intercepted]) + "\n")
        rank_server.stdin.flush()
        codes = json.loads(rank_server.stdout.readline())
        assert codes == [0] * world, f"{job}: exit codes {codes}"
        return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(world)]

    return run
