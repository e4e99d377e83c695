"""Cases for the rules: settings and guards of a file that is not there, and a target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaoskit.checking import Finding, Setting, Subject, Target, check
from chaoskit.guards import REGISTRY
from chaoskit.model import Guard


@pytest.fixture(autouse=True)
def _no_cache_of_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def found() -> Callable[..., list[Finding]]:
    """Check variables (a mapping or lines), and guards as ``{"timeouts": {"collective_s": 5}}``."""

    def make(
        env: dict[str, str] | tuple[tuple[str, str], ...] = (),
        guards: dict[str, dict[str, object]] | None = None,
        target: Target | None = None,
        kind: str = "profile",
    ) -> list[Finding]:
        pairs = env.items() if isinstance(env, dict) else env
        settings = tuple(Setting(name, value, at) for at, (name, value) in enumerate(pairs, 1))
        made = tuple(_guard(name, values) for name, values in (guards or {}).items())
        subject = Subject(kind, "mine", settings, made, {g.name: 50 + at for at, g in enumerate(made)})  # type: ignore[arg-type]
        return list(check(subject, target or Target((2, 13), "2.13.0")))

    return make


def _guard(name: str, values: dict[str, object]) -> Guard:
    cls = REGISTRY.get(name)
    assert cls is not None
    return cls(**values)
