"""NVML is asked as its header says: a library that answers in C's way stands for the driver."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import pytest

from chaoskit.gpu import nvml
from chaoskit.gpu.devices import Gpu

GONE = 15  # NVML_ERROR_GPU_IS_LOST


@dataclass
class Driver:
    """Two GPUs, of which the second has no memory to tell of. ``broken`` functions fail."""

    broken: frozenset[str] = frozenset()
    sessions: list[str] = field(default_factory=list)

    def _code(self, name: str) -> int:
        return GONE if name in self.broken else 0

    def nvmlInit_v2(self) -> int:  # noqa: N802 - NVML's own names
        self.sessions.append("open")
        return self._code("init")

    def nvmlShutdown(self) -> int:  # noqa: N802
        self.sessions.append("closed")
        return 0

    def nvmlDeviceGetCount_v2(self, count: object) -> int:  # noqa: N802
        count._obj.value = 2  # type: ignore[attr-defined]
        return self._code("count")

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: object) -> int:  # noqa: N802
        handle._obj.value = 100 + index.value  # type: ignore[attr-defined]
        return self._code("handle")

    def nvmlDeviceGetMemoryInfo(self, handle: ctypes.c_void_p, memory: object) -> int:  # noqa: N802
        if handle.value == 101:
            return GONE
        memory._obj.total, memory._obj.free = 80 << 30, 79 << 30  # type: ignore[attr-defined]
        return 0

    def nvmlDeviceGetComputeMode(self, handle: ctypes.c_void_p, mode: object) -> int:  # noqa: N802
        mode._obj.value = 3 if handle.value == 101 else 0  # type: ignore[attr-defined]
        return 0

    def nvmlDeviceGetName(self, handle: ctypes.c_void_p, text: object, size: ctypes.c_uint) -> int:  # noqa: N802
        assert size.value > 10
        text.value = b"Fake \xff"  # type: ignore[attr-defined]
        return 0

    def nvmlDeviceGetUUID(self, handle: ctypes.c_void_p, text: object, size: ctypes.c_uint) -> int:  # noqa: N802
        text.value = f"GPU-{handle.value}".encode()  # type: ignore[attr-defined]
        return self._code("uuid")

    def nvmlSystemGetDriverVersion(self, text: object, size: ctypes.c_uint) -> int:  # noqa: N802
        text.value = b"580.95.05"  # type: ignore[attr-defined]
        return 0


def test_each_gpu_is_told() -> None:
    driver = Driver()
    assert nvml.gpus(driver) == (
        Gpu(0, "Fake \ufffd", "GPU-100", 80 << 10, 79 << 10),
        Gpu(1, "Fake \ufffd", "GPU-101", compute_mode="exclusive"),
    )
    assert driver.sessions == ["open", "closed"]
    assert nvml.driver(driver) == "580.95.05"


def test_what_one_does_not_tell_is_left_out() -> None:
    assert nvml.gpus(Driver(frozenset({"uuid"})))[0].uuid == ""


@pytest.mark.parametrize("broken", ["init", "count", "handle"])
def test_a_driver_that_does_not_answer_is_an_error(broken: str) -> None:
    driver = Driver(frozenset({broken}))
    with pytest.raises(OSError, match="NVML error 15"):
        nvml.gpus(driver)
    assert driver.sessions == (["open"] if broken == "init" else ["open", "closed"])


def test_an_old_driver_without_a_function_is_an_error() -> None:
    class Old(Driver):
        nvmlDeviceGetCount_v2 = None  # noqa: N815

        def __getattribute__(self, name: str) -> object:
            if name == "nvmlDeviceGetCount_v2":
                raise AttributeError("undefined symbol: nvmlDeviceGetCount_v2")
            return super().__getattribute__(name)

    with pytest.raises(OSError, match="undefined symbol"):
        nvml.gpus(Old())
