"""``python -m chaoskit.guards [--profile NAME|FILE] script.py [args…]``: run a script with guards armed
first.

The script runs as ``__main__`` with its own ``sys.argv``, so it works under any launcher:
``torchrun … -m chaoskit.guards --profile recommended train.py --epochs 3``. Needs torch alone.
"""

from __future__ import annotations

import os
import runpy
import sys

from chaoskit.errors import ExitCode, InvalidInput
from chaoskit.guards.arming import install

USAGE = "usage: python -m chaoskit.guards [--profile NAME|FILE] script.py [args…]"


def main(arguments: list[str]) -> int:
    """Arm, then run the script in this process. Returns only where the script does."""
    profile = "recommended"
    if arguments[:1] == ["--profile"] and len(arguments) > 1:
        profile, arguments = arguments[1], arguments[2:]
    elif arguments and arguments[0].startswith("--profile="):
        profile, arguments = arguments[0].partition("=")[2], arguments[1:]
    if not arguments or arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return ExitCode.USAGE
    try:
        install(profile)
    except InvalidInput as error:
        print(f"chaoskit: {error}", file=sys.stderr)
        return error.exit_code
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))  # as for `python script.py`
    runpy.run_path(arguments[0], run_name="__main__")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
