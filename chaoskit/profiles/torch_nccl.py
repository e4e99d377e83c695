"""The variables of torch's NCCL groups. Data only.

Sources, where no other is named: the lists of names in ``torch/include/torch/csrc/distributed/c10d/
{ProcessGroupNCCL,FlightRecorder,NCCLUtils}.hpp`` of the wheels of torch 2.4.1, 2.5.1, 2.6.0, 2.7.1, 2.8.0,
2.9.1, 2.10.0, 2.11.0, 2.12.0, 2.13.0, 2.14.1 and 2.15.0; how values are read in ``Utils.hpp`` (getCvarBool,
getCvarInt) there; the names that stand in ``libtorch_cuda.so`` of 2.6.0 and 2.14.1. What nccl2 reads:
pytorch/pytorch ``torch/csrc/distributed/c10d/nccl2/ProcessGroupNCCLBackend.cpp`` and pull request 192280,
compared with the headers of 2.14.1 and 2.15.0.
"""

from __future__ import annotations

from typing import Final

from chaoskit.profiles.variable import BOTH, NCCL, EnvVariable, Kind, Unit, Version

_GROUP: Final = "ProcessGroupNCCL"
_HEADERS: Final = "ProcessGroupNCCL.hpp, torch 2.4 to 2.15"
_NCCL2: Final = "ProcessGroupNCCL.hpp, torch 2.4 to 2.15; pytorch/pytorch#192280"


def _flag(name: str, note: str = "", **more: object) -> EnvVariable:
    return _entry(name, "torch-flag", note, **more)


def _number(name: str, note: str = "", unit: Unit = "", **more: object) -> EnvVariable:
    return _entry(name, "torch-int", note, unit=unit, **{"low": 0, **more})


def _entry(name: str, kind: Kind, note: str, **more: object) -> EnvVariable:
    values: dict[str, object] = {"source": _HEADERS, **more}
    return EnvVariable(name, "group", NCCL, _GROUP, note, kind, **values)  # type: ignore[arg-type]  # its fields


def _old(name: str, new: EnvVariable) -> EnvVariable:
    """The name before torch 2.2, which is still read: the TORCH_ name wins."""
    return EnvVariable(
        name, "group", NCCL, _GROUP, "old name; the TORCH_ name wins", new.kind, new.default,
        low=new.low, high=new.high, nccl2=new.nccl2, replaced_by=new.name, replaced_since=(2, 2),
        source=new.source,
    )  # fmt: skip


_READ: Final[Version] = (2, 15)

BLOCKING_WAIT: Final = _flag(
    "TORCH_NCCL_BLOCKING_WAIT",
    "turns async error handling and the watchdog off",
    default="0", nccl2=_READ, source=_NCCL2,
)  # fmt: skip
ASYNC_ERROR_HANDLING: Final = _number(
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "off under blocking wait",
    default="3", high=3, nccl2=(2, 14), source=_NCCL2,
)  # fmt: skip
DESYNC_DEBUG: Final = _flag("TORCH_NCCL_DESYNC_DEBUG", default="0", nccl2="never")
ENABLE_TIMING: Final = _flag("TORCH_NCCL_ENABLE_TIMING", default="0", nccl2=_READ, source=_NCCL2)
ALLOCATOR_HOOK: Final = _flag("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", default="0", nccl2="never")

VARIABLES: Final[tuple[EnvVariable, ...]] = (
    BLOCKING_WAIT,
    _old("NCCL_BLOCKING_WAIT", BLOCKING_WAIT),
    ASYNC_ERROR_HANDLING,
    _old("NCCL_ASYNC_ERROR_HANDLING", ASYNC_ERROR_HANDLING),
    _number(
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "the watchdog sleeps 4 times this", "ms",
        default="15000", nccl2=_READ, source="ProcessGroupNCCL.hpp; on nccl2 FlightRecorder.hpp, torch 2.15",
    ),
    _number(
        "TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC", "bounds one dump of the flight recorder", "ms",
        default="15000", since=(2, 15), nccl2=_READ, source="FlightRecorder.hpp, torch 2.15",
    ),
    _number(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "nothing reads it in nccl2 (torch 2.15)", "s",
        default="480 (600 in torch 2.4)", nccl2="never",
        source="ProcessGroupNCCL.hpp; pytorch/pytorch#133028; no heartbeat monitor in the nccl2 of 2.15.0",
    ),
    _flag(
        "TORCH_NCCL_ENABLE_MONITORING", "nothing reads it in nccl2 (torch 2.15)",
        default="1", nccl2="never",
        source="ProcessGroupNCCL.hpp; no heartbeat monitor in the nccl2 of 2.15.0",
    ),
    _flag(
        "TORCH_NCCL_DUMP_ON_TIMEOUT", "blocks on the store where its host is frozen",
        default="1", nccl2=_READ, source="ProcessGroupNCCL.hpp; on nccl2 FlightRecorder.hpp, torch 2.15",
    ),
    _flag(
        "TORCH_FR_DUMP_ON_TIMEOUT", default="1", since=(2, 15), nccl2=_READ,
        source="FlightRecorder.hpp, torch 2.15",
    ),
    _flag("TORCH_NCCL_RETHROW_CUDA_ERRORS", "0 also swallows timeouts", default="1", nccl2="never"),
    _flag("TORCH_NCCL_TEARDOWN_ON_TIMEOUT", default="0", since=(2, 15), source="ProcessGroupNCCL.hpp, 2.15"),
    _flag("TORCH_NCCL_PROPAGATE_ERROR", default="0", since=(2, 7), nccl2="never"),
    DESYNC_DEBUG,
    _old("NCCL_DESYNC_DEBUG", DESYNC_DEBUG),
    ENABLE_TIMING,
    _old("NCCL_ENABLE_TIMING", ENABLE_TIMING),
    ALLOCATOR_HOOK,
    _old("NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", ALLOCATOR_HOOK),
    _flag("TORCH_NCCL_HIGH_PRIORITY", default="0", nccl2=_READ, source=_NCCL2),
    _flag("TORCH_NCCL_CUDA_EVENT_CACHE", default="1", since=(2, 5), nccl2=_READ, source=_NCCL2),
    _flag("TORCH_NCCL_NAN_CHECK", "on nccl2 it is TORCH_DIST_NAN_CHECK", default="0", nccl2="never"),
    _number("TORCH_NCCL_COORD_CHECK_MILSEC", "", "ms", default="1000", nccl2="never"),
    _flag("TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", default="1", since=(2, 5), nccl2="never"),
    _flag("TORCH_NCCL_BCAST_UNIQUEID", default="1", since=(2, 5)),
    _number("TORCH_NCCL_RANKS_PER_ROOT", default="128", since=(2, 7)),
    _flag("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", default="1", since=(2, 9)),
    _flag("TORCH_NCCL_EXTRA_DUMP_ON_EXEC", default="0", since=(2, 10)),
    _flag(
        "TORCH_NCCL_AVOID_RECORD_STREAMS", "what it asks for became the default", default="1", until=(2, 15)
    ),
    _entry(
        "TORCH_NCCL_USE_COMM_NONBLOCKING", "zero-or-one", "", default="0", nccl2=_READ,
        source="ProcessGroupNCCL.cpp (check_env); libtorch_cuda.so, 2.6 and 2.14; pytorch/pytorch#192280",
    ),
    _entry(
        "TORCH_NCCL_NONBLOCKING_TIMEOUT", "torch-int", "", unit="s", default="1800",
        source="NCCLUtils.cpp (stoi); libtorch_cuda.so, 2.6 and 2.14",
    ),
    _entry("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "text", "a prefix of a path"),
    _flag(
        "TORCH_NCCL_ABORT_IN_DESTROY_PG", default="0", until=(2, 4),
        source="pytorch/pytorch#128204 lists it; in no header from 2.4 on",
    ),
    EnvVariable(
        "TORCH_DIST_USE_NCCL2", "import", NCCL, "torch.distributed",
        "0 rolls torch 2.15 back to the legacy group", since=(2, 14), nccl2=(2, 14),
        source="torch/distributed/distributed_c10d.py, 2.14.1 and 2.15.0",
    ),
    EnvVariable(
        "TORCH_DIST_NAN_CHECK", "group", BOTH, "torch.distributed", kind="only-one", default="0",
        since=(2, 14), source="torch/distributed/distributed_c10d.py, 2.14.1 and 2.15.0",
    ),
)  # fmt: skip
