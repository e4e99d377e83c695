"""Who listens, in which order.

The first listener added is the outermost: it sees the call as the program made it, and the others see what it
passes on. A fault is therefore added before the guards that have to notice it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from torch.distributed import Work

from chaoskit.intercept.call import Call

Proceed = Callable[[], Work | None]


class Listener(Protocol):
    """What a listener must have. It may also have any of these, which are called if they are there:

    - `init_enter()` and `init_done(error: BaseException | None)`, around init_process_group;
    - `group_made(name: str, ranks: tuple[int, ...], timeout_s: float | None)`, for each group of this rank.

    What a listener raises reaches the program as if the collective had raised it.
    """

    def around(self, call: Call, proceed: Proceed) -> Work | None:
        """Called before the call is issued, on the issuing thread (for DDP on a GPU one of autograd's).

        Return what `proceed()` returned, or another Work (see `finished`) to skip the call.
        """
        ...

    def done(self, call: Call, error: BaseException | None) -> None:
        """Called once per call, when it has ended; `chaoskit.intercept.work` says how soon."""
        ...


class Registry:
    """The bound methods of all listeners, ready to call. Replaced as a whole: readers need no lock."""

    __slots__ = ("_listeners", "chain", "dones")

    def __init__(self) -> None:
        self._set(())

    def _set(self, listeners: tuple[Listener, ...]) -> None:
        self._listeners = listeners
        # The outermost, and the others reversed, as a chain is built from the inside out.
        others = tuple(listener.around for listener in reversed(listeners[1:]))
        self.chain = (listeners[0].around, others) if listeners else None
        self.dones = tuple(listener.done for listener in listeners)

    def add(self, listener: Listener) -> None:
        if any(known is listener for known in self._listeners):
            raise ValueError(f"{listener!r} is listening already")
        self._set((*self._listeners, listener))

    def remove(self, listener: Listener) -> None:
        kept = tuple(known for known in self._listeners if known is not listener)
        if len(kept) == len(self._listeners):
            raise ValueError(f"{listener!r} is not listening")
        self._set(kept)

    def notify(self, event: str, *args: Any) -> None:
        """Call the optional method `event` of every listener that has it."""
        for listener in self._listeners:
            method = getattr(listener, event, None)
            if method is not None:
                method(*args)


registry = Registry()


def add(listener: Listener) -> None:
    """Let `listener` see every collective from now on, inside those added before it.

    ValueError if it is listening already.
    """
    registry.add(listener)


def remove(listener: Listener) -> None:
    """Stop `listener`; calls in flight no longer report to it. ValueError if it is not listening."""
    registry.remove(listener)
