"""Protections for a training job, one file each, for a user's own script as much as for chaoskit's arms.

Two lines at the top of a script, before ``init_process_group``, are enough::

    import chaoskit.guards
    chaoskit.guards.install("recommended")

or, without touching the script, ``python -m chaoskit.guards --profile recommended train.py …``.
A guard never touches a healthy run, and never hides a failure: each ends its rank with its own
documented exit code and one line on stderr. Guards need torch alone, and import it only when armed.
"""

from chaoskit.guards.arming import install
from chaoskit.guards.context import GuardContext, StandaloneContext
from chaoskit.guards.family import REGISTRY
from chaoskit.progress import finished, phase, step_done

__all__ = ["REGISTRY", "GuardContext", "StandaloneContext", "finished", "install", "phase", "step_done"]
