"""Lets several runs of pytest share one set of tests: each takes the next file that nobody has taken yet.

Most tests wait for a hang to be noticed, so runs side by side end sooner. Each is a run of its own, with its
own servers and its own check of what is left behind. Started by side_by_side.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "CHAOSKIT_TEST_CLAIMS"
"""The folder in which the runs side by side claim files."""
FILES: pytest.StashKey[list[pytest.File]] = pytest.StashKey()
LONGEST_FIRST = (
    "faults/test_on_gloo.py", "faults/test_on_scripts.py", "faults/test_machine.py",
    "guards/test_sidecar_keepers.py", "test_watch.py", "test_elsewhere.py", "test_torchrun.py",
    "intercept/test_parallel.py", "test_engine.py", "matrix/test_making.py", "cost/test_measuring.py",
    "workloads/test_workloads.py", "test_supervisor.py", "test_interrupt.py", "test_nasty.py",
)  # fmt: skip
"""The last to start must not be the longest."""


def pytest_collection(session: pytest.Session) -> bool | None:
    """Reading all files takes half a minute: here folders are read, and each run reads the files it takes."""
    if VARIABLE not in os.environ:
        return None
    session.perform_collect(genitems=False)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """The first call is for the folders: whatever their conftest.py has can only be read now."""
    if VARIABLE in os.environ and FILES not in session.config.stash:
        session.config.stash[FILES] = [file for node in items for file in _files(node)]


def _files(node: pytest.Item | pytest.Collector) -> Iterator[pytest.File]:
    if isinstance(node, pytest.File):
        yield node
    elif isinstance(node, pytest.Directory):
        report = node.ihook.pytest_make_collect_report(collector=node)
        node.ihook.pytest_collectreport(report=report)
        for child in report.result:
            yield from _files(child)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    total = 0
    claimed = _claimed(session, Path(folder))
    item = next(claimed, None)
    while item is not None:
        total += 1
        following = next(claimed, None)  # claimed before it is needed: fixtures are torn down by it
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    session.testscollected = total
    return True


def _claimed(session: pytest.Session, folder: Path) -> Iterator[pytest.Item]:
    for file in sorted(session.config.stash[FILES], key=lambda file: (_place(file.path), file.path)):
        try:
            (folder / "-".join(file.path.parts[-3:])).mkdir()
        except FileExistsError:
            continue
        items = list(session.genitems(file))
        session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
        yield from items


def _place(path: Path) -> int:
    ends = [i for i, end in enumerate(LONGEST_FIRST) if path.as_posix().endswith(f"tests/{end}")]
    return ends[0] if ends else len(LONGEST_FIRST)
