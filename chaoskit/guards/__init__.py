"""Protections for a training job, one file each, for a user's own script as much as for chaoskit's arms.

Two lines at the top of a script, before ``init_process_group``, are enough::

    import chaoskit.guards
    chaoskit.guards.install("recommended")

or, without touching the script, ``python -m chaoskit.guards --profile recommended train.py …``.
A guard never touches a healthy run, and never hides a failure: each ends its rank with its own
documented exit code and one line on stderr. Guards need torch alone, and import it only when armed.
"""

from typing import TYPE_CHECKING

from chaoskit.guards.arming import install
from chaoskit.guards.context import GuardContext, StandaloneContext
from chaoskit.guards.family import REGISTRY
from chaoskit.progress import finished, phase, step_done

if TYPE_CHECKING:
    from chaoskit.guards.job_checkpoint import CheckpointFailed, load_checkpoint, save_checkpoint

__all__ = [
    "REGISTRY",
    "CheckpointFailed",
    "GuardContext",
    "StandaloneContext",
    "finished",
    "install",
    "load_checkpoint",
    "phase",
    "save_checkpoint",
    "step_done",
]


def __getattr__(name: str) -> object:
    if name in ("CheckpointFailed", "load_checkpoint", "save_checkpoint"):  # few scripts need them
        from chaoskit.guards import job_checkpoint

        return getattr(job_checkpoint, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
