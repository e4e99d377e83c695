"""Puts guards to work in this process: what a user's script calls, without chaoskit's runner."""

from __future__ import annotations

import os
from collections.abc import Sequence

from chaoskit.errors import usage
from chaoskit.guards.context import GuardContext, StandaloneContext, say
from chaoskit.guards.profile import load_profile
from chaoskit.model import Guard


def install(profile: str = "", *, guards: Sequence[Guard] = (), context: GuardContext | None = None) -> None:
    """Arm the rank-resident guards of ``profile`` (a built-in name or a file) and ``guards``, in this
    process.

    Call it once, on the main thread, before ``init_process_group``. Variables of the profile that are read
    when a process group forms are set where they are unset; those that Python or torch read earlier are
    named on stderr instead, as they must come from the launcher. Guards that live in the launcher are
    named too. Raises InvalidInput where the profile is unknown or not readable.
    """
    if not profile and not guards:
        raise usage(
            "install() needs a profile or guards", 'for example chaoskit.guards.install("recommended")'
        )
    loaded = load_profile(profile) if profile else None
    rank = context or StandaloneContext()
    if loaded is not None:
        _set_environment(loaded.env, rank)
    arm([*(loaded.guards if loaded else ()), *guards], rank)


def arm(guards: Sequence[Guard], rank: GuardContext) -> None:
    """Arm those of ``guards`` that live in the rank and have an effect on its backend; announce each."""
    for guard in guards:
        if guard.lives_in != "rank":
            continue
        if rank.backend and rank.backend not in guard.backends:
            rank.armed(guard.name, (), applicable=False)
            continue
        rank.armed(guard.name, guard.arm(rank))  # type: ignore[attr-defined]  # family.check requires it


def _set_environment(env: tuple[tuple[str, str], ...], rank: GuardContext) -> None:
    from chaoskit.profiles.variables import lookup

    for name, value in env:
        if os.environ.get(name) == value:
            continue
        if name in os.environ:
            said = f"{name}={os.environ[name]} is set already and kept; the profile says {value}"
        elif lookup(name).read_when == "group":
            os.environ[name] = value
            continue
        else:
            said = f"{name}={value} has no effect any more in this process; let the launcher set it"
        if rank.rank <= 0:
            say(said)
