"""Tells a lost peer, a timeout and an out-of-memory apart from a bug of the script's own.

Reads exceptions only: their types and texts, through the whole chain of causes. The texts are those
of torch 2.4 to 2.13 (gloo, NCCL, the stores).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from chaoskit.history import ErrorCategory

_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE
)
_CONFIGURATION = re.compile(
    r"EADDRINUSE|address already in use|name or service not known|temporary failure in name resolution"
    r"|could not resolve|Unable to find address for|environment variable \w+ expected|rank (?:< size|>= 0)"
    r"|Duplicate GPU detected|Multiple Ranks are using the same GPU",
    re.IGNORECASE,
)
_MISMATCH = re.compile(
    r"Detected mismatch between collectives|op\.preamble\.length|collective.*inconsistent", re.IGNORECASE
)
_TIMEOUT = re.compile(r"tim(?:ed|e) ?out|timeout|monitoredBarrier", re.IGNORECASE)
_LOST = re.compile(r"Connection (?:closed|reset) by peer|Connection reset", re.IGNORECASE)
_DISTRIBUTED = re.compile(
    r"gloo|Connection (?:closed|reset) by peer|\bNCCL\b|ncclRemoteError|ncclSystemError|ProcessGroup"
    r"|waiting for (?:clients|key)|monitoredBarrier|TCPStore|c10d|caused pair closure|Socket closed",
)


def category(error: BaseException) -> ErrorCategory:
    """Return what ``error`` is about, seen through its whole chain of causes and contexts.

    Out of memory wins wherever it is in the chain: what follows it is its consequence. Then the
    outermost error of torch.distributed; an own exception raised because of it does not hide it.
    """
    found = [_own_category(link) for link in chain(error)]
    if "out_of_memory" in found:
        return "out_of_memory"
    return next((c for c in found if c != "own"), "own")


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and everything that it was raised from or while handling, outermost first, once
    each."""
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [e for e in (link.__cause__, link.__context__) if e is not None]
        waiting += getattr(link, "exceptions", ())  # ExceptionGroup


def first_line(error: BaseException, limit: int = 160) -> str:
    """Return type and message of ``error`` in one line of at most ``limit`` characters of message."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:limit]}{'…' if len(text) > limit else ''}"


def _own_category(error: BaseException) -> ErrorCategory:
    text = str(error)
    if isinstance(error, MemoryError) or _is_a(error, "torch", "OutOfMemoryError"):
        return "out_of_memory"
    if not isinstance(error, (RuntimeError, ValueError)):
        return "own"
    distributed = _is_a(error, "torch.distributed", "DistError")
    if isinstance(error, RuntimeError) and not distributed and _MEMORY.search(text):
        return "out_of_memory"
    if (distributed or "rendezvous" in text or "gloo" in text) and _CONFIGURATION.search(text):
        return "configuration"
    if not distributed and not (isinstance(error, RuntimeError) and _DISTRIBUTED.search(text)):
        return "own"
    if _MISMATCH.search(text):
        return "mismatch"
    return "timeout" if _TIMEOUT.search(text) and not _LOST.search(text) else "peer_lost"


def _is_a(error: BaseException, module: str, name: str) -> bool:
    """Is it an instance of a class of a module that may not be imported?"""
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(error, cls)
