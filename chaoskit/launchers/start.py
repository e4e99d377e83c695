"""The first thing a forked warden runs. What ``multiprocess.forkserver`` unpickles and calls."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from chaoskit.launchers.launch import ArmLaunch


@dataclass(frozen=True, slots=True)
class WardenStart:
    """Sent to the server in place of a ``multiprocess.Process``.

    A Process would bring its authentication key, the rule that a daemon may have no children, and a
    join at the runner's exit.
    """

    launch: ArmLaunch

    def _bootstrap(self, parent_sentinel: int) -> int:
        """Run the warden. The descriptors come in the order in which the runner passed them."""
        from multiprocess import forkserver

        from chaoskit.launchers import rank_process
        from chaoskit.launchers.warden import Warden

        connection, *given = forkserver.get_inherited_fds()
        rank_process.close_all_but({0, 1, 2, connection, *given})
        here = iter(given)
        memfd, doorbell, release = (next(here) if fd >= 0 else -1 for fd in self.launch.descriptors)
        launch = dataclasses.replace(self.launch, memfd=memfd, doorbell=doorbell, release=release)
        Warden(launch, connection).run()
        return 0
