"""The variables that are neither torch's nor NCCL's, but change what a rank does. Data only."""

from __future__ import annotations

from typing import Final

from chaoskit.profiles.variable import BOTH, NCCL, EnvVariable

VARIABLES: Final[tuple[EnvVariable, ...]] = (
    EnvVariable(
        "PYTHONFAULTHANDLER", "start-up", BOTH, "Python", kind="set-or-not",
        source="Python's documentation, Command line and environment",
    ),
    EnvVariable("PYTHONUNBUFFERED", "start-up", BOTH, "Python"),
    EnvVariable("PYTHONHASHSEED", "start-up", BOTH, "Python"),
    EnvVariable("PYTHONDEVMODE", "start-up", BOTH, "Python"),
    EnvVariable("PYTHONMALLOC", "start-up", BOTH, "Python"),
    EnvVariable("MALLOC_ARENA_MAX", "start-up", BOTH, "glibc"),
    EnvVariable("LD_PRELOAD", "start-up", BOTH, "the dynamic linker"),
    EnvVariable(
        "OMP_NUM_THREADS", "import", BOTH, "OpenMP", "torchrun sets 1 if it is unset", "threads",
        source="OpenMP 5.2, OMP_NUM_THREADS",
    ),
    EnvVariable(
        "MASTER_PORT", "group", BOTH, "torch.distributed", kind="port",
        source="torch/distributed/rendezvous.py",
    ),
    EnvVariable("MKL_NUM_THREADS", "import", BOTH, "MKL", "", "threads"),
    EnvVariable("CUDA_VISIBLE_DEVICES", "import", NCCL, "CUDA", nccl2=(2, 14)),
    EnvVariable("CUDA_DEVICE_ORDER", "import", NCCL, "CUDA", nccl2=(2, 14)),
    EnvVariable("CUDA_LAUNCH_BLOCKING", "import", NCCL, "CUDA", nccl2=(2, 14)),
    EnvVariable("CUDA_DEVICE_MAX_CONNECTIONS", "import", NCCL, "CUDA", nccl2=(2, 14)),
)  # fmt: skip
