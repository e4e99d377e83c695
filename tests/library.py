"""The library's scenarios, read once per run of the tests: all of them take a second of a core."""

from __future__ import annotations

import functools

from chaoskit.model import Scenario
from chaoskit.scenario import load_library


@functools.cache
def scenarios() -> tuple[Scenario, ...]:
    return tuple(load_library())
