"""The example in a guard's documentation is one that loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaoskit.guards import REGISTRY
from chaoskit.guards.profile import load_profile
from chaoskit.scenario import load_profile as load_with_every_check

WITH_EXAMPLE = [
    name for name in REGISTRY.names() if "```yaml" in (getattr(REGISTRY.get(name), "__doc__", "") or "")
]


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_it_loads_both_ways(name: str, tmp_path: Path) -> None:
    doc = REGISTRY.get(name).__doc__ or ""  # type: ignore[union-attr]
    example = re.search(r"```yaml\n(.*?)```", doc, re.DOTALL)
    assert example is not None
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nsummary: an example\n" + re.sub(r"(?m)^    ", "", example.group(1)))
    assert [guard.name for guard in load_profile(file).guards] == [name]
    assert load_with_every_check(str(file)).guards == load_profile(file).guards


def test_these_have_one() -> None:
    assert set(WITH_EXAMPLE) >= {
        "adaptive_timeout",
        "checkpoint",
        "consistency",
        "loader_check",
        "step_heartbeat",
    }
