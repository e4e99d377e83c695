"""``python -m chaoskit.guards [--profile NAME|FILE] (script.py | -m module) [args…]``: run a program with
guards armed first.

It runs as ``__main__`` with its own ``sys.argv``, so this works under any launcher:
``torchrun … -m chaoskit.guards --profile recommended train.py --epochs 3``. Needs torch alone. With the guard
``sidecar`` in the profile the process forks before torch is loaded: the parent becomes the rank's keeper.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from chaoskit.errors import ExitCode, InvalidInput, Problem, usage
from chaoskit.guards import program, sidecar
from chaoskit.guards.arming import install
from chaoskit.guards.profile import load_profile
from chaoskit.sidecar.keeper import keep

USAGE = "usage: python -m chaoskit.guards [--profile NAME|FILE] (script.py | -m module) [args…]"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for. ``target`` is a file, or the name of a module."""

    profile: str
    target: str
    is_module: bool
    arguments: list[str]


def main(words: list[str]) -> int:
    """Split off the keeper, arm, run the program. Returns only where the program does."""
    try:
        request = parse(words)
        profile = load_profile(request.profile)
    except InvalidInput as error:
        print(f"chaoskit: {error}", file=sys.stderr)
        return error.exit_code
    beside = profile.guard(sidecar.Sidecar.name)
    if isinstance(beside, sidecar.Sidecar):
        sidecar.kept_by(keep([beside.protection()]))
    program.hide_own_frames()
    install(request.profile)
    _run(request)
    return ExitCode.OK


def parse(words: list[str]) -> Request:
    """Read the command line. Raises InvalidInput."""
    profile, rest = "recommended", list(words)
    if rest[:1] == ["--profile"] and len(rest) > 1:
        profile, rest = rest[1], rest[2:]
    elif rest and rest[0].startswith("--profile="):
        profile, rest = rest[0].partition("=")[2], rest[1:]
    is_module = rest[:1] == ["-m"] and len(rest) > 1
    if is_module:
        rest = rest[1:]
    if not rest or rest[0].startswith("-"):
        raise InvalidInput([Problem(USAGE)])
    if not is_module and not os.path.isfile(rest[0]):
        raise usage(f"there is no script {rest[0]!r} in {os.getcwd()}", USAGE)
    return Request(profile, rest[0], is_module, rest[1:])


def _run(request: Request) -> None:
    run = program.run_module if request.is_module else program.run_script
    try:
        run(request.target, request.arguments)
    except SystemExit as leaving:
        if program.is_done(leaving):
            sidecar.work_done()
        raise
    sidecar.work_done()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
