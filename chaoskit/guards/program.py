"""Runs the user's program in this process as Python would: as ``__main__``, with its arguments and its path.

Nothing of the program is touched. What Python does when it ends (a traceback, a code) is left to Python.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import runpy
import sys
import sysconfig
import types
from collections.abc import Callable

import chaoskit

_PACKAGE = os.path.dirname(os.path.abspath(chaoskit.__file__)) + os.sep
_LIBRARIES = tuple({os.path.abspath(sysconfig.get_path(key)) + os.sep for key in ("stdlib", "platstdlib")})
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", "<frozen")


def as_it_is(source: bytes, path: str) -> types.CodeType:
    """Return the program as Python compiles it."""
    code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    return code


def run_script(
    path: str, arguments: list[str], compiled: Callable[[bytes, str], types.CodeType] = as_it_is
) -> None:
    """Run a file to its end. What it raises, SystemExit included, comes out of here."""
    sys.argv = [path, *arguments]
    # As for `python train.py`: its folder comes first, and the current one is not on the path. What stands
    # there is the folder of the `-m` or the empty name of whoever started this interpreter.
    folder = os.path.dirname(os.path.realpath(path))
    if sys.path and sys.path[0] in ("", os.getcwd()):
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)
    with open(path, "rb") as file:
        code = compiled(file.read(), path)
    main = types.ModuleType("__main__")
    # A worker that is spawned looks here for the file to import again.
    vars(main).update(
        __file__=path,
        __builtins__=builtins,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
        __spec__=None,
        __annotations__={},
    )
    sys.modules["__main__"] = main  # stays there: what the program holds is freed when Python would free it
    exec(code, vars(main))  # noqa: S102 - the user's own program is what is to be run


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module to its end, as ``python -m`` does."""
    sys.argv = [name, *arguments]
    if not sys.path or sys.path[0] not in ("", os.getcwd()):
        sys.path.insert(0, os.getcwd())
    sys.modules["__main__"] = types.ModuleType("__main__")
    vars(sys.modules["__main__"])["__builtins__"] = builtins
    runpy._run_module_as_main(name, alter_argv=True)  # type: ignore[attr-defined]  # what python itself calls


def is_done(leaving: SystemExit) -> bool:
    """Return whether ``sys.exit`` was the program's normal way out: success, from its top level, or from a
    library that runs it (click, absl). In the midst of a function of its own it is somebody who leaves, and
    so it is where an error is being handled: what was to follow did not happen."""
    if leaving.code not in (None, 0) or _is_error(leaving.__context__):
        return False
    trace, code = leaving.__traceback__, None
    while trace is not None:
        code, trace = trace.tb_frame.f_code, trace.tb_next
    return code is not None and (code.co_name == "<module>" or _is_library(code.co_filename))


def _is_error(handled: BaseException | None) -> bool:
    # click ends every command by an exception of its own that says with which code.
    return isinstance(handled, Exception) and getattr(handled, "exit_code", None) != 0


def hide_own_frames() -> None:
    """Let a traceback that Python prints begin in the program. Called before anything else hooks in."""
    previous = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
    ) -> None:
        while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        previous(kind, error.with_traceback(trace), trace)

    sys.excepthook = excepthook


def _is_ours(path: str) -> bool:
    """Frames above the program's first: ours and those of ``python -m``."""
    return path.startswith(_PACKAGE) or path == "<frozen runpy>"


def _is_library(path: str) -> bool:
    return path.startswith(_LIBRARIES) or any(part in path for part in _INSTALLED)
