"""What the switch and the warden say to each other, besides events as lines of JSON. Loads nothing."""

from __future__ import annotations

from typing import Final

MESSAGE_BYTES: Final = 65536

# The switch to the warden:
READY: Final = b"ready"  # the network is there
FAILED: Final = b"failed "  # and why
LOST: Final = b"lost "  # and the host that will not answer any more
BACK: Final = b"back "  # and the host that answers again, rebooted or thawed
TESTED: Final = b"tested"  # all PathTested of the test have been sent

# The warden to the switch:
TEST: Final = b"test"
