"""The variables of torch that are no NCCL group's: torch.distributed, its flight recorder, gloo, torchrun,
the allocator. Data only. Sources as in :mod:`chaoskit.profiles.torch_nccl`, and the Python files and
libraries of the same wheels."""

from __future__ import annotations

from typing import Final

from chaoskit.profiles.variable import BOTH, GLOO, NCCL, EnvVariable, Version

_FR: Final = "torch's flight recorder"
_FR_SOURCE: Final = "FlightRecorder.hpp (before 2.6 NCCLUtils.hpp), torch 2.4 to 2.15"
_ELASTIC: Final = "torchrun"
_CPU: Final = "libtorch_cpu"
_NO_CHECK: Final = "names in the Python files of torch 2.4 to 2.15"

DETAIL_ENDS_HEALTHY_DDP_SINCE: Final[Version] = (2, 13)
"""From this torch on TORCH_DISTRIBUTED_DEBUG=DETAIL ends healthy DDP jobs on gloo: signal 11."""
DETAIL_SEEN: Final = "`chaoskit claims debug-detail` on torch 2.13.0, 2.14.1 and 2.15.0; on 2.6.0 it did not"
"""Where that was seen: docs/claims, which a test compares with this."""

VARIABLES: Final[tuple[EnvVariable, ...]] = (
    EnvVariable(
        "TORCH_DISTRIBUTED_DEBUG", "import", BOTH, "torch.distributed",
        "DETAIL ends healthy DDP jobs on gloo from torch 2.13 on", "torch-word", "OFF",
        ("OFF", "INFO", "DETAIL"),
        source="torch/csrc/distributed/c10d/debug.cpp",
    ),
    EnvVariable(
        "TORCH_DIST_INIT_BARRIER", "group", BOTH, "torch.distributed", kind="only-one", default="0",
        source="torch/distributed/distributed_c10d.py",
    ),
    EnvVariable(
        "TORCH_FR_BUFFER_SIZE", "group", BOTH, _FR, "", "torch-int", "2000", low=0, since=(2, 8),
        nccl2=(2, 14), source=_FR_SOURCE,
    ),
    EnvVariable(
        "TORCH_NCCL_TRACE_BUFFER_SIZE", "group", BOTH, _FR, "old name of TORCH_FR_BUFFER_SIZE", "torch-int",
        "2000 (0 before torch 2.8)", low=0, replaced_by="TORCH_FR_BUFFER_SIZE", replaced_since=(2, 8),
        source=_FR_SOURCE,
    ),
    EnvVariable(
        "TORCH_FR_CPP_STACK", "group", BOTH, _FR, "", "torch-flag", "0", since=(2, 8), source=_FR_SOURCE
    ),
    EnvVariable(
        "TORCH_NCCL_TRACE_CPP_STACK", "group", BOTH, _FR, "old name of TORCH_FR_CPP_STACK", "torch-flag", "0",
        replaced_by="TORCH_FR_CPP_STACK", replaced_since=(2, 8), source=_FR_SOURCE,
    ),
    EnvVariable("TORCH_FR_DUMP_TEMP_FILE", "group", BOTH, _FR, "a prefix of a path", since=(2, 8)),
    EnvVariable(
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "group", BOTH, _FR, "old name of TORCH_FR_DUMP_TEMP_FILE",
        replaced_by="TORCH_FR_DUMP_TEMP_FILE", replaced_since=(2, 8),
        source="libtorch_cpu, torch 2.8 to 2.15",
    ),
    EnvVariable("TORCH_FR_DUMP_DYNAMIC_FILE_NAME", "group", BOTH, _FR, since=(2, 10), source="libtorch_cpu"),
    EnvVariable(
        "TORCH_INCLUDE_STACK_TRACE", "group", BOTH, _FR, "", "torch-flag", "1", since=(2, 10),
        source="FlightRecorder.hpp, torch 2.10 to 2.15",
    ),
    EnvVariable(
        "TORCH_INCLUDE_ONLY_ACTIVE", "group", BOTH, _FR, "", "torch-flag", "0", since=(2, 10),
        source="FlightRecorder.hpp, torch 2.10 to 2.15",
    ),
    # gloo
    EnvVariable(
        "TORCH_GLOO_LAZY_INIT", "group", GLOO, "ProcessGroupGloo",
        "a missing peer shows at the first operation", "torch-flag", "0", since=(2, 8),
        source="ProcessGroupGloo.hpp, torch 2.8 to 2.15",
    ),
    EnvVariable(
        "GLOO_SOCKET_IFNAME", "group", GLOO, "ProcessGroupGloo", "exact names, separated by commas",
        "gloo-interfaces", source="libtorch_cpu, torch 2.4 to 2.15; tried on 2.13",
    ),
    EnvVariable("GLOO_DEVICE_TRANSPORT", "group", GLOO, "ProcessGroupGloo", source="libtorch_cpu, 2.4 on"),
    EnvVariable("GLOO_DEVICE_TRANSPORT_TCP_TLS_PKEY", "group", GLOO, "ProcessGroupGloo"),
    EnvVariable("GLOO_DEVICE_TRANSPORT_TCP_TLS_CERT", "group", GLOO, "ProcessGroupGloo"),
    EnvVariable("GLOO_DEVICE_TRANSPORT_TCP_TLS_CA_FILE", "group", GLOO, "ProcessGroupGloo"),
    EnvVariable("GLOO_DEVICE_TRANSPORT_TCP_TLS_CA_PATH", "group", GLOO, "ProcessGroupGloo"),
    EnvVariable("GLOO_LOG_LEVEL", "group", GLOO, "gloo", since=(2, 11), source="libtorch_cpu"),
    EnvVariable("GLOO_DISABLE_CONNECTION_RETRIES", "group", GLOO, "gloo", since=(2, 8), source=_CPU),
    EnvVariable("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "group", GLOO, "gloo", since=(2, 8)),
    EnvVariable("GLOO_ENABLE_STORE_V2_API", "group", GLOO, "gloo", since=(2, 8), source="libtorch_cpu"),
    EnvVariable("TP_SOCKET_IFNAME", "group", GLOO, "tensorpipe"),
    # torch itself
    EnvVariable("TORCH_CPP_LOG_LEVEL", "import", BOTH, "torch"),
    EnvVariable("TORCH_SHOW_CPP_STACKTRACES", "import", BOTH, "torch"),
    EnvVariable(
        "PYTORCH_CUDA_ALLOC_CONF", "import", NCCL, "torch's CUDA allocator", "old name of PYTORCH_ALLOC_CONF",
        replaced_by="PYTORCH_ALLOC_CONF", replaced_since=(2, 9), nccl2=(2, 14),
        source="torch/cuda/memory.py, 2.9.1 to 2.15.0",
    ),
    EnvVariable(
        "PYTORCH_ALLOC_CONF", "import", NCCL, "torch's CUDA allocator", since=(2, 9), nccl2=(2, 14),
        source="torch/cuda/memory.py, 2.9.1 to 2.15.0",
    ),
    EnvVariable(
        "PYTORCH_HIP_ALLOC_CONF", "import", NCCL, "torch's HIP allocator", since=(2, 8), nccl2=(2, 14)
    ),
    EnvVariable("PYTORCH_NVML_BASED_CUDA_CHECK", "import", NCCL, "torch.cuda", nccl2=(2, 14)),
    EnvVariable("TORCH_WORKER_SERVER_SOCKET", "import", BOTH, "torch.distributed.elastic", source=_NO_CHECK),
    # torchrun and its workers
    EnvVariable(
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "start-up", BOTH, _ELASTIC, "seconds between SIGTERM and SIGKILL",
        "torch-int", "30", low=0, unit="s", since=(2, 12), source="torch/distributed/launcher/api.py",
    ),
    EnvVariable("TORCH_ELASTIC_WORKER_IDENTICAL", "start-up", BOTH, _ELASTIC, since=(2, 6), source=_NO_CHECK),
    EnvVariable("TORCHELASTIC_SIGNALS_TO_HANDLE", "start-up", BOTH, _ELASTIC, since=(2, 10)),
    EnvVariable(
        "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "start-up", BOTH, _ELASTIC, since=(2, 13),
        source=_NO_CHECK,
    ),
    *(
        EnvVariable(f"TORCHELASTIC_{name}", "start-up", BOTH, _ELASTIC, source=_NO_CHECK)
        for name in (
            "ENABLE_FILE_TIMER", "ERROR_FILE", "ETCD_BINARY_PATH", "HEALTH_CHECK_PORT",
            "LOG_LINE_PREFIX_TEMPLATE", "MAX_RESTARTS", "RESTART_COUNT", "RUN_ID", "TIMER_FILE",
            "USE_AGENT_STORE",
        )
    ),
)  # fmt: skip
