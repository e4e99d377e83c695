"""Asks the NVIDIA driver for its GPUs through NVML, which makes no CUDA context: later forks stay healthy."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from chaoskit.gpu.devices import ComputeMode, Gpu

LIBRARY: Final = "libnvidia-ml.so.1"
_TEXT_BYTES: Final = 96
_MIB: Final = 1 << 20
_MODES: Final[dict[int, ComputeMode]] = {1: "exclusive", 2: "prohibited", 3: "exclusive"}
"""As in nvml.h: 1 exclusive thread, 2 prohibited, 3 exclusive process."""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def gpus(library: Any = None) -> tuple[Gpu, ...]:
    """Return all GPUs of this machine. Raises OSError where there is no driver, or it does not answer.

    ``library`` is what stands for NVML; None: the driver's own.
    """
    try:
        with _session(ctypes.CDLL(LIBRARY) if library is None else library) as nvml:
            count = ctypes.c_uint(0)
            _check(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
            return tuple(_gpu(nvml, index) for index in range(count.value))
    except AttributeError as error:  # a function that this driver does not have
        raise OSError(f"NVML: {error}") from error


def driver(library: Any = None) -> str:
    """Return the version of the driver. Raises OSError."""
    with _session(ctypes.CDLL(LIBRARY) if library is None else library) as nvml:
        return _text(nvml.nvmlSystemGetDriverVersion)


@contextmanager
def _session(nvml: Any) -> Iterator[Any]:
    _check(nvml.nvmlInit_v2())
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _check(code: int) -> None:
    if code != 0:
        raise OSError(f"NVML error {code}")


def _gpu(nvml: Any, index: int) -> Gpu:
    """What cannot be had of one GPU is left out: it is there all the same."""
    handle = ctypes.c_void_p()
    _check(nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)))
    memory, mode = _Memory(), ctypes.c_int(0)
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
        memory = _Memory()
    if nvml.nvmlDeviceGetComputeMode(handle, ctypes.byref(mode)) != 0:
        mode = ctypes.c_int(0)
    return Gpu(
        index,
        _text(nvml.nvmlDeviceGetName, handle),
        _text(nvml.nvmlDeviceGetUUID, handle),
        memory.total // _MIB,
        memory.free // _MIB,
        _MODES.get(mode.value, "default"),
    )


def _text(ask: Any, *of: Any) -> str:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    if ask(*of, buffer, ctypes.c_uint(_TEXT_BYTES)) != 0:
        return ""
    return buffer.value.decode(errors="replace")
