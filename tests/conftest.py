"""For every test: the run as a whole leaves nothing behind on the machine (see leftovers.py).

The tests run in a child of the pytest that was started. The parent only waits: as the reaper of
the tests' orphans it makes descent exact (a daemon of a killed runner is still found) and collects
zombies as an init would, whatever process 1 of a container does.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import leftovers
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["claims", "real_runs"]  # fixtures for several folders; runs side by side

# One example, and the making of it, may take any time on a loaded machine. The examples are the same in
# every run, so that what is found is found by the change that brought it in;
# `--hypothesis-profile exploring` looks for others.
calm = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("exploring", calm)
settings.register_profile("chaoskit", calm, derandomize=True)
settings.load_profile("chaoskit")

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
WATCH: pytest.StashKey[leftovers.Watch] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.option.collectonly:
        _go_on_in_a_child()


def _go_on_in_a_child() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        return

    def pass_on(signum: int, frame: FrameType | None) -> None:
        os.kill(child, signum)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child, too
    signal.signal(signal.SIGTERM, pass_on)
    ended = 0
    while ended != child:
        ended, status = os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the run (as an error of its last test) when something is left at its end."""
    usual = tempfile.gettempdir()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", usual)  # tmp_path stays where one looks for it
    own = Path(tempfile.mkdtemp(prefix="ck-"))  # short: sockets lie in it
    tempfile.tempdir = os.environ["TMPDIR"] = str(own)
    watch = leftovers.Watch(os.getppid(), leftovers.Places(own), frozenset({os.getpid()}))
    request.config.stash[WATCH] = watch
    yield
    found = watch.settled()
    leftovers.end(found)
    tempfile.tempdir = os.environ["TMPDIR"] = usual
    shutil.rmtree(own, ignore_errors=True)
    if found:
        pytest.fail("the tests left behind:\n  " + "\n  ".join(map(str, found)), pytrace=False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What needs a GPU says so where there is none, and is not run."""
    if item.get_closest_marker("nccl") is not None:
        from chaoskit import capabilities

        capabilities._tried.cache_clear()  # another test may have shown it a machine that this is not
        nccl = capabilities.find("nccl")
        if not nccl.available:
            pytest.skip(f"nccl: {nccl.detail} (to have it: {nccl.remedy})")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Names the test behind a leftover. Fixtures of a wider scope may keep processes until the end."""
    if WATCH in item.config.stash:
        item.config.stash[WATCH].note(item.nodeid)
