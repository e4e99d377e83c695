"""``python -m chaoskit``: the command line."""

import sys


def main() -> int:
    """Run the command line and return its exit code; Ctrl-C also ends the loading of modules in silence."""
    try:
        from chaoskit.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
