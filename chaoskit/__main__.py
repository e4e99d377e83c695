"""``python -m chaoskit``: the command line."""

import sys

from chaoskit.cli import main

if __name__ == "__main__":
    sys.exit(main())
