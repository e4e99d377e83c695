"""Puts guards to work in this process: what a user's script calls, without chaoskit's runner."""

from __future__ import annotations

import os
from collections.abc import Sequence

from chaoskit.errors import usage
from chaoskit.guards import sidecar
from chaoskit.guards.context import GuardContext, StandaloneContext, say
from chaoskit.guards.launcher_gaps import gaps
from chaoskit.guards.profile import load_profile
from chaoskit.model import Guard


def install(profile: str = "", *, guards: Sequence[Guard] = (), context: GuardContext | None = None) -> None:
    """Arm the rank-resident guards of ``profile`` (a built-in name or a file) and ``guards``, in this
    process.

    Call it once, on the main thread, before ``init_process_group``. Variables of the profile that are read
    when a process group forms are set where they are unset; those that Python or torch read earlier are
    named on stderr instead, as they must come from the launcher, and so are the rules of the profile that
    this launcher does not follow. Raises InvalidInput where the profile is unknown or not readable.
    """
    if not profile and not guards:
        raise usage(
            "install() needs a profile or guards", 'for example chaoskit.guards.install("recommended")'
        )
    loaded = load_profile(profile) if profile else None
    rank = context or StandaloneContext()
    if loaded is not None:
        _set_environment(loaded.env, rank)
        me = sidecar.identity(os.environ)
        if me.rank == 0 and me.world_size > 1:
            for line in gaps(loaded, os.environ, kept=sidecar.has_keeper()):
                say(line)
    arm([*(loaded.guards if loaded else ()), *guards], rank)


def arm(guards: Sequence[Guard], rank: GuardContext) -> None:
    """Arm those of ``guards`` that have an effect on the rank's backend and live in the rank, or beside it
    where it has a keeper; announce each."""
    for guard in guards:
        if guard.lives_in not in ("rank", "sidecar"):
            continue
        effective: tuple[str, ...] | None = None
        if not rank.backend or rank.backend in guard.backends:
            effective = guard.arm(rank)  # type: ignore[attr-defined]  # family.check requires it
        rank.armed(guard.name, effective or (), applicable=effective is not None)


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
