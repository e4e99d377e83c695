"""What runs in the fork server's process: tie it to the runner, load torch, then serve forks.

The serving is ``multiprocess.forkserver.main``. Around it: the server never outlives the runner, adopts what
a killed warden leaves, and ends it when it ends itself. It stays single-threaded.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
import sys
import traceback
from typing import Final

from chaoskit.launchers import isolation, kernel, sweep, temporary

READY: Final = b"ready\n"
_WARDENS_GRACE_S: Final = 3.0
"""After the runner's end the wardens end their arms by themselves; who is there later is killed."""
_OWN: Final = ("chaoskit.launchers.start", "chaoskit.launchers.warden", "multiprocess.forkserver")
_SINGLE_THREADED: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Libraries that start threads when they are loaded, which a process that forks must not have."""
_ONLY_FOR_LOADING: Final = {**dict.fromkeys(_SINGLE_THREADED, "1"), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""The last keeps ``torch.cuda.is_available()``, which modules ask when they are loaded, from initialising
CUDA: a process that is forked afterwards could not use it."""


def main(listener: int, alive: int, status: int, runner: int, preload: tuple[str, ...]) -> None:
    """Serve until ``alive`` is closed by the runner. ``status`` gets READY or why it is not."""
    kernel.signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != runner:
        return
    kernel.adopt_orphans()
    kernel.set_name("chaoskit-server")
    isolation.try_out()
    if not _load(preload, status):
        sys.exit(1)
    gc.collect()
    gc.freeze()
    kernel.collapse_pages()
    os.write(status, READY)
    os.close(status)
    # From here on the closed pipe tells of the runner's end, and what is left of the arms is ended before
    # the server goes. SIGCONT, because a stopped server would not see the pipe.
    kernel.signal_at_parents_end(signal.SIGCONT)
    from multiprocess import forkserver

    try:
        forkserver.main(listener, alive, [])
    finally:
        signal.set_wakeup_fd(-1)
        sweep.outlive_children(_WARDENS_GRACE_S)
        temporary.remove_all(os.getpid())


def _import(name: str) -> None:
    package = importlib.import_module(name.removesuffix(".*"))
    if name.endswith(".*"):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


def _load(preload: tuple[str, ...], status: int) -> bool:
    unset = [name for name in _ONLY_FOR_LOADING if name not in os.environ]
    os.environ.update((name, _ONLY_FOR_LOADING[name]) for name in unset)
    try:
        for name in (*_OWN, *preload):
            _import(name)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
    except BaseException:  # noqa: BLE001 - the runner reports it
        os.write(status, traceback.format_exc().encode()[-4000:])
        return False
    finally:
        for name in unset:
            os.environ.pop(name, None)
    return True
