"""What is known of the environment variables that profiles and scenarios set: when they are read, what reads
them, and since when.

A variable that is read before a process could still set it has to come from the launcher; one that only
NCCL reads is *not applicable* on gloo. The tables are data; where each entry was read stands in it.
"""

from __future__ import annotations

from chaoskit.profiles import process, torch_any, torch_nccl
from chaoskit.profiles.variable import BOTH, GLOO, NCCL, EnvVariable, ReadWhen

__all__ = ["BOTH", "GLOO", "NCCL", "NOBODY_READS", "VARIABLES", "EnvVariable", "ReadWhen", "lookup"]

_KNOWN = (*process.VARIABLES, *torch_any.VARIABLES, *torch_nccl.VARIABLES)

VARIABLES: dict[str, EnvVariable] = {variable.name: variable for variable in _KNOWN}
"""What is known, by name."""

_BY_CALL = "pass timeout= to init_process_group, or use the guard timeouts"
NOBODY_READS: dict[str, str] = {
    "NCCL_TIMEOUT": _BY_CALL,
    "NCCL_TIMEOUT_SEC": _BY_CALL,
    "NCCL_TIMEOUT_MS": _BY_CALL,
    "TORCH_NCCL_TIMEOUT": _BY_CALL,
    "TORCH_NCCL_TIMEOUT_SEC": _BY_CALL,
    "TORCH_DISTRIBUTED_TIMEOUT": _BY_CALL,
    "TORCH_DIST_TIMEOUT": _BY_CALL,
    "GLOO_TIMEOUT": _BY_CALL,
    "GLOO_TIMEOUT_SECONDS": _BY_CALL,
    "NCCL_HEARTBEAT_TIMEOUT_SEC": "the name is TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "NCCL_ENABLE_MONITORING": "the name is TORCH_NCCL_ENABLE_MONITORING",
    "NCCL_ABORT_ON_ERROR": "what it asks for is TORCH_NCCL_ASYNC_ERROR_HANDLING, 3 by default",
}
"""Names that are passed around, and what to write instead: they stand in no torch from 2.4 to 2.15 and in no
NCCL from 2.18 to 2.30. A framework or script may read one by itself."""


def lookup(name: str) -> EnvVariable:
    """Return what is known of ``name``. Every ``NCCL_`` variable is NCCL's own; of any other that is
    unknown the safe assumption is made: read at start-up, and by everything."""
    if name in VARIABLES:
        return VARIABLES[name]
    if name.startswith(("NCCL_", "TORCH_NCCL_")):
        return EnvVariable(name, "group", NCCL, "NCCL")
    return EnvVariable(name, "start-up", BOTH, "unknown")
