"""Finds the user's own line in the current stack.

May not format or read source: it is called inside collectives.
"""

import os
import sys
import sysconfig
import threading
from types import CodeType, FrameType

import torch

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_HERE) + os.sep
# The built-in training loops stand for the user's script, so their lines count as the user's.
_WORKLOADS = os.path.join(_PACKAGE, "workloads") + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_STDLIB = tuple({os.path.abspath(sysconfig.get_path(key)) + os.sep for key in ("stdlib", "platstdlib")})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

NOWHERE = ("", 0, "")

# By the id of the code object: a path, or the hash of a code object, costs microseconds. The object is kept,
# so its id is never reused. One table for each value of `skip`.
_Table = dict[int, tuple[bool, CodeType]]
_foreign: dict[tuple[str, ...], _Table] = {}


def user_site(skip: tuple[str, ...] = ()) -> tuple[str, int, str]:
    """File, line and function of the innermost frame that is neither torch's, chaoskit's nor the stdlib's.

    `skip` adds path prefixes to leave out. On a thread that has no such frame (autograd's, for a GPU) the
    main thread's stack is taken: it waits in backward(). ("", 0, "") if there is none either.
    """
    table = _foreign.get(skip)
    if table is None:
        table = _foreign[skip] = {}
    site = _innermost(sys._getframe(1), table, skip)
    if site is NOWHERE and threading.get_ident() != threading.main_thread().ident:
        main = threading.main_thread().ident
        site = _innermost(sys._current_frames().get(main or 0), table, skip)
    return site


def _innermost(frame: FrameType | None, table: _Table, skip: tuple[str, ...]) -> tuple[str, int, str]:
    while frame is not None:
        code = frame.f_code
        known = table.get(id(code))
        if known is None:
            known = table[id(code)] = (_is_foreign(code.co_filename, skip), code)
        if not known[0]:
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return NOWHERE


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
