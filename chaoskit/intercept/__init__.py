"""Lets listeners see, change, skip or repeat every collective that a rank issues.

`install()` puts a wrapper around each process group that torch makes from then on. Collectives are seen
whether Python or C++ (DDP's reducer, functional collectives) issues them, in any group. Both the tap that
fires faults and the guards that protect a job are listeners.

Not seen is what goes past the process group: a method called on a backend itself
(`group._get_backend(device).allreduce(…)`), a group that a program builds with the constructors of
ProcessGroup or ProcessGroupGloo, `torch.ops.c10d` called inside TorchScript, operators of
`torch.ops.symm_mem` (they write into the memory of other GPUs), and RPC. On gloo a send, recv or
reduce_scatter whose Work the program drops is seen, but never reported as ended, as torch offers nothing to
learn it by.

This package may not decide anything: it knows no fault, guard, file or clock, and imports nothing but the
standard library and torch, so that a guard built on it can be deployed alone.
"""

from chaoskit.intercept.call import Call
from chaoskit.intercept.group import Intercepted
from chaoskit.intercept.hooks import install, is_installed, uninstall
from chaoskit.intercept.listeners import Listener, Proceed, add, remove
from chaoskit.intercept.ops import collective_methods, op_of
from chaoskit.intercept.where import user_site
from chaoskit.intercept.work import finished, settle

__all__ = [
    "Call",
    "Intercepted",
    "Listener",
    "Proceed",
    "add",
    "collective_methods",
    "finished",
    "install",
    "is_installed",
    "op_of",
    "remove",
    "settle",
    "uninstall",
    "user_site",
]
