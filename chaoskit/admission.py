"""What has to be true before anything is run: of the request's numbers, and of the torch that is here."""

from __future__ import annotations

import math
import socket

from chaoskit import rundir
from chaoskit.errors import InvalidInput, Problem, usage
from chaoskit.request import RunRequest

TORCH_MIN = (2, 4)
"""The oldest torch whose failures and texts are known here; only 2.13 has been run."""


def check(request: RunRequest) -> None:
    """Raise InvalidInput with everything that is wrong with the numbers of a request."""
    problems = [
        Problem(f"{name} is {value!r}", hint=f"{name} has to be {wanted}")
        for name, value, good, wanted in (
            ("repeat", request.repeat, request.repeat >= 1, "1 or more"),
            ("jobs", request.jobs, request.jobs is None or request.jobs >= 1, "1 or more"),
            ("ranks", request.ranks, request.ranks is None or request.ranks >= 1, "1 or more"),
            ("timeout", request.timeout_s, _positive(request.timeout_s), "a positive number of seconds"),
            ("time_scale", request.time_scale, _positive(request.time_scale), "a positive number, or None"),
        )
        if not good
    ]
    if problems:
        raise InvalidInput(problems)


def _positive(value: float | None) -> bool:
    return value is None or (type(value) in (int, float) and 0 < value < math.inf)


def torch_version() -> str:
    """Return the version of the torch that is installed. Raises InvalidInput where there is none to use."""
    found = rundir.version("torch")
    if not found:
        raise usage("torch is not installed here", "install the build that you want to test, then run again")
    numbers = [int(part) for part in found.split("+")[0].split(".")[:2] if part.isdigit()]
    if numbers < list(TORCH_MIN):
        wanted = ".".join(map(str, TORCH_MIN))
        raise usage(
            f"torch {found} is too old: chaoskit knows torch {wanted} and newer", "install a newer torch"
        )
    return found


def free_port() -> int:
    """Return a port that nobody listens on now, among those that the kernel gives out."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
