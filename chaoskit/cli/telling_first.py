"""What is told before any rank is started: what the ranks do not get, and what is wrong with a profile."""

from __future__ import annotations

import os
from typing import IO

from chaoskit.cli.printing import complain
from chaoskit.request import RunRequest


def tell_first(request: RunRequest, profile: str | None, stderr: IO[str] | None) -> None:
    """Tell all of it. ``profile`` is how the user called the profile."""
    tell_left_out(stderr)
    _tell_of_profile(request, profile or "")


def tell_left_out(stderr: IO[str] | None) -> None:
    """Say which variables of the caller the ranks do not get: no arm is to depend on them unseen."""
    from chaoskit.launchers.forkserver import LEFT_OUT

    names = sorted(name for name in os.environ if name.startswith(LEFT_OUT))
    if names and stderr is not None:
        print(f"not given to the ranks (put it into a profile to test it): {', '.join(names)}", file=stderr)


def _tell_of_profile(request: RunRequest, given: str) -> None:
    """Say in one line that something is wrong with the user's own profile. The built-in ones are as meant."""
    from chaoskit.cli.profiles_check import in_one_line
    from chaoskit.scenario import profile_names

    if request.profile is None or given in profile_names():
        return
    named = {b for s in request.scenarios for b in (request.backend or s.topology.backend,)}
    if line := in_one_line(request.profile, given, next(iter(named)) if len(named) == 1 else None):
        complain(line)
