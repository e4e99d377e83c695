"""Run as a process of its own, it tries what would change the process that tries, and says what came of it.

Prints one JSON object: each trial's name and the error's text, "" where it went well. No other use.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
from collections.abc import Callable
from typing import Final

from chaoskit.faults import _file_brake, _private_disk
from chaoskit.hosts import namespaces
from chaoskit.launchers import kernel


class _Range(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_memory_of_a_sibling() -> None:
    """Read 8 bytes of a process that is no descendant, as py-spy does with a rank. Raises OSError."""
    ready_r, ready_w = os.pipe()
    sibling = os.fork()
    if sibling == 0:
        kernel.let_anyone_trace()
        os.write(ready_w, b"1")
        signal.pause()
        os._exit(0)
    try:
        os.read(ready_r, 1)
        error = in_child(lambda: _read_memory(sibling))
        if error:
            raise OSError(error)
    finally:
        os.kill(sibling, signal.SIGKILL)
        os.waitpid(sibling, 0)


def _read_memory(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    source, target = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    there, here = (_Range(ctypes.addressof(b), 8) for b in (source, target))
    if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 8:
        raise OSError(ctypes.get_errno(), f"process_vm_readv: {os.strerror(ctypes.get_errno())}")


def in_child(trial: Callable[[], None]) -> str:
    """Fork, try there, return the error's text or ""."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            trial()
        except BaseException as error:  # noqa: BLE001 - the text is all that matters
            os.write(writer, (str(error) or repr(error)).encode()[:1000])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(pid, 0)
    return text


TRIALS: Final[dict[str, Callable[[], None]]] = {
    "user-namespaces": namespaces.own_user_namespace,
    "network-namespaces": namespaces.own_network_namespace,
    "mount-namespaces": _private_disk.try_out,
    "seccomp-notify": _file_brake.try_out,
    "ptrace": read_memory_of_a_sibling,
}


def main() -> None:
    """Try everything and print what came of it."""
    print(json.dumps({name: in_child(trial) for name, trial in TRIALS.items()}))


if __name__ == "__main__":
    main()
