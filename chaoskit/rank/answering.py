"""Answers a supervisor that asks for evidence: the flight recorder, and stacks where ptrace is forbidden.

A thread waits to be asked and then writes torch's flight recorder, which only the process itself can read;
it ends with that. It waits in the kernel, without the GIL. ``threading`` does not know it, so the script
neither sees it nor waits for it; a forked child does not have it. While the GIL is held, or the rank is
stopped, it cannot answer.

The stacks of all threads are written by faulthandler, on a signal, and need no GIL.

The flight recorder is the one of gloo and of NCCL: the same function gives both. Only gloo's was tried.
"""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import os
import signal
import sys
import threading
from typing import Final

from chaoskit.rank.exchange import Answer, Exchange
from chaoskit.rank.program import SCRATCH_VARIABLE
from chaoskit.rank.region import Channels

SIGNAL: Final = signal.SIGRTMIN + 10
"""Asks for the stacks. The guards use SIGRTMIN+7 and +9, triggers +8."""
STACKS_FILE: Final = "faulthandler.txt"
RECORDER_FILE: Final = "flight_recorder.json"
THREAD_NAME: Final = "chaoskit-answer"
_ALL_SIGNALS: Final = signal.valid_signals()
_STACK_BYTES: Final = 256 * 1024


def start(channels: Channels, slot: int) -> None:
    """Be ready to be asked, where a supervisor sees this rank live. Never raises: the job goes first."""
    scratch = os.environ.get(SCRATCH_VARIABLE, "")
    if channels.folder or not scratch:
        return
    folder = os.path.join(os.path.dirname(os.path.abspath(scratch)), f"rank{slot}")
    with contextlib.suppress(Exception):
        exchange = Exchange.of_rank(channels.memfd, channels.region)
        with contextlib.suppress(Exception):
            _offer_stacks(exchange, folder)
        _listen(exchange, folder)


def _offer_stacks(exchange: Exchange, folder: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    fd = os.open(os.path.join(folder, STACKS_FILE), flags, 0o600)
    faulthandler.register(SIGNAL, file=fd, all_threads=True, chain=False)
    exchange.tell_stacks(fd, threading.main_thread().ident or 0)


def _listen(exchange: Exchange, folder: str) -> None:
    # No signal of the script's may come to this thread: a blocking call of the main one would not end.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
    size = threading.stack_size(_STACK_BYTES)
    exchange.say(Answer.LISTENS)  # here, as that thread may never get the GIL
    try:
        _thread.start_new_thread(answer_once, (exchange, folder))
    except RuntimeError:
        exchange.say(Answer.NOBODY)
    finally:
        threading.stack_size(size)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def answer_once(exchange: Exchange, folder: str) -> None:
    """The thread: wait, write, end."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{_thread.get_native_id()}/comm", "w") as name:
        name.write(THREAD_NAME)
    if not exchange.wait():
        exchange.say(Answer.NOBODY)
        return
    exchange.say(Answer.AT_IT)
    try:
        exchange.say(_write_recorder(folder))
    except BaseException:  # noqa: BLE001 - nothing of this may show up in what the rank prints
        exchange.say(Answer.FAILED)


def _write_recorder(folder: str) -> Answer:
    # Only what is loaded already: an import here could wait for the script's.
    torch_c10d = sys.modules.get("torch._C._distributed_c10d")
    dump = getattr(torch_c10d, "_dump_fr_trace_json", None)
    distributed = sys.modules.get("torch.distributed")
    if dump is None or distributed is None or not distributed.is_initialized():
        return Answer.NOTHING
    path = os.path.join(folder, RECORDER_FILE)
    beside = f"{path}.tmp"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(dump())
    os.replace(beside, path)
    return Answer.WRITTEN
