"""Finds the user's own line in the current stack.

May not format or read source: it is called inside collectives.
"""

import os
import sys
import sysconfig
import threading
from functools import lru_cache
from types import CodeType, FrameType

import torch

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_HERE) + os.sep
# The built-in training loops stand for the user's script, so their lines count as the user's.
_WORKLOADS = os.path.join(_PACKAGE, "workloads") + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STDLIB = tuple({os.path.abspath(sysconfig.get_path(key)) + os.sep for key in ("stdlib", "platstdlib")})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_Site = tuple[str, int, str]
NOWHERE: _Site = ("", 0, "")

# By the id of the code object: None if it is foreign, else the sites by instruction. A path, the hash of a
# code object, and in a long function the number of a line cost microseconds each. One table for each `skip`.
_Table = dict[int, dict[int, _Site] | None]
_tables: dict[tuple[str, ...], _Table] = {}
_kept: list[CodeType] = []  # so that their ids are never reused


def user_site(skip: tuple[str, ...] = (), depth: int = 1) -> _Site:
    """File, line and function of the innermost frame that is neither torch's, chaoskit's nor the stdlib's.

    `skip` adds path prefixes to leave out; `depth` is the frame to begin at, where the caller (1) knows the
    frames before it not to be the user's. On a thread that has no such frame (autograd's, for a GPU) the
    main thread's stack is taken: it waits in backward(). ("", 0, "") if there is none either.
    """
    table = _tables[skip] if skip in _tables else _tables.setdefault(skip, {})
    frame: FrameType | None
    try:
        frame = sys._getframe(depth)
    except ValueError:  # called from C++ on a thread of its own
        frame = None
    elsewhere = False
    while True:
        while frame is not None:
            try:
                sites = table[id(frame.f_code)]
            except KeyError:
                sites = _learn(frame.f_code, table, skip)
            if sites is not None:
                at = frame.f_lasti
                if at in sites:
                    return sites[at]
                code = frame.f_code
                site = sites[at] = (code.co_filename, frame.f_lineno, code.co_name)
                return site
            frame = frame.f_back
        main = threading.main_thread().ident
        if elsewhere or main is None or threading.get_ident() == main:
            return NOWHERE
        elsewhere, frame = True, sys._current_frames().get(main)


@lru_cache(maxsize=4096)
def is_users(path: str) -> bool:
    """Return whether code of the file ``path`` is the user's own."""
    return not _is_foreign(path, ())


def _learn(code: CodeType, table: _Table, skip: tuple[str, ...]) -> dict[int, _Site] | None:
    _kept.append(code)
    return table.setdefault(id(code), None if _is_foreign(code.co_filename, skip) else {})


def _is_foreign(path: str, skip: tuple[str, ...]) -> bool:
    if path.startswith("<frozen") or path.startswith(skip):
        return True
    if path.startswith("<"):  # <stdin>, <string>: typed by the user
        return False
    path = os.path.abspath(path)
    if path.startswith(_WORKLOADS):
        return False
    if path.startswith((_TORCH, _PACKAGE)):
        return True
    return path.startswith(_STDLIB) and not any(part in path for part in _INSTALLED)
