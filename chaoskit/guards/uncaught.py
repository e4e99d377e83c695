"""One place for what happens to an exception that nobody catches, shared by the guards that decide on it.

Keeps its hook outermost: torch puts its own around ``sys.excepthook`` when a process group forms and
prints what the inner hooks wrote only after they return, so ending the process inside would lose the
traceback. May not decide anything: deciders do.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NoReturn

from chaoskit.guards import torch_hooks
from chaoskit.guards.context import GuardContext

Where = Literal["main", "thread", "destroy"]
"""Uncaught in the main thread; uncaught in another; being handled while destroy_process_group() is called."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The decision to end this process now. ``local``: what is wrong is wrong on this very rank; ``blames``:
    the hosts, interfaces or links that are to blame."""

    guard: str
    exit_code: int
    message: str
    local: bool = False
    blames: tuple[str, ...] = ()


Decider = Callable[[BaseException, Where], "Ending | None"]


class _Uncaught:
    def __init__(self) -> None:
        self.deciders: list[tuple[int, Decider, GuardContext]] = []
        self.process = 0
        self.ending = False
        self.top: object = None

    def before_init(self, given: dict[str, Any]) -> None:
        """Nothing to do."""

    def after_init(self, given: dict[str, Any], error: BaseException | None) -> None:
        self.attach()

    def attach(self) -> None:
        """Make this the outermost hook of the main thread."""
        if sys.excepthook is self.top:
            return
        previous = sys.excepthook

        def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            if self.ending or os.getpid() != self.process:  # an inner turn of ours, or a forked child
                previous(kind, error, trace)
                return
            self.ending = True
            with contextlib.suppress(Exception):
                previous(kind, error, trace)
            self.end_if_decided(error, "main")
            self.ending = False

        sys.excepthook = self.top = excepthook

    def attach_threads(self) -> None:
        previous = threading.excepthook

        def excepthook(args: threading.ExceptHookArgs, /) -> None:
            previous(args)
            if args.exc_value is not None and os.getpid() == self.process:
                self.end_if_decided(args.exc_value, "thread")

        threading.excepthook = excepthook

    def end_if_decided(self, error: BaseException, where: Where) -> None:
        for _, decide, context in self.deciders:
            ending = decide(error, where)
            if ending is not None:
                end(context, ending)


_uncaught = _Uncaught()


def on_uncaught(decide: Decider, context: GuardContext, priority: int) -> None:
    """Ask ``decide`` about every exception that nobody catches (lowest ``priority`` first), in this process
    only, and about one that is being handled when the script calls ``destroy_process_group()``."""
    if not _uncaught.deciders:
        _uncaught.process = os.getpid()
        _uncaught.attach()
        _uncaught.attach_threads()
        torch_hooks.around_init(_uncaught)
        torch_hooks.replace("destroy_process_group", _asking_first)
    _uncaught.deciders.append((priority, decide, context))
    _uncaught.deciders.sort(key=lambda entry: entry[0])


def end(context: GuardContext, ending: Ending, before_exit: Callable[[], object] = lambda: None) -> NoReturn:
    """End this process without any teardown: it could wait for peers that are gone. ``before_exit`` is called
    once it is said why, and must not take long."""
    context.fired(ending.guard, ending.exit_code, ending.message, ending.local, ending.blames)
    before_exit()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(ending.exit_code)


def _asking_first(original: Callable[..., Any]) -> Callable[..., Any]:
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        error = sys.exc_info()[1]
        if error is not None and not _uncaught.ending and os.getpid() == _uncaught.process:
            for _, decide, context in _uncaught.deciders:
                ending = decide(error, "destroy")
                if ending is not None:
                    _uncaught.ending = True
                    with contextlib.suppress(Exception):
                        sys.excepthook(type(error), error, error.__traceback__)  # only prints: we are ending
                    end(context, ending)
        return original(*args, **kwargs)

    return destroy_process_group
