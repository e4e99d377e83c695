"""What is known of the environment variables that profiles and scenarios set: when they are read, and what
reads them.

A variable that is read before a process could still set it has to come from the launcher; one that only
NCCL reads is *not applicable* on gloo. From torch 2.4 to 2.13, read in the source or tried. Data only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chaoskit.model import Backend

ReadWhen = Literal["start-up", "import", "group"]
"""When the interpreter starts; when torch is imported (or first used); when a process group forms, or
later."""

BOTH: tuple[Backend, ...] = ("gloo", "nccl")
GLOO: tuple[Backend, ...] = ("gloo",)
NCCL: tuple[Backend, ...] = ("nccl",)


@dataclass(frozen=True, slots=True)
class EnvVariable:
    """One variable. ``reader`` says who reads it; ``note`` the trap, where there is one."""

    name: str
    read_when: ReadWhen
    backends: tuple[Backend, ...]
    reader: str
    note: str = ""


_KNOWN = (
    EnvVariable("PYTHONFAULTHANDLER", "start-up", BOTH, "Python"),
    EnvVariable("PYTHONUNBUFFERED", "start-up", BOTH, "Python"),
    EnvVariable("PYTHONHASHSEED", "start-up", BOTH, "Python"),
    EnvVariable("PYTHONDEVMODE", "start-up", BOTH, "Python"),
    EnvVariable("PYTHONMALLOC", "start-up", BOTH, "Python"),
    EnvVariable("MALLOC_ARENA_MAX", "start-up", BOTH, "glibc"),
    EnvVariable("LD_PRELOAD", "start-up", BOTH, "the dynamic linker"),
    EnvVariable("OMP_NUM_THREADS", "import", BOTH, "OpenMP", "torchrun sets 1 if it is unset"),
    EnvVariable("MKL_NUM_THREADS", "import", BOTH, "MKL"),
    EnvVariable("PYTORCH_CUDA_ALLOC_CONF", "import", NCCL, "torch's CUDA allocator"),
    EnvVariable("PYTORCH_ALLOC_CONF", "import", NCCL, "torch's CUDA allocator"),
    EnvVariable("PYTORCH_NVML_BASED_CUDA_CHECK", "import", NCCL, "torch.cuda"),
    EnvVariable("CUDA_VISIBLE_DEVICES", "import", NCCL, "CUDA"),
    EnvVariable("CUDA_LAUNCH_BLOCKING", "import", NCCL, "CUDA"),
    EnvVariable("TORCH_CPP_LOG_LEVEL", "import", BOTH, "torch"),
    EnvVariable("TORCH_SHOW_CPP_STACKTRACES", "import", BOTH, "torch"),
    EnvVariable(
        "TORCH_DISTRIBUTED_DEBUG",
        "import",
        BOTH,
        "torch.distributed",
        "DETAIL crashes gloo DDP scripts on torch 2.13",
    ),
    EnvVariable("TORCH_DIST_INIT_BARRIER", "group", BOTH, "torch.distributed"),
    EnvVariable("TORCH_FR_BUFFER_SIZE", "group", BOTH, "torch's flight recorder"),
    EnvVariable(
        "TORCH_GLOO_LAZY_INIT",
        "group",
        GLOO,
        "ProcessGroupGloo",
        "a missing peer shows at the first operation",
    ),
    EnvVariable("GLOO_SOCKET_IFNAME", "group", GLOO, "ProcessGroupGloo", "exact names, separated by commas"),
    EnvVariable("TP_SOCKET_IFNAME", "group", GLOO, "tensorpipe"),
    EnvVariable(
        "TORCH_NCCL_BLOCKING_WAIT",
        "group",
        NCCL,
        "ProcessGroupNCCL",
        "turns async error handling and the watchdog off",
    ),
    EnvVariable("NCCL_BLOCKING_WAIT", "group", NCCL, "ProcessGroupNCCL", "old name; the TORCH_ name wins"),
    EnvVariable(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", "group", NCCL, "ProcessGroupNCCL", "off under blocking wait"
    ),
    EnvVariable(
        "NCCL_ASYNC_ERROR_HANDLING", "group", NCCL, "ProcessGroupNCCL", "old name; the TORCH_ name wins"
    ),
    EnvVariable(
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
        "group",
        NCCL,
        "ProcessGroupNCCL",
        "the watchdog sleeps 4 times this",
    ),
    EnvVariable(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        "group",
        NCCL,
        "ProcessGroupNCCL",
        "nothing reads it in nccl2 (torch 2.15)",
    ),
    EnvVariable(
        "TORCH_NCCL_ENABLE_MONITORING",
        "group",
        NCCL,
        "ProcessGroupNCCL",
        "nothing reads it in nccl2 (torch 2.15)",
    ),
    EnvVariable(
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        "group",
        NCCL,
        "ProcessGroupNCCL",
        "blocks on the store where its host is frozen",
    ),
    EnvVariable(
        "TORCH_NCCL_RETHROW_CUDA_ERRORS", "group", NCCL, "ProcessGroupNCCL", "0 also swallows timeouts"
    ),
    EnvVariable("TORCH_NCCL_PROPAGATE_ERROR", "group", NCCL, "ProcessGroupNCCL"),
    EnvVariable("TORCH_NCCL_DESYNC_DEBUG", "group", NCCL, "ProcessGroupNCCL"),
    EnvVariable(
        "TORCH_NCCL_TRACE_BUFFER_SIZE", "group", NCCL, "ProcessGroupNCCL", "old name of TORCH_FR_BUFFER_SIZE"
    ),
    EnvVariable(
        "TORCH_DIST_USE_NCCL2",
        "import",
        NCCL,
        "torch.distributed",
        "0 rolls torch 2.15 back to the legacy group",
    ),
)

VARIABLES: dict[str, EnvVariable] = {variable.name: variable for variable in _KNOWN}
"""What is known, by name."""


def lookup(name: str) -> EnvVariable:
    """Return what is known of ``name``. Every ``NCCL_`` variable is NCCL's own; of any other that is
    unknown the safe assumption is made: read at start-up, and by everything."""
    if name in VARIABLES:
        return VARIABLES[name]
    if name.startswith(("NCCL_", "TORCH_NCCL_")):
        return EnvVariable(name, "group", NCCL, "NCCL")
    return EnvVariable(name, "start-up", BOTH, "unknown")
