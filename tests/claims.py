"""Lets several runs of pytest share one set of tests: each takes the next file that nobody has taken yet.

Most tests wait for a hang to be noticed, so runs side by side end sooner. Each is a run of its own, with its
own servers and its own check of what is left behind. Started by side_by_side.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

VARIABLE = "CHAOSKIT_TEST_CLAIMS"
"""The folder in which the runs side by side claim files."""
LONGEST_FIRST = (
    "faults/test_on_gloo.py", "faults/test_on_scripts.py", "faults/test_machine.py",
    "guards/test_sidecar_keepers.py", "test_watch.py", "test_elsewhere.py", "test_torchrun.py",
    "intercept/test_parallel.py", "test_engine.py", "matrix/test_making.py", "cost/test_measuring.py",
)  # fmt: skip
"""The last to start must not be the longest."""


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    folder = os.environ.get(VARIABLE)
    if not folder or session.testsfailed:
        return None
    claimed = _claimed(session.items, Path(folder))
    item = next(claimed, None)
    while item is not None:
        following = next(claimed, None)  # claimed before it is needed: fixtures are torn down by it
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def _claimed(items: list[pytest.Item], folder: Path) -> Iterator[pytest.Item]:
    files = [(path, list(group)) for path, group in groupby(items, key=lambda item: item.path)]
    for path, group in sorted(files, key=lambda entry: _place(entry[0])):
        try:
            (folder / "-".join(path.parts[-3:])).mkdir()
        except FileExistsError:
            continue
        yield from group


def _place(path: Path) -> int:
    ends = [i for i, end in enumerate(LONGEST_FIRST) if path.as_posix().endswith(f"tests/{end}")]
    return ends[0] if ends else len(LONGEST_FIRST)
